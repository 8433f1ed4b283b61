"""The ZeroMQ transport."""

from __future__ import annotations

import asyncio
import contextlib

import zmq
from slotreeve.clock import Clock
from slotreeve.errors import AddressInUse, Refused, Unreachable
from slotreeve.keys import KeyPair, KeyRing, Principal, split_name
from slotreeve.ports import Connection, Handler, Hello, Listener, TransportCounters
from slotreeve_protocol.channel import Channel
from slotreeve_protocol.packets import ChannelLimits, Link, settle
from slotreeve_protocol.trust import TrustWatch

from slotreeve_transport_zmq.addresses import endpoint_of, is_refused, join_address, split_address
from slotreeve_transport_zmq.admission import Admission, new_pair, secure_dialler, secure_listener
from slotreeve_transport_zmq.contexts import SharedContext, draw_first_number, take_context
from slotreeve_transport_zmq.dialling import DialledLink
from slotreeve_transport_zmq.listening import AcceptedLink, RouterEnd
from slotreeve_transport_zmq.sockets import Flusher, new_socket

REFUSAL_SECONDS = 0.25
"""A host that refuses a connection is asked once more whether it does, and has so long to answer."""
_POLL_SECONDS = 0.001
_CLOSED = "this transport was closed"


class ZmqTransport:
    """The connections and listeners of one owner. Use it from one event loop only.

    It takes a libzmq context on first use, and shares it with other transports of the process that have as many
    ``io_threads``. With ``keys`` every connection is encrypted by CURVE, and both ends prove who they are.

    Args:
        handshake_seconds: a listener disconnects a peer that does not complete ZeroMQ's handshake in this time. An
            attempt to connect has the time that :meth:`connect` is given, and no other.

    Attributes:
        keys: what it proves and checks identities with; None: it does not.
    """

    def __init__(
        self,
        clock: Clock,
        limits: ChannelLimits | None = None,
        io_threads: int = 1,
        keys: KeyRing | None = None,
        handshake_seconds: float = 5.0,
    ) -> None:
        self._clock = clock
        self._limits = limits or ChannelLimits()
        self._io_threads = io_threads
        self._handshake_ms = round(1_000 * handshake_seconds)
        self._counters = TransportCounters()
        self._closed = False
        self.keys = keys
        self._trust = TrustWatch(keys, clock, self._channels) if keys is not None else None
        self._admission: Admission | None = None
        self._shared: SharedContext | None = None
        self._flusher: Flusher | None = None
        self._listeners: dict[ZmqListener, None] = {}
        self._links: dict[DialledLink, None] = {}

    @property
    def counters(self) -> TransportCounters:
        """The counters of this transport. Not a copy: it changes."""
        return self._counters

    async def listen(self, address: str, hello: Hello, handler: Handler) -> Listener:
        """Accept connections; raises as :meth:`slotreeve.ports.Transport.listen`."""
        try:
            endpoint = await endpoint_of(address)
        except (ValueError, OSError) as error:
            raise AddressInUse(f"cannot listen at {address}: {error}") from None
        if self._closed:
            raise AddressInUse(f"cannot listen at {address}: {_CLOSED}")

        def new_channel(link: AcceptedLink) -> Channel:
            return self.new_channel(link, hello, handler)

        shared, flusher = self._context(), self._flusher_of_loop()
        context, frame_bytes = shared.context, self._limits.max_frame_bytes
        draw_first_number()
        try:
            admission = self._admitted(shared)
            with contextlib.ExitStack() as opened:
                socket = new_socket(context, zmq.ROUTER, endpoint, frame_bytes, self._handshake_ms)
                opened.enter_context(socket)
                if admission is not None:
                    secure_listener(socket, admission)
                end = RouterEnd(context, socket, self._clock, flusher, self._counters, new_channel, admission)
                opened.callback(end.dispose)
                port = end.bind(endpoint)
                opened.pop_all()
        except zmq.ZMQError as error:
            raise AddressInUse(f"cannot listen at {address}: {error.strerror}") from None
        listener = ZmqListener(join_address(split_address(split_name(address)[1])[0], port), end, self)
        self._listeners[listener] = None
        return listener

    async def connect(self, address: str, hello: Hello, handler: Handler, timeout_seconds: float) -> Connection:
        """Connect once; raises as :meth:`slotreeve.ports.Transport.connect`."""
        started = self._clock.now()
        try:
            # asyncio.wait_for of Python 3.11 loses a cancellation that happens as its awaitable ends.
            async with asyncio.timeout(timeout_seconds):
                endpoint = await endpoint_of(address)
        except (ValueError, OSError, TimeoutError) as error:
            raise Unreachable(f"{address}: {str(error) or 'the host name was not resolved in time'}") from None
        # While one key of a server replaces another, it may have either: the newer one is tried first.
        expected: list[Principal | None] = [None] if self.keys is None else [*self.keys.expected_at(address)]
        while True:
            left_seconds = timeout_seconds - (self._clock.now() - started)
            try:
                link = self._dial(address, endpoint, hello, handler, expected.pop(0))
            except zmq.ZMQError as error:
                raise Unreachable(f"{address}: {error.strerror}") from None
            try:
                await link.channel.establish(left_seconds)
            except Unreachable as error:
                error.nobody_listens = error.nobody_listens and await is_refused(endpoint, REFUSAL_SECONDS)
                if link.was_denied:
                    raise Refused(str(error)) from None
                if expected and link.has_ended and not error.nobody_listens:
                    continue
                raise
            return link.channel

    def _dial(
        self, address: str, endpoint: str, hello: Hello, handler: Handler, expected: Principal | None
    ) -> DialledLink:
        if self._closed:
            raise Unreachable(f"{address}: {_CLOSED}")
        context, flusher = self._context().context, self._flusher_of_loop()
        socket = new_socket(context, zmq.DEALER, endpoint, self._limits.max_frame_bytes)
        if self.keys is not None and expected is not None:
            secure_dialler(socket, self.keys, expected)
        link = DialledLink(context, socket, address, flusher, self._released, expected)
        link.channel = self.new_channel(link, hello, handler)
        self._links[link] = None
        try:
            link.dial(endpoint)
        except zmq.ZMQError:
            link.channel.abandon()
            raise
        return link

    def has_answered(self, address: str) -> bool:
        """As :meth:`slotreeve.ports.SignsOfLife.has_answered`: ZeroMQ's handshake has succeeded."""
        return any(
            link.address == address and not link.channel.closed and link.has_answered for link in list(self._links)
        )

    async def close(self) -> None:
        """End every connection and listener of this transport. Idempotent.

        Returns when libzmq has sent everything that the peers read, at the latest after the linger time of sockets.
        """
        self._closed = True
        if self._trust is not None:
            self._trust.stop()
        for listener in list(self._listeners):
            await listener.close()
        for link in list(self._links):
            link.channel.close("the transport was closed")
        while self._links:
            await self._clock.sleep(_POLL_SECONDS)
        await settle(self._clock)
        if self._flusher is not None:
            self._flusher.close()
        if self._shared is not None:
            shared, self._shared = self._shared, None
            if self._admission is not None:
                shared.admit_no_more(self._admission)
            try:
                await asyncio.get_running_loop().run_in_executor(None, shared.give_back)
            except RuntimeError:  # the interpreter ends, and starts no thread any more
                shared.give_back()

    def new_key_pair(self) -> KeyPair:
        """A new key, drawn at random by libzmq."""
        return new_pair()

    def forget(self, listener: ZmqListener) -> None:
        """A listener was closed."""
        self._listeners.pop(listener, None)

    def _context(self) -> SharedContext:
        if self._shared is None:
            self._shared = take_context(self._io_threads)
            if self._trust is not None:
                self._trust.start()
        return self._shared

    def _admitted(self, shared: SharedContext) -> Admission | None:
        """Whom listeners let in; None: everybody, because there are no keys."""
        if self._admission is None and self.keys is not None:
            self._admission = shared.admit(self.keys)
        return self._admission

    def _channels(self) -> list[Channel]:
        accepted = [channel for listener in self._listeners for channel in listener.channels]
        return [*(link.channel for link in self._links), *accepted]

    def _flusher_of_loop(self) -> Flusher:
        if self._flusher is None:
            self._flusher = Flusher(asyncio.get_running_loop(), self._clock)
        return self._flusher

    def new_channel(self, link: Link, hello: Hello, handler: Handler) -> Channel:
        """The channel of a new connection. A subclass may make one of another class."""
        return Channel(link, hello, handler, self._clock, self._counters, self._limits)

    def _released(self, link: DialledLink) -> None:
        self._links.pop(link, None)


class ZmqListener:
    """An open listening address."""

    def __init__(self, address: str, end: RouterEnd, transport: ZmqTransport) -> None:
        self._address = address
        self._end = end
        self._transport = transport

    @property
    def address(self) -> str:
        """The bound ``host:port``."""
        return self._address

    @property
    def has_unread(self) -> bool:
        """True while packets of accepted connections were not handed to the handler. What the I/O thread of libzmq has
        not read from the network does not count."""
        return self._end.has_unread

    @property
    def channels(self) -> list[Channel]:
        """The channels of the connections that were accepted here."""
        return self._end.channels

    async def close(self) -> None:
        """Stop listening, end every connection that was accepted here, and free the address. Idempotent."""
        try:
            await self._end.close()
        finally:
            self._transport.forget(self)
