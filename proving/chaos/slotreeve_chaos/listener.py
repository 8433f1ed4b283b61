"""A listener on TCP that leaves no connection behind."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class TcpListener:
    """Accepts connections, and serves each in a task of its own. All on one event loop.

    ``asyncio.start_server`` does not know a connection that it has accepted and not handed over yet, so at the end of a
    loop one may stay open. Here each is of the task that serves it from the moment in which it was accepted.

    Args:
        serve: called with each connection, which is aborted when it returns or raises.
    """

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._tasks: set[asyncio.Task[None]] = set()
        self._socket: socket.socket | None = None

    async def listen(self, host: str = "127.0.0.1", port: int = 0) -> str:
        """Listen. Returns the address; with port 0 it is a free one.

        Raises:
            OSError: the address is in use, or not of this machine.
        """
        listening = self._socket = socket.create_server((host, port))
        listening.setblocking(False)
        asyncio.get_running_loop().add_reader(listening, self._accept, listening)
        found_host, found_port = listening.getsockname()[:2]
        return f"{found_host}:{found_port}"

    async def close(self) -> None:
        """Accept no more, and end every connection. Returns when all are closed."""
        listening, self._socket = self._socket, None
        if listening is not None:
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the loop closes what was aborted

    def _accept(self, listening: socket.socket) -> None:
        try:
            accepted, _ = listening.accept()
        except OSError:  # whoever came has gone
            return
        accepted.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._serve_one(accepted))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Also where the task is cancelled before its first step.
        task.add_done_callback(lambda _task: accepted.close())

    async def _serve_one(self, accepted: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=accepted)
        try:
            if writer.get_extra_info("peername") is not None:  # else whoever came has gone
                with contextlib.suppress(OSError):
                    await self._serve(reader, writer)
        finally:
            writer.transport.abort()
