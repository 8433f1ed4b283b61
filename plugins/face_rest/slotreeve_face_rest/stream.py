"""A service as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Protocol

from slotreeve.clock import Clock
from slotreeve.errors import SlotreeveError
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from slotreeve_face_rest.presence import counted_while_there

HEARTBEAT_SECONDS = 15.0
SLOW_SECONDS = 30.0
"""A reader that takes no part of an event for so long is given up."""
PART_BYTES = 64 * 1024
"""So much of an event waits for a reader at a time, however large it is."""
_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # nginx hands the events on as they come
}
_HEARTBEAT = b":\n\n"


class Source(Protocol):
    """What a stream is about."""

    async def after(self, index: int, seconds: float) -> tuple[int, bytes] | None:
        """Index and JSON once the index is greater than ``index``; None: it is not, within so many seconds.

        Raises:
            SlotreeveError: the reader may not see it any more, or the registry does not answer.
        """


class EventStream(Response):
    """The answer to one reader. It holds one state at a time: a reader that is slower than the changes gets fewer,
    newer events.

    Args:
        source: what is sent.
        after: the index that the reader has already; events begin after it.
        seconds: the stream ends after so long.
        clock: the source of time.
        counters: it counts events and readers that were given up.
    """

    def __init__(self, source: Source, after: int, seconds: float, clock: Clock, counters: dict[str, int]) -> None:
        self.status_code, self.background = 200, None
        self.init_headers(_HEADERS)
        self._source, self._index, self._clock, self._counters = source, after, clock, counters
        self._end = clock.now() + seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer. It returns when the reader has gone, or the stream has ended."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        if scope["method"] != "HEAD":
            await counted_while_there(receive, self._write(send), self._counters)
        await send({"type": "http.response.body", "body": b""})

    async def _write(self, send: Send) -> None:
        try:
            while (left := self._end - self._clock.now()) > 0:
                event = await self._source.after(self._index, min(HEARTBEAT_SECONDS, left))
                if event is None:
                    await _sent(send, _HEARTBEAT)
                    continue
                self._index, body = event
                for part in _parts(b"id: %d\nevent: service\ndata: " % self._index, body, b"\n\n"):
                    await _sent(send, part)
                self._counters["rest_events"] += 1
        except SlotreeveError:
            return  # the reader connects again, and is told what is wrong
        except TimeoutError:
            self._counters["rest_slow_readers"] += 1
            raise ClientDisconnect from None


def _parts(*pieces: bytes) -> Iterator[bytes]:
    for piece in pieces:
        for start in range(0, len(piece), PART_BYTES):
            yield piece[start : start + PART_BYTES]


async def _sent(send: Send, part: bytes) -> None:
    """Raises TimeoutError: the reader does not read."""
    async with asyncio.timeout(SLOW_SECONDS):
        await send({"type": "http.response.body", "body": part, "more_body": True})
