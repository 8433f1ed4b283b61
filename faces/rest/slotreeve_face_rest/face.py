"""REST under ``/v1``."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from slotreeve.ports import Context
from slotreeve_gateway import Gateway, Right
from slotreeve_gateway.http import answering, token_of
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router


class RestFace:
    """Implements :class:`slotreeve.ports.Face`."""

    def __init__(self, context: Context) -> None:
        self._gateway = Gateway.of(context)

    async def start(self) -> None:
        """See Face."""
        self._gateway.pages.add(["/v1/services"], Router([Route("/v1/services", answering(self._services))]))

    async def stop(self) -> None:
        """See Face."""

    def counters(self) -> Mapping[str, int]:
        """See Face."""
        return {}

    async def _services(self, request: Request) -> Response:
        caller = self._gateway.access.caller(token_of(request))
        services = await self._gateway.registry.directory.services()
        shown = {name: count for name, count in services.items() if caller.may(Right.READ, name)}
        return Response(
            msgspec.json.encode({"index": self._gateway.registry.directory.index, "services": shown}),
            media_type="application/json",
        )
