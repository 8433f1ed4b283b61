"""A node's way to a database server: long, narrow, blocked, or leading to another server from some moment on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from slotreeve_chaos.listener import TcpListener
from slotreeve_chaos.sql_servers import SqlServer

CHUNK_BYTES = 64 * 1024


class SqlRoad:
    """Forwards connections. An asynchronous context manager; all on one event loop.

    Attributes:
        delay_seconds: for which everything is on its way, in each direction; a round trip takes twice as long.
        bytes_per_second: that each connection carries in one direction; 0: any number.
        leads_to: the server for connections that are made from now on.
    """

    def __init__(self, leads_to: SqlServer, delay_seconds: float = 0.0, bytes_per_second: float = 0.0) -> None:
        self.leads_to, self.delay_seconds, self.bytes_per_second = leads_to, delay_seconds, bytes_per_second
        self._open = asyncio.Event()
        self._open.set()
        self._listener = TcpListener(self._accepted)
        self._writers: set[asyncio.StreamWriter] = set()
        self._address = ""
        self._stall: tuple[bytes, float] = b"", 0.0

    @property
    def dsn(self) -> str:
        """How a node connects, without encryption."""
        dsn = self.leads_to.dsn(address=self._address)
        return f"{dsn}?sslmode=disable&gssencmode=disable" if self.leads_to.dialect == "postgres" else dsn

    async def __aenter__(self) -> SqlRoad:
        """Listen on a free port of the loopback."""
        self._address = await self._listener.listen()
        return self

    async def __aexit__(self, *_error: object) -> None:
        """End every connection."""
        await self._listener.close()

    def block(self) -> None:
        """Nothing passes any more; connections stay."""
        self._open.clear()

    def unblock(self) -> None:
        """What waits goes on."""
        self._open.set()

    def stall(self, statement: bytes, seconds: float) -> None:
        """What next holds ``statement`` (in capitals) comes ``seconds`` late, although its sender may have given up."""
        self._stall = statement, seconds

    def _stall_of(self, data: bytes) -> float:
        statement, seconds = self._stall
        if not statement or statement not in data.upper():
            return 0.0
        self._stall = b"", 0.0
        return seconds

    def cut(self) -> None:
        """End every connection; new ones may be made."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._cuttable(writer):
            await self._open.wait()
            far_reader, far_writer = await asyncio.open_connection(self.leads_to.host, self.leads_to.port)
            with self._cuttable(far_writer):
                await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer))

    @contextlib.contextmanager
    def _cuttable(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        """Meanwhile a cut ends this connection; then it is ended."""
        self._writers.add(writer)
        try:
            yield
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        now = asyncio.get_running_loop().time
        on_its_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(256)
        arriving = asyncio.get_running_loop().create_task(self._arrive(on_its_way, sink))
        free_at = 0.0
        try:
            with contextlib.suppress(OSError):
                while data := await source.read(CHUNK_BYTES):
                    free_at = max(free_at, now()) + self._stall_of(data)
                    if self.bytes_per_second:
                        free_at += len(data) / self.bytes_per_second
                    await on_its_way.put((free_at + self.delay_seconds, data))
            await on_its_way.put((now(), b""))
            await arriving
        finally:
            arriving.cancel()
            sink.transport.abort()

    async def _arrive(self, on_its_way: asyncio.Queue[tuple[float, bytes]], sink: asyncio.StreamWriter) -> None:
        now = asyncio.get_running_loop().time
        while True:
            at, data = await on_its_way.get()
            await self._open.wait()
            await asyncio.sleep(max(0.0, at - now()))
            if not data:
                return
            with contextlib.suppress(OSError):
                sink.write(data)
                await sink.drain()
