"""A topic as server-sent events, for one open page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from slotreeve.clock import Clock
from slotreeve.errors import SlotreeveError
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from slotreeve_face_console.answers import HEADERS
from slotreeve_face_console.topics import Topic, TopicBoard

HEARTBEAT_SECONDS = 15.0
SLOW_SECONDS = 30.0
"""A reader that takes no part of an event for so long is given up."""
PART_BYTES = 64 * 1024
_HEADERS = {
    **HEADERS,
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # nginx hands the events on as they come
}
_HEARTBEAT = b":\n\n"


class TopicStream(Response):
    """The answer to one open page.

    Args:
        board: where the topic is.
        topic: what the page shows.
        after: id of the state that the page has.
        born: a text of this gateway process: ids of another one mean nothing here.
        clock, seconds: the stream ends after so long.
        check: is called before each event; it raises where the caller may not see it any more.
    """

    def __init__(
        self,
        board: TopicBoard,
        topic: Topic,
        after: int,
        born: str,
        clock: Clock,
        seconds: float,
        check: Callable[[], object],
    ) -> None:
        self.status_code, self.background = 200, None
        self.init_headers(_HEADERS)
        self._board, self._topic, self._after, self._born = board, topic, after, born
        self._clock, self._end, self._check = clock, clock.now() + seconds, check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer. It returns when the reader has gone, or the stream has ended."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        if scope["method"] != "HEAD":
            self._board.follow(self._topic)
            try:
                await self._write_while_there(receive, send)
            finally:
                self._board.leave(self._topic)
        await send({"type": "http.response.body", "body": b""})

    async def _write_while_there(self, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._write(send)), loop.create_task(_gone(receive))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(self, send: Send) -> None:
        await _sent(send, _HEARTBEAT)
        while (left := self._end - self._clock.now()) > 0:
            changed = await self._topic.changed(self._after, min(HEARTBEAT_SECONDS, left))
            try:
                self._check()
            except SlotreeveError:
                return  # the page connects again, and is told what is wrong
            if not changed:
                await _sent(send, _HEARTBEAT)
                continue
            number, data = self._topic.number, self._topic.since(self._after)
            event = b"id: %s-%d\ndata: %s\n\n" % (self._born.encode(), number, data)
            for start in range(0, len(event), PART_BYTES):
                await _sent(send, event[start : start + PART_BYTES])
            self._after = number


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _sent(send: Send, part: bytes) -> None:
    """Raises TimeoutError: the reader does not read."""
    async with asyncio.timeout(SLOW_SECONDS):
        await send({"type": "http.response.body", "body": part, "more_body": True})
