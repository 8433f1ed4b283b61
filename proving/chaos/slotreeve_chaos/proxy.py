"""A TCP proxy that fails on demand, between a server's advertised address and the one it listens on."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import Protocol

from slotreeve_chaos.listener import TcpListener

log = logging.getLogger("slotreeve.chaos")

CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True)
class ProxyCut:
    """What a proxy does not let pass.

    Attributes:
        dialler: only connections which this process made; None: all connections.
        to_server: stall what is sent to the server; the connection stays, nothing is lost.
        to_client: stall what the server sends.
        refuses: end the connections and let no new one through.
    """

    dialler: str | None = None
    to_server: bool = True
    to_client: bool = True
    refuses: bool = False


class DiallerNames(Protocol):
    """Knows which process made a connection."""

    async def name(self, port: int) -> str | None:
        """The name of the process behind this local port; None if it is not known."""


class _Passage:
    """One connection through the proxy: the process that dialled, once that was looked up, and a gate for each
    direction."""

    def __init__(self, near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self.dialler: str | None = None
        self.port: int = near.get_extra_info("peername")[1]
        self._writers = (near, far)
        self.to_server, self.to_client = asyncio.Event(), asyncio.Event()

    def end(self) -> None:
        """Reset both connections."""
        for writer in self._writers:
            writer.transport.abort()

    async def close(self) -> None:
        """Close both connections, and wait until all that was forwarded is sent."""
        for writer in self._writers:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def obey(self, all_cuts: list[ProxyCut]) -> None:
        """Let pass what none of these cuts stalls."""
        cuts = [cut for cut in all_cuts if cut.dialler is None or cut.dialler == self.dialler]
        if any(cut.refuses for cut in cuts):
            self.end()
        _set(self.to_server, not any(cut.to_server for cut in cuts))
        _set(self.to_client, not any(cut.to_client for cut in cuts))


class Proxy:
    """Forwards connections to ``target``. All calls on one event loop.

    Attributes:
        delay_seconds: every chunk waits so long, in order.
        bytes_per_second: throttle; 0: none.
    """

    def __init__(self, address: str, target: str, diallers: DiallerNames) -> None:
        self._address, self._target, self._diallers = address, target, diallers
        self._listener = TcpListener(self._forward)
        self._passages: set[_Passage] = set()
        self._cuts: list[ProxyCut] = []
        self.delay_seconds = 0.0
        self.bytes_per_second = 0

    async def start(self) -> None:
        """Listen."""
        host, _, port = self._address.rpartition(":")
        await self._listener.listen(host, int(port))

    async def stop(self) -> None:
        """Stop listening and end every connection."""
        self.reset()
        await self._listener.close()

    async def identify(self) -> None:
        """Look up which process made each connection. Call it before a cut that names a process."""
        await asyncio.gather(*(self._identify(passage) for passage in self._passages if passage.dialler is None))

    async def _identify(self, passage: _Passage) -> None:
        passage.dialler = await self._diallers.name(passage.port)

    def cut(self, cut: ProxyCut) -> None:
        """Stall or end these connections, and new ones of the kind, until :meth:`heal`."""
        self._cuts.append(cut)
        self._obey()

    def reset(self) -> None:
        """End every connection with a reset."""
        for passage in list(self._passages):
            passage.end()

    def heal(self) -> None:
        """Forward everything again."""
        self._cuts.clear()
        self.delay_seconds, self.bytes_per_second = 0.0, 0
        self._obey()

    def _obey(self) -> None:
        for passage in self._passages:
            passage.obey(self._cuts)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if any(cut.refuses and cut.dialler is None for cut in self._cuts):
            return
        host, _, port = self._target.rpartition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        passage = _Passage(writer, far_writer)
        try:
            if any(cut.dialler is not None for cut in self._cuts):
                await self._identify(passage)
            passage.obey(self._cuts)
            self._passages.add(passage)
            await asyncio.gather(
                self._pipe(reader, far_writer, passage.to_server), self._pipe(far_reader, writer, passage.to_client)
            )
        finally:
            self._passages.discard(passage)
            await passage.close()

    async def _pipe(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, gate: asyncio.Event) -> None:
        try:
            with contextlib.suppress(OSError):
                while chunk := await source.read(CHUNK_BYTES):
                    await gate.wait()
                    if self.delay_seconds:
                        await asyncio.sleep(self.delay_seconds)
                    if self.bytes_per_second:
                        await asyncio.sleep(len(chunk) / self.bytes_per_second)
                    if sink.is_closing():
                        return
                    sink.write(chunk)
                    await sink.drain()
        finally:
            sink.close()


def _set(event: asyncio.Event, value: bool) -> None:
    if value:
        event.set()
    else:
        event.clear()
