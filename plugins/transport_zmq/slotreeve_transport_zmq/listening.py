"""The accepting end: one ROUTER socket for all connections of a listener.

ZeroMQ hides who is connected. A peer becomes known with its hello, whose frame tells the descriptor it came in on;
the socket monitor tells which descriptor was disconnected. Descriptors are reused, so before a hello is believed the
monitor is read up to now: what it tells of a descriptor afterwards can only concern the connection that has it now.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import zmq
from slotreeve.clock import Clock, Timer
from slotreeve.ports import TransportCounters
from slotreeve.wire.channel import Channel, settle

from slotreeve_transport_zmq.addresses import hang_up, peer_address
from slotreeve_transport_zmq.sockets import (
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
    """One peer of a ROUTER socket."""

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
            self._send(self.identity, zmq.SNDMORE | zmq.NOBLOCK)
            self._send(packet, zmq.NOBLOCK)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            self.channel.lost("connection lost")
        return True

    def wake(self) -> None:
        """Flush at the end of this turn."""
        self._end.wake(self)

    def release(self) -> None:
        """Leave it to the peer to hang up, but not for long."""
        self._end.released(self)


class RouterEnd(SocketEnd):
    """The socket of a listener, bound; ``new_channel`` makes the protocol for a link."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        socket: zmq.Socket[bytes],
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        flusher: Flusher,
        counters: TransportCounters,
        new_channel: Callable[[AcceptedLink], Channel],
    ) -> None:
        super().__init__(socket, loop, flusher)
        self._unbound = False
        self._clock = clock
        self._counters = counters
        self._new_channel = new_channel
        self._accepting = True
        self._links: dict[bytes, AcceptedLink] = {}
        self._link_of_fd: dict[int, AcceptedLink] = {}
        self._address_of_fd: dict[int, str] = {}
        self._silent: deque[tuple[float, int, str]] = deque()
        self._silence_timer: Timer | None = None
        self._ended: deque[tuple[float, AcceptedLink]] = deque()
        self._monitor = Monitor(context, socket, _EVENTS, loop, self._happened)

    # --- reading ---------------------------------------------------------------------------------------------

    def read(self) -> bool:
        """Take what has come in, then the ends of connections."""
        finished = self._read_packets()
        while self._ended and (finished or self._ended[0][0] <= self._clock.now()):
            self._forget(self._ended.popleft()[1])
        return finished

    def _read_packets(self) -> bool:
        receive, more, links = self.socket.recv, self.socket.getsockopt, self._links
        size = 0
        try:
            for _ in range(TURN_PACKETS):
                identity = receive(zmq.NOBLOCK)
                link = links.get(identity)
                if link is None:
                    self._first_packet(identity)
                    continue
                packet = receive(zmq.NOBLOCK)
                if more(zmq.RCVMORE):
                    self._skip_parts()
                    link.channel.reject("a message of several parts")
                else:
                    link.channel.receive(packet)
                size += len(packet)
                if size > TURN_BYTES:
                    return False
        except zmq.Again:
            return True
        return False

    def _skip_parts(self) -> None:
        while self.socket.getsockopt(zmq.RCVMORE):
            self.socket.recv(zmq.NOBLOCK)

    def _first_packet(self, identity: bytes) -> None:
        frame = self.socket.recv(zmq.NOBLOCK, copy=False)
        if frame.more:
            self._skip_parts()
            self._counters.malformed_frames += 1
            return
        fd = int(frame.get(zmq.SRCFD))
        self._monitor.drain()
        address = self._address_of_fd.get(fd)
        if address is None or not self._accepting:
            return  # it has gone again, or we are going
        stale = self._link_of_fd.get(fd)
        if stale is not None:
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
        link = self._link_of_fd.pop(fd, None)
        if link is not None:
            # Its last packets may still be unread, and come first.
            self._ended.append((self._clock.now() + LATE_END_SECONDS, link))
            self.schedule()

    def _break_silence(self) -> None:
        now = self._clock.now()
        while self._silent and self._silent[0][0] <= now:
            _, fd, address = self._silent.popleft()
            link = self._link_of_fd.get(fd)
            if link is None or link.channel.greeting:
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
        """End every connection, free the address, close the socket."""
        self._accepting = False
        for link in list(self._links.values()):
            link.channel.close("the listener was closed")
        while not all(link.released for link in self._links.values()):
            await self._clock.sleep(_POLL_SECONDS)
        await settle(self._clock)
        self.socket.unbind(self.socket.getsockopt(zmq.LAST_ENDPOINT))
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
        self.detach()

    def _forget(self, link: AcceptedLink) -> None:
        self._links.pop(link.identity, None)
        if link.hang_up_timer is not None:
            link.hang_up_timer.cancel()
        link.channel.lost("connection lost")
