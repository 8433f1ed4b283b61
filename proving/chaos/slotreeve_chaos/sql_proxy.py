"""A proxy between one node and its database, which a schedule of statements rules."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable

from slotreeve_conformance.sql_schedule import Moment, Schedule, Statement

from slotreeve_chaos.listener import TcpListener
from slotreeve_chaos.sql_servers import SqlServer
from slotreeve_chaos.sql_wire import WIRES, Wire

CHUNK_BYTES = 64 * 1024
_numbers = itertools.count(1)


class SqlProxy:
    """One node's way to a database server. An asynchronous context manager; all on one event loop.

    Attributes:
        dsn: how the node connects, without encryption.
    """

    def __init__(self, node: str, server: SqlServer, schedule: Schedule, seen: Callable[[], None]) -> None:
        """``seen`` is called whenever a statement or an answer comes by."""
        self._node, self._server, self._schedule, self._seen = node, server, schedule, seen
        self._links: set[_Link] = set()
        self._listener = TcpListener(self._forward)
        self.dsn = ""

    async def __aenter__(self) -> SqlProxy:
        """Listen on a free port of the loopback."""
        self.dsn = self._server.dsn(address=await self._listener.listen())
        if self._server.dialect == "postgres":
            self.dsn += "?sslmode=disable&gssencmode=disable"
        return self

    async def __aexit__(self, *_error: object) -> None:
        """End every connection."""
        await self._listener.close()

    def cut(self) -> None:
        """End every connection; new ones may be made."""
        for link in list(self._links):
            link.cut()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(self._server.host, self._server.port)
        number = next(_numbers)
        link = _Link(
            WIRES[self._server.dialect](),
            writer,
            far_writer,
            lambda text, moment: self._passes(Statement(self._node, text, moment, number)),
        )
        self._links.add(link)
        try:
            await asyncio.gather(link.requests(reader), link.answers(far_reader))
        finally:
            link.cut()
            self._links.discard(link)

    async def _passes(self, statement: Statement) -> bool:
        self._seen()
        halt = self._schedule.meet(statement)
        if halt is None:
            return True
        passes = await halt.passes()
        self._seen()
        return passes


class _Link:
    """One connection of the node, and its connection to the server."""

    def __init__(
        self,
        wire: Wire,
        near: asyncio.StreamWriter,
        far: asyncio.StreamWriter,
        passes: Callable[[str, Moment], Awaitable[bool]],
    ) -> None:
        self._wire, self._near, self._far, self._passes = wire, near, far, passes
        self._text: str | None = None

    def cut(self) -> None:
        """End both connections at once."""
        self._near.transport.abort()
        self._far.transport.abort()

    async def requests(self, reader: asyncio.StreamReader) -> None:
        """From the node to the server. A node that has ended its connection is known to the server only after what it
        sent before: the order of a network."""
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                for request in self._wire.requests(data):
                    if request.text is not None:
                        self._text = request.text
                        if not await self._passes(request.text, Moment.REQUEST):
                            self.cut()
                            return
                    self._far.write(request.data)
                    await self._far.drain()
        if not self._far.is_closing():
            with contextlib.suppress(OSError):
                self._far.write_eof()

    async def answers(self, reader: asyncio.StreamReader) -> None:
        """From the server to the node: the answer to a statement as a whole, all else at once."""
        held = b""
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                for answer in self._wire.answers(data):
                    held += answer.data
                    if self._text is not None:
                        if not answer.is_last:
                            continue
                        text, self._text = self._text, None
                        if not await self._passes(text, Moment.ANSWER):
                            self.cut()
                            return
                    self._near.write(held)
                    held = b""
                await self._near.drain()
            self._near.write(held)  # why the server ends the connection
            await self._near.drain()
        self._near.close()
