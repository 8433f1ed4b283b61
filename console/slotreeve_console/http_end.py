"""Serves an ASGI application beside a server, in the same event loop (uvicorn)."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from slotreeve.errors import AddressInUse
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

log = logging.getLogger("slotreeve.http")

MOST_CONNECTIONS = 64
"""Health checks and scrapes of a few observers need less."""
KEEP_ALIVE_SECONDS = 5
SILENCE_SECONDS = 10.0
"""A connection that has brought no request for so long, or only a part of one, is ended: the others need its place."""
LONGEST_HEAD_BYTES = 16 * 1024
STOP_SECONDS = 1
BACKLOG = 128


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to the process, not to its pages."""
        yield


class _Impatient(H11Protocol):
    """One connection. uvicorn by itself waits for ever for the first request, and for the rest of a head."""

    silence_seconds = SILENCE_SECONDS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look_later()

    def _look_later(self) -> None:
        self.loop.call_later(self.silence_seconds, self._look, self.cycle)

    def _look(self, seen: object) -> None:
        if self.transport.is_closing():
            return
        if self.cycle is seen and (seen is None or self.cycle.response_complete):
            self.transport.close()
        else:
            self._look_later()


class HttpEnd:
    """Answers HTTP/1.1 requests at ``address``, from :meth:`start` to :meth:`stop`. Use it on one event loop.

    ``setting`` names where the address comes from, for messages. Beyond ``most_connections``, requests are answered
    with 503.
    """

    def __init__(
        self,
        application: ASGIApp,
        address: str,
        setting: str = "http.listen",
        most_connections: int = MOST_CONNECTIONS,
    ) -> None:
        self._application, self._address = application, address
        self._setting, self._most_connections = setting, most_connections
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """Where it listens; the port is a free one where the asked one was 0."""
        return self._address

    async def start(self) -> None:
        """Begin to answer.

        Raises:
            AddressInUse: the address cannot be bound.
        """
        listener = _listen(self._address, self._setting)
        host, port = listener.getsockname()[:2]
        self._address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        config = uvicorn.Config(
            self._application,
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            http=_Impatient,
            limit_concurrency=self._most_connections,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
            h11_max_incomplete_event_size=LONGEST_HEAD_BYTES,
        )
        self._server = _Server(config)
        self._serving = asyncio.get_running_loop().create_task(
            self._server.serve(sockets=[listener]), name="HTTP pages"
        )
        self._serving.add_done_callback(_ended)

    async def stop(self) -> None:
        """End: open requests have a second to be answered."""
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await asyncio.wait([self._serving])
            self._server = None


def _listen(address: str, setting: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise AddressInUse(f"{setting}: {address} cannot be used: {error}") from None
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(place)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise AddressInUse(f"{setting}: cannot listen at {address}: {error}") from None
    listener.setblocking(False)
    return listener


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.critical("the HTTP pages have failed; the server goes on without them", exc_info=task.exception())
