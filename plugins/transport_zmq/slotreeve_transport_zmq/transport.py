"""The ZeroMQ transport."""

from __future__ import annotations

import asyncio
import resource

import zmq
from slotreeve.clock import Clock
from slotreeve.errors import AddressInUse, Unreachable
from slotreeve.ports import Connection, Handler, Listener, TransportCounters
from slotreeve.wire.channel import Channel, Link, settle
from slotreeve.wire.messages import Hello
from slotreeve.wire.packets import ChannelLimits

from slotreeve_transport_zmq.addresses import endpoint_of, join_address, split_address
from slotreeve_transport_zmq.dialling import DialledLink
from slotreeve_transport_zmq.listening import AcceptedLink, RouterEnd
from slotreeve_transport_zmq.sockets import Flusher, new_socket

MAX_SOCKETS = 60_000
"""Three for each outgoing connection: its own and two of its monitor."""
BACKLOG = 1024
HANDSHAKE_MS = 5_000
_POLL_SECONDS = 0.001


class ZmqTransport:
    """One libzmq context and all that goes through it. Used from one event loop, from the first call on."""

    def __init__(self, clock: Clock, limits: ChannelLimits | None = None, io_threads: int = 1) -> None:
        self._clock = clock
        self._limits = limits or ChannelLimits()
        self._counters = TransportCounters()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads)
        self._context.set(zmq.MAX_SOCKETS, MAX_SOCKETS)
        self._flusher: Flusher | None = None
        self._listeners: dict[ZmqListener, None] = {}
        self._links: dict[DialledLink, None] = {}
        _raise_open_files_limit()

    @property
    def counters(self) -> TransportCounters:
        """Live counters of this transport."""
        return self._counters

    async def listen(self, address: str, hello: Hello, handler: Handler) -> Listener:
        """Accept connections; raises as :meth:`slotreeve.ports.Transport.listen`."""
        try:
            endpoint = await endpoint_of(address)
        except (ValueError, OSError) as error:
            raise AddressInUse(f"cannot listen at {address}: {error}") from None
        socket = self._new_socket(zmq.ROUTER, endpoint)
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        socket.setsockopt(zmq.BACKLOG, BACKLOG)
        try:
            socket.bind(endpoint)
        except zmq.ZMQError as error:
            socket.close(0)
            raise AddressInUse(f"cannot listen at {address}: {error.strerror}") from None
        bound = socket.getsockopt(zmq.LAST_ENDPOINT).rstrip(b"\0").decode()
        _, port = split_address(bound.removeprefix("tcp://"))

        def new_channel(link: AcceptedLink) -> Channel:
            return self._new_channel(link, hello, handler)

        loop = asyncio.get_running_loop()
        end = RouterEnd(self._context, socket, loop, self._clock, self._flusher_of(loop), self._counters, new_channel)
        listener = ZmqListener(join_address(split_address(address)[0], port), end, self)
        self._listeners[listener] = None
        return listener

    async def connect(self, address: str, hello: Hello, handler: Handler, timeout_seconds: float) -> Connection:
        """Connect once; raises as :meth:`slotreeve.ports.Transport.connect`."""
        try:
            endpoint = await asyncio.wait_for(endpoint_of(address), timeout_seconds)
        except (ValueError, OSError, TimeoutError) as error:
            raise Unreachable(f"{address}: {error or 'the host name was not resolved in time'}") from None
        socket = self._new_socket(zmq.DEALER, endpoint)
        loop = asyncio.get_running_loop()
        link = DialledLink(self._context, socket, address, loop, self._flusher_of(loop), self._released)
        link.channel = self._new_channel(link, hello, handler)
        self._links[link] = None
        try:
            link.dial(endpoint)
        except zmq.ZMQError as error:
            link.channel.abandon()
            raise Unreachable(f"{address}: {error.strerror}") from None
        await link.channel.establish(timeout_seconds)
        return link.channel

    async def close(self) -> None:
        """End every connection and listener of this transport, and libzmq's threads."""
        for listener in list(self._listeners):
            await listener.close()
        for link in list(self._links):
            link.channel.close("the transport was closed")
        while self._links:
            await self._clock.sleep(_POLL_SECONDS)
        await settle(self._clock)
        if self._flusher is not None:
            self._flusher.close()
        if not self._context.closed:
            # May take the time that sockets linger.
            await asyncio.get_running_loop().run_in_executor(None, self._context.term)

    def forget(self, listener: ZmqListener) -> None:
        """A listener was closed."""
        self._listeners.pop(listener, None)

    def _new_socket(self, kind: int, endpoint: str) -> zmq.Socket[bytes]:
        socket = new_socket(self._context, kind, self._limits.max_frame_bytes)
        socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
        socket.setsockopt(zmq.IPV6, "[" in endpoint)
        return socket

    def _new_channel(self, link: Link, hello: Hello, handler: Handler) -> Channel:
        return Channel(link, hello, handler, self._clock, self._counters, self._limits)

    def _flusher_of(self, loop: asyncio.AbstractEventLoop) -> Flusher:
        if self._flusher is None:
            self._flusher = Flusher(loop, self._clock)
        return self._flusher

    def _released(self, link: DialledLink) -> None:
        self._links.pop(link, None)


class ZmqListener:
    """An address being listened on."""

    def __init__(self, address: str, end: RouterEnd, transport: ZmqTransport) -> None:
        self._address = address
        self._end = end
        self._transport = transport

    @property
    def address(self) -> str:
        """``host:port`` actually bound."""
        return self._address

    async def close(self) -> None:
        """Stop listening and end every connection accepted here; the address is free afterwards. Idempotent."""
        if not self._end.detached:
            await self._end.close()
            self._transport.forget(self)


def _raise_open_files_limit() -> None:
    """A connection costs a descriptor where it is accepted and four where it was dialled; many systems start
    processes with a soft limit of 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
