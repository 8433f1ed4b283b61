"""A TCP proxy that fails on demand, between a server's advertised address and the one it listens on."""

from __future__ import annotations

import asyncio
import contextlib
import logging

log = logging.getLogger("slotreeve.chaos")

CHUNK_BYTES = 64 * 1024


class Proxy:
    """Forwards connections to ``target``. All calls on one event loop.

    Attributes:
        delay_seconds: every chunk waits so long, in order.
        bytes_per_second: throttle; 0: none.
    """

    def __init__(self, address: str, target: str) -> None:
        self._address, self._target = address, target
        self._server: asyncio.Server | None = None
        self._pipes: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._to_server, self._to_client = asyncio.Event(), asyncio.Event()
        self._to_server.set()
        self._to_client.set()
        self._refusing = False
        self.delay_seconds = 0.0
        self.bytes_per_second = 0

    async def start(self) -> None:
        """Listen."""
        host, _, port = self._address.rpartition(":")
        self._server = await asyncio.start_server(self._accept, host, int(port))

    async def stop(self) -> None:
        """Stop listening and end every connection."""
        if self._server is not None:
            self._server.close()
        self.reset()
        for pipe in list(self._pipes):
            pipe.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)

    def stall(self, to_server: bool, to_client: bool) -> None:
        """Stop forwarding in these directions; connections stay, nothing is lost."""
        for stalled, event in ((to_server, self._to_server), (to_client, self._to_client)):
            if stalled:
                event.clear()

    def refuse(self) -> None:
        """End every connection and let no new one through."""
        self._refusing = True
        self.reset()

    def reset(self) -> None:
        """End every connection with a reset."""
        for writer in list(self._writers):
            writer.transport.abort()

    def heal(self) -> None:
        """Forward everything again."""
        self._refusing = False
        self.delay_seconds, self.bytes_per_second = 0.0, 0
        self._to_server.set()
        self._to_client.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        host, _, port = self._target.rpartition(":")
        try:
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.transport.abort()
            return
        for source, sink, gate in ((reader, far_writer, self._to_server), (far_reader, writer, self._to_client)):
            self._writers.add(sink)
            pipe = asyncio.get_running_loop().create_task(self._pipe(source, sink, gate))
            self._pipes.add(pipe)
            pipe.add_done_callback(self._pipes.discard)

    async def _pipe(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, gate: asyncio.Event) -> None:
        try:
            with contextlib.suppress(OSError):
                while chunk := await source.read(CHUNK_BYTES):
                    await gate.wait()
                    if self.delay_seconds:
                        await asyncio.sleep(self.delay_seconds)
                    if self.bytes_per_second:
                        await asyncio.sleep(len(chunk) / self.bytes_per_second)
                    sink.write(chunk)
                    await sink.drain()
        finally:
            self._writers.discard(sink)
            sink.close()
