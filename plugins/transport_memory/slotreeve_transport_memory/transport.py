"""The memory transport: the contract of :class:`slotreeve.ports.Transport` without a socket."""

from __future__ import annotations

from slotreeve.clock import Clock
from slotreeve.errors import AddressInUse, Refused, Unreachable
from slotreeve.keys import KeyRing, Principal, split_name
from slotreeve.ports import Connection, Handler, Hello, Listener, TransportCounters
from slotreeve_protocol.channel import Channel
from slotreeve_protocol.packets import ChannelLimits, settle
from slotreeve_protocol.trust import TrustWatch

from slotreeve_transport_memory.links import MemoryLink
from slotreeve_transport_memory.network import MemoryNetwork

_CLOSING_POLL_SECONDS = 0.001
_ENDED = "this transport was closed"


class MemoryTransport:
    """One endpoint of a memory network. It stands for one process on a real network.

    Args:
        clock: the clock of the process.
        name: name of the endpoint in the network; ``name#2`` if there is a live endpoint of that name.
        network: None for the network of the event loop on which the transport is first used.
        limits: limits of every connection.
        keys: what it proves and checks identities with; None: it does not.
    """

    def __init__(
        self,
        clock: Clock,
        name: str,
        network: MemoryNetwork | None = None,
        limits: ChannelLimits | None = None,
        keys: KeyRing | None = None,
    ) -> None:
        self._clock = clock
        self._wanted_name = name
        self._limits = limits or ChannelLimits()
        self._counters = TransportCounters()
        self._network = network
        self._name = ""
        self._ended = False
        self._listeners: dict[MemoryListener, None] = {}
        self._links: dict[MemoryLink, None] = {}
        self.keys = keys
        self._trust = TrustWatch(keys, clock, self._channels) if keys is not None else None
        if network is not None:
            self._name = network.enter(self, name)

    @property
    def name(self) -> str:
        """Name of this endpoint in its network; empty before it has joined one."""
        return self._name

    @property
    def counters(self) -> TransportCounters:
        """The counters of this transport. Not a copy: it changes."""
        return self._counters

    async def listen(self, address: str, hello: Hello, handler: Handler) -> Listener:
        """Accept connections; raises as :meth:`slotreeve.ports.Transport.listen`."""
        if self._ended:
            raise AddressInUse(f"cannot listen at {address}: {_ENDED}")
        network = self._join()
        listener = MemoryListener(self, self._clock, network, hello, handler)
        bound = network.bind(split_name(address)[1], listener)
        if bound is None:
            raise AddressInUse(f"cannot listen at {address}: the address is in use on this memory network")
        listener.address = bound
        self._listeners[listener] = None
        return listener

    async def connect(self, address: str, hello: Hello, handler: Handler, timeout_seconds: float) -> Connection:
        """Connect once; raises as :meth:`slotreeve.ports.Transport.connect`."""
        if self._ended:
            raise Unreachable(f"{address}: {_ENDED}")
        network = self._join()
        listener = network.listener_at(split_name(address)[1])
        if listener is None:
            error = Unreachable(f"no process listens at {address} on this memory network")
            error.nobody_listens = True
            raise error
        theirs, ours = self._prove(address, listener.transport)
        near = MemoryLink(network, self._clock, self._name, listener.transport.name, address, self._released, theirs)
        near.channel = self.channel(near, hello, handler)
        near.other = listener.accept(self._name, ours)
        near.other.other = near
        self._links[near] = None
        await near.channel.establish(timeout_seconds)
        return near.channel

    def has_answered(self, address: str) -> bool:
        """As :meth:`slotreeve.ports.SignsOfLife.has_answered`: neither a partition nor a frozen process is between, and
        a round trip has taken place."""
        return any(link.address == address and not link.channel.closed and link.has_answered for link in self._links)

    async def close(self) -> None:
        """End every connection and listener of this transport. Idempotent."""
        self._ended = True
        if self._trust is not None:
            self._trust.stop()
        for listener in list(self._listeners):
            await listener.close()
        await close_all(self._links, "the transport was closed", self._clock)
        if self._network is not None:
            self._network.leave(self)

    def die(self) -> None:
        """The process was killed (:meth:`MemoryNetwork.kill`): the peers see the ends, no handler here is called."""
        self._ended = True
        if self._trust is not None:
            self._trust.stop()
        for listener in list(self._listeners):
            listener.die()
        for link in list(self._links):
            link.die()

    def _join(self) -> MemoryNetwork:
        if self._network is None:
            self._network = MemoryNetwork.current()
            self._name = self._network.enter(self, self._wanted_name)
        if self._trust is not None:
            self._trust.start()
        return self._network

    def _prove(self, address: str, far: MemoryTransport) -> tuple[Principal | None, Principal | None]:
        """Who the listening end and this end prove to be to each other; raises as :meth:`connect`."""
        if self.keys is None and far.keys is None:
            return None, None
        if self.keys is None or far.keys is None:
            far.counters.malformed_frames += 1
            raise Unreachable(f"{address}: one end of this connection uses keys, and the other one does not")
        theirs = next((each for each in self.keys.expected_at(address) if each.key == far.keys.own.public), None)
        if theirs is None:
            far.counters.malformed_frames += 1
            raise Unreachable(f"{address}: who listens there has another key")
        ours = far.keys.trusted.holder(self.keys.own.public)
        if ours is None:
            far.counters.refused_keys += 1
            raise Refused(f"{address}: the key of this process is not trusted there")
        return theirs, ours

    def _channels(self) -> list[Channel]:
        links = [*self._links, *(link for listener in self._listeners for link in listener.links)]
        return [link.channel for link in links]

    def channel(self, link: MemoryLink, hello: Hello, handler: Handler) -> Channel:
        """A channel on one of this endpoint's links."""
        return Channel(link, hello, handler, self._clock, self._counters, self._limits)

    def _released(self, link: MemoryLink) -> None:
        self._links.pop(link, None)

    def forget(self, listener: MemoryListener) -> None:
        """A listener of this endpoint has ended."""
        self._listeners.pop(listener, None)


class MemoryListener:
    """An open listening address of a memory network.

    Attributes:
        address: the bound ``host:port``; the transport sets it.
        transport: the endpoint that listens.
        links: the accepted ends of connections.
    """

    address = ""

    def __init__(
        self, transport: MemoryTransport, clock: Clock, network: MemoryNetwork, hello: Hello, handler: Handler
    ) -> None:
        self.transport = transport
        self._clock = clock
        self._network = network
        self._hello = hello
        self._handler = handler
        self.links: dict[MemoryLink, None] = {}

    @property
    def has_unread(self) -> bool:
        """True while a packet of an accepted connection is due and was not handed to the handler."""
        return any(link.has_unread for link in self.links)

    def accept(self, source: str, proven: Principal | None) -> MemoryLink:
        """Endpoint ``source`` connects, and has proven who it is. Return the accepting end; the caller must set its
        ``other``."""
        address = f"{source}:0"
        link = MemoryLink(self._network, self._clock, self.transport.name, source, address, self._released, proven)
        link.channel = self.transport.channel(link, self._hello, self._handler)
        self.links[link] = None
        return link

    def die(self) -> None:
        """The process was killed."""
        self._stop()
        for link in list(self.links):
            link.die()

    async def close(self) -> None:
        """Stop listening and end every connection accepted here. Idempotent."""
        self._stop()
        await close_all(self.links, "the listener was closed", self._clock)

    def _stop(self) -> None:
        self._network.unbind(self.address, self)
        self.transport.forget(self)

    def _released(self, link: MemoryLink) -> None:
        self.links.pop(link, None)


async def close_all(links: dict[MemoryLink, None], reason: str, clock: Clock) -> None:
    """Close the connections of ``links``, which remove themselves, and wait until their handlers were called."""
    for link in list(links):
        link.channel.close(reason)
    while links:
        await clock.sleep(_CLOSING_POLL_SECONDS)
    await settle(clock)
