"""Serves an ASGI application beside a server, in the same event loop (uvicorn's connections, a listener of our own)."""

from __future__ import annotations

import asyncio
import logging
import socket
from email.utils import formatdate

import uvicorn
from slotreeve.errors import AddressInUse
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from slotreeve_console.certificates import Certificates
from slotreeve_console.http_connection import HttpConnection
from slotreeve_console.limits import Counts, HttpLimits
from slotreeve_console.places import ConnectionPlaces

log = logging.getLogger("slotreeve.http")

SPARE_CONNECTIONS = 64
"""So many beyond the limit are told that there are too many; further ones are closed without a word."""
LOOK_SECONDS = 1.0
STOP_SECONDS = 1.0
BACKLOG = 1024
NO_DESCRIPTORS_SECONDS = 1.0
_POLL_SECONDS = 0.02
_KEEP_ALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))
"""The machine of a caller that waits for an answer may vanish without a word: known after a minute."""
PAGES = HttpLimits()


class HttpEnd:
    """Answers HTTP/1.1 requests at ``address``, from :meth:`start` to :meth:`stop`. Use it on one event loop.

    Args:
        application: what answers.
        address: host:port; port 0 takes a free one.
        setting: where the address comes from, for messages.
        limits: what callers are granted.
        certificates: for TLS; None: without.

    Attributes:
        limits: what is granted to callers that connect from now on.
    """

    def __init__(
        self,
        application: ASGIApp,
        address: str,
        setting: str = "http.listen",
        limits: HttpLimits = PAGES,
        certificates: Certificates | None = None,
    ) -> None:
        self._application, self._address, self._setting = application, address, setting
        self.limits, self._certificates = limits, certificates
        self._counts, self._state = Counts(), ServerState()
        self._config = uvicorn.Config(
            self._answer,
            log_config=None,
            log_level="error",  # below it stands what callers do wrong, which is counted
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            interface="asgi3",
            ws="none",
            http=HttpConnection,
            timeout_keep_alive=limits.idle_seconds,  # type: ignore[arg-type]  # it goes to call_later
        )
        self._handshakes: set[asyncio.Task[None]] = set()
        self._places = ConnectionPlaces()
        self._listener: socket.socket | None = None
        self._looking: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """Where it listens; the port is a free one where the asked one was 0."""
        return self._address

    def counters(self) -> dict[str, int]:
        """What it has counted, for the metrics of its server."""
        return {
            "http_connections": self._connections,
            "http_yielded_connections": self._places.yielded,
            "http_refused_connections": self._counts.refused_connections,
            "http_bad_requests": self._counts.bad_requests,
            "http_slow_requests": self._counts.slow_requests,
            "http_slow_readers": self._counts.slow_readers,
            "http_failed_handshakes": self._counts.failed_handshakes,
            "http_certificate_failures": self._certificates.failures if self._certificates is not None else 0,
        }

    async def start(self) -> None:
        """Begin to answer.

        Raises:
            AddressInUse: the address cannot be bound.
        """
        self._listener = _listen(self._address, self._setting)
        host, port = self._listener.getsockname()[:2]
        self._address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._config.load()
        self._date()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._listener, self._accept)
        self._looking = loop.create_task(self._look(), name="HTTP connections")
        self._looking.add_done_callback(_ended)

    async def stop(self) -> None:
        """End: open requests have a second to be answered. Idempotent."""
        if self._listener is None or self._looking is None:
            return
        loop = asyncio.get_running_loop()
        self._deafen()
        self._listener.close()
        self._listener = None
        for handshake in list(self._handshakes):
            handshake.cancel()
        for connection in list(self._state.connections):
            connection.shutdown()
        deadline = loop.time() + STOP_SECONDS
        while self._state.connections and loop.time() < deadline:
            self._look_at_all()
            await asyncio.sleep(_POLL_SECONDS)
        self._looking.cancel()
        for connection in list(self._state.connections):
            connection.transport.abort()
        await asyncio.sleep(_POLL_SECONDS)  # until each knows that its caller has gone
        for connection in list(self._state.connections):
            assert isinstance(connection, HttpConnection)
            connection.cancel()
        await asyncio.gather(self._looking, *self._handshakes, return_exceptions=True)

    # --- new connections -------------------------------------------------------------------------------------------

    @property
    def _connections(self) -> int:
        return len(self._state.connections) + len(self._handshakes)

    def _accept(self) -> None:
        assert self._listener is not None
        for _ in range(BACKLOG):
            try:
                accepted, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                log.error("%s: no further connection: %s; trying again", self._address, error)
                self._deafen()
                asyncio.get_running_loop().call_later(NO_DESCRIPTORS_SECONDS, self._listen_again)
                return
            self._take(accepted)

    def _deafen(self) -> None:
        asyncio.get_running_loop().remove_reader(self._listener)  # type: ignore[arg-type]

    def _listen_again(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _take(self, accepted: socket.socket) -> None:
        if self._connections >= self.limits.connections + SPARE_CONNECTIONS and not self._places.one_yields(
            asyncio.get_running_loop().time()
        ):
            self._counts.refused_connections += 1
            accepted.close()
            return
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEP_ALIVE:
            accepted.setsockopt(socket.IPPROTO_TCP, option, value)
        loop = asyncio.get_running_loop()
        handshake = loop.create_task(self._open(accepted), name="HTTP handshake")
        self._handshakes.add(handshake)
        handshake.add_done_callback(self._handshakes.discard)
        opening = _Opening(handshake)
        self._places.opens(opening, loop.time())
        handshake.add_done_callback(lambda _: self._places.goes(opening))

    async def _open(self, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            if self._certificates is None:
                await loop.connect_accepted_socket(self._connection, accepted)
            else:
                await loop.connect_accepted_socket(
                    self._connection,
                    accepted,
                    ssl=self._certificates.context,
                    ssl_handshake_timeout=self.limits.head_seconds,
                )
        except (OSError, EOFError):
            self._counts.failed_handshakes += 1

    def _connection(self) -> HttpConnection:
        return HttpConnection(self._config, self._state, self.limits, self._counts, self._places)

    # --- open ones -------------------------------------------------------------------------------------------------

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._application(scope, receive, send)
        except (ClientDisconnect, asyncio.CancelledError):
            return  # the caller has gone; nobody is there to be told

    async def _look(self) -> None:
        limits = self.limits
        shortest = min(limits.head_seconds, limits.body_seconds, limits.idle_seconds, limits.write_seconds)
        while True:
            await asyncio.sleep(min(LOOK_SECONDS, shortest / 2))
            self._date()
            if self._certificates is not None:
                self._certificates.look_again()
            self._look_at_all()

    def _look_at_all(self) -> None:
        now, untaken = asyncio.get_running_loop().time(), 0
        slow = list[HttpConnection]()
        for connection in list(self._state.connections):
            assert isinstance(connection, HttpConnection)
            connection.look(now)
            untaken += connection.untaken_bytes
            if connection.taken_by is not None:
                slow.append(connection)
        slow.sort(key=lambda one: one.taken_by or now)
        for connection in slow:
            if untaken <= self.limits.untaken_bytes:
                break
            untaken -= connection.untaken_bytes
            connection.give_up()

    def _date(self) -> None:
        self._state.default_headers = [(b"date", formatdate(usegmt=True).encode())]


class _Opening:
    """A connection whose handshake is not over."""

    def __init__(self, handshake: asyncio.Task[None]) -> None:
        self._handshake = handshake

    def make_room(self) -> None:
        """See :class:`slotreeve_console.places.Yielding`."""
        self._handshake.cancel()


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
