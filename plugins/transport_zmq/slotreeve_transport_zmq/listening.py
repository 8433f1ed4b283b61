"""The accepting end: one ROUTER socket for all connections of a listener.

ZeroMQ hides who is connected. A peer becomes known with its hello, whose frame tells the descriptor it came in on;
the socket monitor tells which descriptor was disconnected. Descriptors are reused, so before a hello is believed the
monitor is read up to now: what it tells of a descriptor afterwards can only concern the connection that has it now.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import zmq
from slotreeve.clock import Clock, Timer
from slotreeve.ports import TransportCounters
from slotreeve_protocol.channel import Channel
from slotreeve_protocol.packets import settle

from slotreeve_transport_zmq.addresses import hang_up, peer_address, split_address
from slotreeve_transport_zmq.sockets import (
    BACKLOG,
    LINGER_MS,
    NOBLOCK,
    NOBLOCK_SNDMORE,
    RCVMORE,
    TURN_BYTES,
    TURN_PACKETS,
    Flusher,
    Monitor,
    OutgoingLink,
    SocketEnd,
)

HANG_UP_SECONDS = 1.0
"""How long a peer has to hang up itself after the goodbye, so that it can read what was sent before."""
SILENCE_SECONDS = 10.0
"""How long somebody may be connected without saying hello."""
LATE_END_SECONDS = 0.25
"""How long reading everything that came before a disconnection may put off telling of it."""
UNBIND_SECONDS = 1.0
"""How long closing waits for the address to be free."""
_POLL_SECONDS = 0.001

_EVENTS = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL


class AcceptedLink(OutgoingLink):
    """One peer of a ROUTER socket. Set ``channel`` before the first packet."""

    def __init__(self, end: RouterEnd, identity: bytes, fd: int, address: str) -> None:
        self.identity = identity
        self.fd = fd
        self.released = False
        self.hang_up_timer: Timer | None = None
        self._end = end
        self._address = address
        self._send = end.socket.send

    @property
    def address(self) -> str:
        """Where the other side is."""
        return self._address

    @property
    def end(self) -> SocketEnd:
        """The ROUTER socket."""
        return self._end

    def write(self, packet: bytes) -> bool:
        """Hand a packet to libzmq; False while its queue for this peer is full."""
        try:
            self._send(self.identity, NOBLOCK_SNDMORE)
            self._send(packet, NOBLOCK)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            self._end.ended(self)
        return True

    def wake(self) -> None:
        """Flush at the end of this turn."""
        self._end.wake(self)

    def release(self) -> None:
        """Leave it to the peer to hang up, but not for long."""
        self._end.released(self)


class RouterEnd(SocketEnd):
    """The socket of a listener; ``new_channel`` makes the protocol for a link."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        socket: zmq.Socket[bytes],
        clock: Clock,
        flusher: Flusher,
        counters: TransportCounters,
        new_channel: Callable[[AcceptedLink], Channel],
    ) -> None:
        super().__init__(socket, flusher)
        self._clock = clock
        self._counters = counters
        self._new_channel = new_channel
        self._accepting = True
        self._unbound = False
        self._links: dict[bytes, AcceptedLink] = {}
        self._link_of_fd: dict[int, AcceptedLink] = {}
        self._address_of_fd: dict[int, str] = {}
        self._silent: deque[tuple[float, int, str]] = deque()
        self._silence_timer: Timer | None = None
        # Links whose connection has ended, until what came in before is read, and when that is no longer waited for.
        self._ended: deque[tuple[float, AcceptedLink]] = deque()
        # Whose packets, still unread, concern nobody any more.
        self._forgotten: set[bytes] = set()
        self._monitor = Monitor(context, socket, _EVENTS, flusher.loop, self._happened)

    def bind(self, endpoint: str) -> int:
        """Listen at a ``tcp://`` endpoint; returns the port.

        Raises:
            zmq.ZMQError: the address cannot be bound.
        """
        # Else libzmq would drop what is sent to a peer that is gone or does not read, without a word.
        self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self.socket.setsockopt(zmq.BACKLOG, BACKLOG)
        self.socket.bind(endpoint)
        return split_address(self._endpoint().removeprefix("tcp://"))[1]

    # --- reading ---------------------------------------------------------------------------------------------

    def read(self) -> bool:
        """Take what has come in, then the ends of connections."""
        finished = self._read_packets()
        while self._ended and (finished or self._ended[0][0] <= self._clock.now()):
            self._forget(self._ended.popleft()[1])
        if finished:
            self._forgotten.clear()
        return finished

    def _read_packets(self) -> bool:
        receive, option, links = self.socket.recv, self.socket.getsockopt, self._links
        size = 0
        try:
            for _ in range(TURN_PACKETS):
                identity = receive(NOBLOCK)
                link = links.get(identity)
                if link is None:
                    self._first_packet(identity)
                    continue
                packet = receive(NOBLOCK)
                if option(RCVMORE):
                    self.skip_parts()
                    link.channel.reject("a message of several parts")
                else:
                    link.channel.receive(packet)
                size += len(packet)
                if size > TURN_BYTES:
                    return False
        except zmq.Again:
            return True
        return False

    def _first_packet(self, identity: bytes) -> None:
        frame = self.socket.recv(NOBLOCK, copy=False)
        several = frame.more
        if several:
            self.skip_parts()
        if identity in self._forgotten:
            return
        # An identity that begins with another byte was chosen by the peer, who could come back under it and be taken
        # for the connection it had before.
        if several or identity[0] != 0:
            self._counters.malformed_frames += 1
            return
        fd = int(frame.get(zmq.SRCFD))
        self._monitor.drain()
        address = self._address_of_fd.get(fd)
        if address is None or not self._accepting:  # it has gone again, or we are going
            self._forgotten.add(identity)
            return
        stale = self._link_of_fd.get(fd)
        if stale is not None:  # it ended, and its descriptor was reused, before its own hello was read
            self._forget(stale)
        link = AcceptedLink(self, identity, fd, address)
        link.channel = self._new_channel(link)
        self._links[identity] = self._link_of_fd[fd] = link
        link.channel.receive(frame.bytes)

    # --- what the monitor tells ------------------------------------------------------------------------------

    def _happened(self, event: int, fd: int) -> None:
        if event == zmq.EVENT_ACCEPTED:
            self._accepted(fd)
        elif event == zmq.EVENT_DISCONNECTED:
            self._disconnected(fd)
        elif event == zmq.EVENT_CLOSED:
            self._unbound = True
        else:
            self._counters.malformed_frames += 1

    def _accepted(self, fd: int) -> None:
        address = peer_address(fd)
        if address is None:
            return
        self._address_of_fd[fd] = address
        self._silent.append((self._clock.now() + SILENCE_SECONDS, fd, address))
        if self._silence_timer is None:
            self._silence_timer = self._clock.call_later(SILENCE_SECONDS, self._break_silence)

    def _disconnected(self, fd: int) -> None:
        self._address_of_fd.pop(fd, None)
        link = self._link_of_fd.get(fd)
        if link is not None:
            self.ended(link)

    def ended(self, link: AcceptedLink) -> None:
        """The link's connection has ended. Its last packets may still be unread, and come first."""
        if self._link_of_fd.get(link.fd) is link:
            del self._link_of_fd[link.fd]
            self._ended.append((self._clock.now() + LATE_END_SECONDS, link))
            self.schedule()

    def _break_silence(self) -> None:
        now = self._clock.now()
        while self._silent and self._silent[0][0] <= now:
            _, fd, address = self._silent.popleft()
            link = self._link_of_fd.get(fd)
            if link is None or not link.channel.opened:
                hang_up(fd, address)
        self._silence_timer = None
        if self._silent:
            self._silence_timer = self._clock.call_later(self._silent[0][0] - now, self._break_silence)

    # --- ending ----------------------------------------------------------------------------------------------

    def wake(self, link: AcceptedLink) -> None:
        """Flush the link at the end of this turn."""
        self._flusher.wake(link)

    def released(self, link: AcceptedLink) -> None:
        """The link's channel has ended; the peer is given time to read that, then its connection is ended."""
        link.released = True
        if self._link_of_fd.get(link.fd) is link:
            link.hang_up_timer = self._clock.call_later(HANG_UP_SECONDS, lambda: hang_up(link.fd, link.address))

    async def close(self) -> None:
        """End every connection, free the address, close the socket; whoever comes second waits for the first."""
        if not self._accepting:
            while not self.detached:
                await self._clock.sleep(_POLL_SECONDS)
            return
        self._accepting = False
        for link in list(self._links.values()):
            link.channel.close("the listener was closed")
        while not all(link.released for link in self._links.values()):
            await self._clock.sleep(_POLL_SECONDS)
        await settle(self._clock)
        self.socket.unbind(self._endpoint())
        give_up = self._clock.now() + UNBIND_SECONDS
        while not self._unbound and self._clock.now() < give_up:
            await self._clock.sleep(_POLL_SECONDS)
        self.dispose()

    def dispose(self) -> None:
        """Close the socket and forget everything, at once."""
        timers = [link.hang_up_timer for link in self._links.values()]
        for timer in (*timers, self._silence_timer):
            if timer is not None:
                timer.cancel()
        self._monitor.close()
        self.detach(LINGER_MS)

    def _forget(self, link: AcceptedLink) -> None:
        del self._links[link.identity]
        self._forgotten.add(link.identity)
        if self._link_of_fd.get(link.fd) is link:
            del self._link_of_fd[link.fd]
        if link.hang_up_timer is not None:
            link.hang_up_timer.cancel()
        link.channel.lost("connection lost")

    def _endpoint(self) -> str:
        endpoint = self.socket.LAST_ENDPOINT
        return endpoint.rstrip(b"\0").decode() if isinstance(endpoint, bytes) else str(endpoint)
