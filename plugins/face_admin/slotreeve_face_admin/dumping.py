"""All services with all instances, as a stream of lines."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Annotated

from msgspec import Meta, Struct
from slotreeve.errors import Backpressure, SlotreeveError
from slotreeve.model.data_info import MAX_LENGTH
from slotreeve.model.text import check_text
from slotreeve_client.dumps import DumpedService, DumpEnd, dumped
from slotreeve_gateway import Registry, Right
from slotreeve_gateway.rest import Answer, Handler, RestCall, RestOperation
from starlette.responses import Response, StreamingResponse

from slotreeve_face_admin.acts import PREFIX
from slotreeve_face_admin.documents import encode

log = logging.getLogger("slotreeve.face.admin")

LINES = "application/x-ndjson"
MOST_DUMPS = 4
"""So many dumps at a time; each reads every slot."""
CHUNK_BYTES = 64 * 1024
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class DumpQuery(Struct, forbid_unknown_fields=True, frozen=True):
    """Which services."""

    prefix: Annotated[str, Meta(description="Only services whose ids begin so.")] = ""


class Dumping:
    """Reads from the leaders of the slots while its caller reads: a caller that is slow holds up nobody."""

    def __init__(self, registry: Registry) -> None:
        self._registry, self._running = registry, 0

    def operations(self) -> list[RestOperation[Handler]]:
        """What operators may ask."""
        says = (
            "A line for each service, then one with services, providers and problem: without it the dump was cut off."
        )
        return [
            RestOperation(
                "GET",
                f"{PREFIX}/dump",
                "dump",
                "All services with all instances, as lines of JSON. Those of one service are of one moment.",
                self._dump,
                {200: Answer(says, DumpedService, LINES), 503: Answer("Others are dumping already.")},
                Right.OPERATE,
                DumpQuery,
                for_all=True,
            )
        ]

    async def _dump(self, call: RestCall) -> Response:
        query: DumpQuery = call.query
        check_text("the prefix", query.prefix, MAX_LENGTH)
        if self._running >= MOST_DUMPS:
            raise Backpressure(f"{MOST_DUMPS} dumps are on their way already; try again later")
        if call.request.method == "HEAD":
            return Response(media_type=LINES, headers=_HEADERS)
        return StreamingResponse(self._lines(query.prefix), media_type=LINES, headers=_HEADERS)

    async def _lines(self, prefix: str) -> AsyncIterator[bytes]:
        services = providers = 0
        waiting = bytearray()
        end = DumpEnd(0, 0)
        self._running += 1
        try:
            async for name, found in self._registry.dump(prefix):
                waiting += encode(dumped(name, found)) + b"\n"
                services, providers = services + 1, providers + len(found)
                if len(waiting) >= CHUNK_BYTES:
                    yield bytes(waiting)
                    waiting.clear()
            end = DumpEnd(services, providers)
        except SlotreeveError as error:
            log.warning("a dump ends early: %s", error)
            end = DumpEnd(services, providers, str(error), error.code)
        finally:
            self._running -= 1
        yield bytes(waiting) + encode(end) + b"\n"
