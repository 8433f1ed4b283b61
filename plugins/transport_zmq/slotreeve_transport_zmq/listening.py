"""The accepting end: one ROUTER socket for all connections of a listener.

ZeroMQ does not report which peers are connected. A peer becomes known with its hello, whose frame names the descriptor
that it came in on. The socket monitor reports which descriptor was disconnected. Descriptors are reused. So all earlier
events of the monitor are read before a hello is accepted: a later event of the descriptor then belongs to the
connection that has it now.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

import zmq
from slotreeve.clock import Clock, Timer
from slotreeve.keys import Principal
from slotreeve.ports import TransportCounters
from slotreeve_protocol.channel import Channel
from slotreeve_protocol.packets import settle

from slotreeve_transport_zmq.addresses import descriptor_of, hang_up, peer_address, split_address
from slotreeve_transport_zmq.admission import Admission, proven_by
from slotreeve_transport_zmq.sockets import (
    BACKLOG,
    LINGER_MS,
    NOBLOCK,
    NOBLOCK_SNDMORE,
    RCVMORE,
    Flusher,
    Monitor,
    OutgoingLink,
    SocketEnd,
)

log = logging.getLogger("slotreeve.transport")

TURN_SECONDS = 0.005
"""A listener that has more to read goes on for so long in one turn of the event loop. What others wait for goes out in
between."""
LONGEST_TURN_SECONDS = 0.02
"""Where all else took longer since the last packet was read, the listener reads as long as that, up to so long: what
very many peers send does not wait for ever behind what few peers send."""
TURN_PACKETS = 1_000
"""Most packets of one turn, whatever the time that they take."""
SILENCE_SECONDS = 10.0
"""A peer that sends no hello in this time is disconnected."""
HANG_UP_SECONDS = SILENCE_SECONDS
"""After the goodbye, a peer has so long to read what was sent before and to disconnect itself. What a slow machine or a
slow network has not brought to it by then is lost."""
UNREAD_SECONDS = 60.0
"""While there is more to read, its hello may be among it: then it has so much longer at most."""
UNREAD_PAUSE_SECONDS = 0.01
"""Pause before the next look at the peers without a hello."""
LATE_END_SECONDS = 0.25
"""Reading the packets before a disconnection may delay the report of it by so long."""
HELLOS_PER_TURN = 8
"""Most hellos that are answered in one turn of the event loop. When thousands connect at once, what the other peers
send is read in between."""
UNBIND_SECONDS = 1.0
"""Closing waits so long for the address to be free."""
TOLD_SECONDS = 1.0
"""The log has one line for all keys that were refused within this time."""
EVENTS_PAUSE_SECONDS = 0.1
"""The ends of connections that follow each other are noticed together after this time."""
_POLL_SECONDS = 0.001

_EVENTS = (
    zmq.EVENT_ACCEPTED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_CLOSED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
)
_MAY_BE_REFUSALS = (zmq.EVENT_DISCONNECTED, zmq.EVENT_HANDSHAKE_FAILED_AUTH)


class AcceptedLink(OutgoingLink):
    """One peer of a ROUTER socket. Set ``channel`` before :meth:`greet`. ``hello``: its first packet, until then.
    ``proven``: who it is by its key, where keys are used."""

    def __init__(
        self, end: RouterEnd, identity: bytes, fd: int, address: str, hello: bytes, proven: Principal | None = None
    ) -> None:
        self.identity = identity
        self.fd = fd
        self.proven = proven
        self.hello: bytes | None = hello
        self.released = False
        self.hang_up_timer: Timer | None = None
        self._end = end
        self._address = address
        self._send = end.socket.send

    def greet(self) -> None:
        """Hand the hello to the channel, unless that was done."""
        hello, self.hello = self.hello, None
        if hello is not None:
            self.channel.receive(hello)

    @property
    def address(self) -> str:
        """The address of the peer."""
        return self._address

    @property
    def end(self) -> SocketEnd:
        """The ROUTER socket."""
        return self._end

    def write(self, packet: bytes) -> bool:
        """Give a packet to libzmq. False if its queue for this peer is full."""
        try:
            self._send(self.identity, NOBLOCK_SNDMORE)
            try:
                self._send(packet, NOBLOCK)
            except Exception:
                self._send(b"", NOBLOCK)  # or the next packet, of another peer, would be the rest of this message
                raise
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            self._end.ended(self)
        return True

    def wake(self) -> None:
        """Flush by the end of this turn."""
        self._end.wake(self)

    def release(self) -> None:
        """Give the peer a short time to disconnect, then disconnect it."""
        self._end.released(self)


class RouterEnd(SocketEnd):
    """The socket of a listener; ``new_channel`` makes the channel on a link, ``admission`` says who its peer is."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        socket: zmq.Socket[bytes],
        clock: Clock,
        flusher: Flusher,
        counters: TransportCounters,
        new_channel: Callable[[AcceptedLink], Channel],
        admission: Admission | None = None,
    ) -> None:
        self._admission = admission
        self._keys = admission.keys if admission is not None else None
        self._next_told = 0.0
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
        # Links whose connection has ended and whose last packets may be unread, with the time when the wait for them
        # ends.
        self._ended: deque[tuple[float, AcceptedLink]] = deque()
        # Links whose hello was read and not answered yet, in the order in which they came.
        self._greeting: deque[AcceptedLink] = deque()
        self._greets = False
        self._read_at = clock.now()
        # Identities whose unread packets are dropped.
        self._forgotten: set[bytes] = set()
        self._monitor = Monitor(context, socket, _EVENTS, flusher.loop, self._happened, EVENTS_PAUSE_SECONDS)
        super().__init__(socket, flusher)  # the loop keeps it; what can fail has come before

    def bind(self, endpoint: str) -> int:
        """Listen at a ``tcp://`` endpoint. Returns the port.

        Raises:
            zmq.ZMQError: the address cannot be bound.
        """
        # Without this, libzmq silently drops packets to a peer that is gone or does not read.
        self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self.socket.setsockopt(zmq.BACKLOG, BACKLOG)
        self.socket.bind(endpoint)
        return split_address(self._endpoint().removeprefix("tcp://"))[1]

    # --- reading ---------------------------------------------------------------------------------------------

    def read(self) -> bool:
        """Read packets, then report the ends of connections."""
        finished = self._read_packets()
        while self._ended and (finished or self._ended[0][0] <= self._clock.now()):
            self._forget(self._ended.popleft()[1])
        if finished:
            self._forgotten.clear()
        return finished

    @property
    def channels(self) -> list[Channel]:
        """The channels of its connections."""
        return [link.channel for link in self._links.values()]

    @property
    def has_unread(self) -> bool:
        """True while packets were not read, or hellos that were read have no answer yet."""
        return self._greets or super().has_unread

    def _read_packets(self) -> bool:
        receive, option, links = self.socket.recv, self.socket.getsockopt, self._links
        now = self._clock.now()
        until = now + min(max(TURN_SECONDS, now - self._read_at), LONGEST_TURN_SECONDS)
        try:
            for _ in range(TURN_PACKETS):
                identity = receive(NOBLOCK)
                link = links.get(identity)
                if link is None:
                    self._first_packet(identity)
                    continue
                if link.hello is not None:
                    link.greet()
                packet = receive(NOBLOCK)
                if option(RCVMORE):
                    self.skip_parts()
                    link.channel.reject("a message of several parts")
                else:
                    link.channel.receive(packet)
                if link.channel.heard_at > until:
                    return False
        except zmq.Again:
            return True
        finally:
            self._read_at = self._clock.now()
        return False

    def _first_packet(self, identity: bytes) -> None:
        frame = self.socket.recv(NOBLOCK, copy=False)
        several = frame.more
        if several:
            self.skip_parts()
        if identity in self._forgotten:
            return
        # A peer chose an identity that begins with another byte. It could come back under that identity and look like
        # its earlier connection.
        fd = None if several or identity[0] != 0 else descriptor_of(frame)
        if fd is None:
            self._counters.malformed_frames += 1
            return
        self._monitor.drain()
        address = self._address_of_fd.get(fd)
        if address is None or not self._accepting:  # the peer has gone again, or this end is closing
            self._forgotten.add(identity)
            return
        stale = self._link_of_fd.get(fd)
        if stale is not None:  # it ended, and its descriptor was reused, before this hello was read
            self._forget(stale)
        proven = proven_by(frame, self._keys)
        if self._keys is not None and proven is None:  # it was trusted when it came in, and is no more
            self._forgotten.add(identity)
            self._counters.refused_keys += 1
            hang_up(fd, address)
            return
        link = AcceptedLink(self, identity, fd, address, frame.bytes, proven)
        link.channel = self._new_channel(link)
        self._links[identity] = self._link_of_fd[fd] = link
        self._greeting.append(link)
        if not self._greets:
            self._greets = True
            self._flusher.loop.call_soon(self._greet)

    def _greet(self) -> None:
        """Answer the next hellos."""
        for _ in range(min(HELLOS_PER_TURN, len(self._greeting))):
            self._greeting.popleft().greet()
        self._greets = bool(self._greeting)
        if self._greets:
            self._flusher.loop.call_soon(self._greet)

    # --- events of the monitor ------------------------------------------------------------------------------

    def _happened(self, event: int, fd: int) -> None:
        if event == zmq.EVENT_ACCEPTED:
            self._accepted(fd)
        elif event == zmq.EVENT_DISCONNECTED:
            self._disconnected(fd)
        elif event == zmq.EVENT_CLOSED:
            self._unbound = True
        elif event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
            self._counters.malformed_frames += 1
        if self._admission is not None and event in _MAY_BE_REFUSALS:
            self._count_refusals(self._admission)

    def _count_refusals(self, admission: Admission) -> None:
        """Of strangers, whose keys are not trusted; some leave before they are told. The log has one line for all of a
        while."""
        new, who = admission.newly_refused()
        self._counters.refused_keys += new
        now = self._clock.now()
        if new and now >= self._next_told:
            self._next_told = now + TOLD_SECONDS
            log.warning("refused %s, which is not trusted here; %d so far", who, self._counters.refused_keys)

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
        """The link's connection has ended. Its last packets may be unread; they are read before that is reported."""
        if self._link_of_fd.get(link.fd) is link:
            del self._link_of_fd[link.fd]
            self._ended.append((self._clock.now() + LATE_END_SECONDS, link))
            self.schedule()

    def _break_silence(self) -> None:
        self._monitor.drain()
        now = self._clock.now()
        while self._silent and self._silent[0][0] <= now:
            if self.has_unread and now < self._silent[0][0] + UNREAD_SECONDS:
                break
            _, fd, address = self._silent.popleft()
            link = self._link_of_fd.get(fd)
            # Where its end is known, the descriptor may be that of any other connection of this process by now.
            if self._address_of_fd.get(fd) == address and (link is None or not link.channel.opened):
                hang_up(fd, address)
        self._silence_timer = None
        if self._silent:
            wait = max(UNREAD_PAUSE_SECONDS, self._silent[0][0] - now)
            self._silence_timer = self._clock.call_later(wait, self._break_silence)

    # --- ending ----------------------------------------------------------------------------------------------

    def wake(self, link: AcceptedLink) -> None:
        """Flush the link by the end of this turn."""
        self._flusher.wake(link)

    def released(self, link: AcceptedLink) -> None:
        """The link's channel has ended. The peer gets :data:`HANG_UP_SECONDS` to read that, then it is disconnected."""
        link.released = True
        if self._link_of_fd.get(link.fd) is link:
            has_left = link.channel.opened and not (link.channel.ended_here or link.channel.is_expelled)
            pause = 0.0 if has_left else HANG_UP_SECONDS
            link.hang_up_timer = self._clock.call_later(pause, lambda: hang_up(link.fd, link.address))

    async def close(self) -> None:
        """End every connection, free the address and close the socket. A second call waits for the first."""
        if not self._accepting:
            while not self.detached:
                await self._clock.sleep(_POLL_SECONDS)
            return
        self._accepting = False
        try:
            for link in list(self._links.values()):
                link.channel.close("the listener was closed")
            while not all(link.released for link in self._links.values()):
                await self._clock.sleep(_POLL_SECONDS)
            await settle(self._clock)
            self.socket.unbind(self._endpoint())
            give_up = self._clock.now() + UNBIND_SECONDS
            while not self._unbound and self._clock.now() < give_up:
                await self._clock.sleep(_POLL_SECONDS)
                self._monitor.drain()
        finally:  # also where the caller waits no longer: another close would wait for this one for ever
            self.dispose()

    def dispose(self) -> None:
        """Close the socket at once."""
        for link in list(self._links.values()):
            link.channel.lost("the listener was closed")  # where it still had something to send
        timers = [link.hang_up_timer for link in self._links.values()]
        for timer in (*timers, self._silence_timer):
            if timer is not None:
                timer.cancel()
        self._monitor.close()
        self.detach(LINGER_MS)

    def end_all(self, reason: str) -> None:
        """Disconnect every peer. Each one connects again and sends again what was not answered."""
        for link in list(self._links.values()):
            hang_up(link.fd, link.address)
            self._forget(link)

    def _forget(self, link: AcceptedLink) -> None:
        link.greet()
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
