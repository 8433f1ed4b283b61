"""Callers of an HTTP end on raw sockets, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from slotreeve_console.http_end import HttpEnd
from slotreeve_console.limits import HttpLimits
from starlette.types import Receive, Scope, Send

PATIENCE = 20.0
WIDE = HttpLimits(
    connections=100, head_seconds=PATIENCE, body_seconds=PATIENCE, idle_seconds=20, write_seconds=PATIENCE
)
SOON = 0.2
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LAST_GET = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


class Application:
    """``/`` answers at once with the body that it got. ``/hold`` answers when it is let go. ``/stream`` sends small
    events, and ``/flood`` sends without end."""

    def __init__(self) -> None:
        self.letting_go = asyncio.Event()
        self.at_work = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.at_work += 1
        try:
            await self._answer(scope["path"], receive, send)
        finally:
            self.at_work -= 1

    async def _answer(self, path: str, receive: Receive, send: Send) -> None:
        body, more = b"", path == "/"
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        if path == "/hold":
            await self.letting_go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while path == "/flood":
            await send({"type": "http.response.body", "body": bytes(100_000), "more_body": True})
            await asyncio.sleep(0)
        while path == "/stream" and not self.letting_go.is_set():
            await send({"type": "http.response.body", "body": b"event\n", "more_body": True})
            await asyncio.sleep(SOON / 4)
        await send({"type": "http.response.body", "body": body or b"done"})


class Caller:
    """One raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def of(cls, end: HttpEnd) -> Caller:
        host, _, port = end.address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port), limit=2**25))

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def rest(self) -> bytes:
        """What comes until the end, which may be a reset."""
        got = b""
        try:
            while part := await self.reader.read(65_536):
                got += part
        except ConnectionError:
            pass
        self.writer.close()
        return got

    async def answer(self) -> bytes:
        return await self.reader.readuntil(b"\r\n0\r\n\r\n")


Scenario = Callable[[HttpEnd, Application], Coroutine[Any, Any, None]]


def play(scenario: Scenario, limits: HttpLimits = WIDE) -> None:
    async def main() -> None:
        application = Application()
        end = HttpEnd(application, "127.0.0.1:0", limits=limits)
        await end.start()
        try:
            async with asyncio.timeout(PATIENCE):
                await scenario(end, application)
        finally:
            await end.stop()

    asyncio.run(main())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - counts and logs have no event to wait for
        await asyncio.sleep(0.01)


async def is_well(end: HttpEnd) -> bool:
    caller = await Caller.of(end)
    await caller.say(LAST_GET)
    return b" 200 " in await caller.rest()
