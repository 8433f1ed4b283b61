"""One end of a connection, without I/O. Every transport uses it.

A transport supplies a :class:`~slotreeve_protocol.packets.Link` that carries packets of bytes. On top of it a
:class:`Channel` is the :class:`slotreeve.ports.Connection` that handlers get. It exchanges hellos, matches replies with
requests, ends requests that time out, sends a goodbye at the end, and counts bad frames.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from enum import Enum, auto

from slotreeve.clock import Clock, Timer
from slotreeve.errors import (
    Backpressure,
    ConnectionLost,
    FrameTooLarge,
    MalformedFrame,
    Refused,
    Unreachable,
)
from slotreeve.keys import Principal
from slotreeve.model.nodes import Role
from slotreeve.ports import Handler, Hello, Message, TransportCounters

from slotreeve_protocol.codec import Kind, decode_frame, encode_frame, encode_message
from slotreeve_protocol.general_messages import Failed, Goodbye
from slotreeve_protocol.guarded import GuardedHandler
from slotreeve_protocol.hello import LONGEST_NAME, imposture, refusal
from slotreeve_protocol.packets import SPARE_ROOM, ChannelLimits, FrameQueue, Link, frames_of
from slotreeve_protocol.requests import Answered, PendingRequests
from slotreeve_protocol.urgency import URGENT

log = logging.getLogger("slotreeve.channel")

BAD_FRAMES_ALLOWED = 2
"""So many bad frames are dropped; the next one ends the connection."""
GREETING_LOOKS = 4
"""An attempt to connect counts its time in so many steps. A step that comes late, because the event loop was busy,
counts once, and what arrived meanwhile is read before the next one."""
BUSY_PEER_LOOKS = 30 * GREETING_LOOKS
"""A peer whose transport has answered is alive, and gets so many steps more to answer the hello: ten thousand clients
that come at once are answered one after the other, and an attempt that is given up is only more work."""
LONGEST_GREETING_BYTES = 16 * 1024
"""Longest frame before a connection opens: whoever has not said who it is takes no more memory, and no more of the log.
"""
CLOSE_GRACE_SECONDS = 1.0
"""A closed connection may send its queue for so long."""
SERVERS = frozenset({Role.META, Role.DATA, Role.SESSION})
FROM_A_CLIENT_BYTES = 8 * 1024 * 1024
"""Largest packet of a process that is no server: it sends none that is larger, not even a thousand subscriptions with
the longest names. A larger one of small parts would take a server seconds."""


class _State(Enum):
    GREETING = auto()
    """The hellos are not exchanged yet; the handler was not called."""
    OPEN = auto()
    CLOSED = auto()


# A member of an enum takes ten times as long to look up as a global name; each frame needs several.
_GREETING, _OPEN, _CLOSED = _State
_MESSAGE, _REQUEST, _REPLY = Kind.MESSAGE, Kind.REQUEST, Kind.REPLY


class Channel:
    """One end of a connection over a link; implements :class:`slotreeve.ports.Connection`.

    The dialling end calls :meth:`establish`; the accepting end only receives packets. The transport calls
    :meth:`receive` for each packet, :meth:`flush` after ``wake`` and when the link has room again, and :meth:`lost`
    when the link has ended; all on the event loop.

    Attributes:
        ended_here, is_expelled: as :class:`slotreeve.ports.Connection` has them.
        greeting_looks: steps of time that an attempt to connect has left.
        heard_at: when the last packet arrived, in seconds on the clock; before the first one, when the channel was
            made.
    """

    __slots__ = (
        "_bad_frames",
        "_clock",
        "_counters",
        "_established",
        "_grace",
        "_guard",
        "_handler",
        "_hello",
        "_limits",
        "_link",
        "_most_received",
        "_outbox",
        "_peer",
        "_released",
        "_requests",
        "_state",
        "ended_here",
        "greeting_looks",
        "heard_at",
        "is_expelled",
    )

    def __init__(
        self,
        link: Link,
        hello: Hello,
        handler: Handler,
        clock: Clock,
        counters: TransportCounters,
        limits: ChannelLimits,
    ) -> None:
        self._link = link
        self._hello = hello
        self._handler = handler
        self._clock = clock
        self._counters = counters
        is_server = hello.role in SERVERS
        most_sent = limits.max_frame_bytes if is_server else min(limits.max_frame_bytes, FROM_A_CLIENT_BYTES)
        self._limits = replace(limits, max_frame_bytes=most_sent)
        self._most_received = limits.max_frame_bytes
        self._outbox = FrameQueue(limits)
        self._guard = GuardedHandler(self, handler, counters)
        self._requests = PendingRequests(clock, self._guard.fail_request, link.address)
        self._state = _GREETING
        self._peer: Hello | None = None
        self._established: asyncio.Future[None] | None = None
        self._bad_frames = 0
        self.ended_here = self.is_expelled = False
        self.greeting_looks = GREETING_LOOKS
        self._grace: Timer | None = None
        self._released = False
        self.heard_at = clock.now()

    # --- Connection ------------------------------------------------------------------------------------------

    @property
    def peer(self) -> Hello:
        """The peer's hello. Raises ConnectionLost before the handler's ``opened``."""
        if self._peer is None:
            raise ConnectionLost(f"{self._link.address} has not sent its hello")
        return self._peer

    @property
    def address(self) -> str:
        """The address of the peer, for messages to people."""
        return self._link.address

    @property
    def closed(self) -> bool:
        """True once the connection has ended. It never opens again."""
        return self._state is _CLOSED

    @property
    def proven(self) -> Principal | None:
        """As :attr:`slotreeve.ports.Connection.proven`."""
        return self._link.proven

    @property
    def opened(self) -> bool:
        """True once the hellos were exchanged, also after the end."""
        return self._peer is not None

    @property
    def has_room(self) -> bool:
        """As :attr:`slotreeve.ports.Connection.has_room`."""
        return self._outbox.has_room

    def send(self, message: Message) -> None:
        """Queue a one-way message; raises as :meth:`slotreeve.ports.Connection.send`."""
        self.send_encoded(encode_message(message), type(message) in URGENT)

    def send_encoded(self, frame: bytes, urgent: bool = False) -> None:
        """Queue an encoded message; raises as :meth:`slotreeve.ports.Connection.send`."""
        if self._state is not _OPEN:
            raise ConnectionLost(f"the connection to {self._link.address} has ended")
        size = len(frame)
        if size > self._limits.max_frame_bytes:
            raise FrameTooLarge(self._limits.too_large(size))
        if self._outbox.is_full(size, SPARE_ROOM if urgent else 1):
            self._counters.backpressure += 1
            raise Backpressure(
                f"{len(self._outbox)} frames ({self._outbox.waiting_bytes} bytes) wait for {self._link.address}"
            )
        if self._outbox.add(frame, urgent):
            self._link.wake()

    def request(self, message: Message, answered: Answered, timeout_seconds: float) -> None:
        """Send a request; raises and calls as :meth:`slotreeve.ports.Connection.request`.

        RequestTimeout may come up to :data:`slotreeve_protocol.requests.TIMEOUT_GRAIN_SECONDS` late.
        """
        request_id = self._requests.new_id()
        self.send_encoded(encode_frame(_REQUEST, message, request_id), type(message) in URGENT)
        self._requests.add(request_id, answered, timeout_seconds)

    async def ask(self, message: Message, timeout_seconds: float) -> Message:
        """Send a request and wait for its reply; raises as :meth:`slotreeve.ports.Connection.ask`."""
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

        def answered(reply: Message | None, error: Exception | None) -> None:
            if future.done():
                return
            if reply is not None:
                future.set_result(reply)
            else:
                future.set_exception(error or ConnectionLost(f"no reply from {self._link.address}"))

        self.request(message, answered, timeout_seconds)
        return await future

    def reply(self, request_id: int, message: Message) -> None:
        """Reply to a request. Does nothing if the connection has ended.

        A reply that is too large for a frame becomes ``Failed``. If twice as much waits as the queue may hold, the
        connection is closed and counted as back-pressure, because the caller could do nothing about an error.
        """
        if self._state is not _OPEN:
            return
        frame = encode_frame(_REPLY, message, request_id)
        if len(frame) > self._limits.max_frame_bytes:
            frame = encode_frame(_REPLY, Failed(FrameTooLarge.code, self._limits.too_large(len(frame))), request_id)
        if self._outbox.is_full(len(frame), SPARE_ROOM):
            self._counters.backpressure += 1
            self.close(f"{len(self._outbox)} replies were not read")
        elif self._outbox.add(frame, type(message) in URGENT):
            self._link.wake()

    def close(self, reason: str) -> None:
        """End the connection and tell the peer the reason. Does nothing once it has ended."""
        if self._state is _GREETING:
            self._fail_greeting(Unreachable(f"{self._link.address}: {reason}"))
        elif self._state is _OPEN:
            self.ended_here = True
            self._end(reason)
            self._outbox.add(encode_frame(Kind.BYE, Goodbye(reason)))
            if not self.flush():
                self._grace = self._clock.call_later(CLOSE_GRACE_SECONDS, self._release)

    def expel(self, reason: str) -> None:
        """End the connection as :meth:`close` does, but as if the peer had ended it: nobody waits for it to come
        back."""
        self.is_expelled = self._state is _OPEN
        self.close(reason)
        self.ended_here = False

    # --- for the transport ----------------------------------------------------------------------------

    async def establish(self, timeout_seconds: float) -> None:
        """For the dialling end: send the hello and wait until the peer has accepted it and ``opened`` was called.

        Raises:
            Unreachable: no reply within ``timeout_seconds``, in which this end's event loop ran, or the link was lost
                before. A transport may add steps (:data:`BUSY_PEER_LOOKS`).
            Refused: the peer refused this end's hello, or this end the peer's.
        """
        self._established = asyncio.get_running_loop().create_future()
        pause = timeout_seconds / GREETING_LOOKS
        timer: Timer

        def look() -> None:
            nonlocal timer
            self.greeting_looks -= 1
            if self.greeting_looks > 0:
                timer = self._clock.call_later(pause, look)
            else:
                self._fail_greeting(
                    Unreachable(f"{self._link.address} did not answer the hello within {timeout_seconds:.3g} s")
                )

        timer = self._clock.call_later(pause, look)
        self._outbox.add(encode_frame(Kind.HELLO, self._hello), urgent=True)
        self._link.wake()
        try:
            await self._established
        except asyncio.CancelledError:
            self.close("the attempt was cancelled")  # the connection may have opened just before
            raise
        finally:
            timer.cancel()

    def receive(self, packet: bytes) -> None:
        """A packet arrived. Never raises: bad packets and frames are dropped and counted."""
        if self._state is _CLOSED:
            return
        self.heard_at = self._clock.now()
        if len(packet) > self._most_received:
            problem = f"a packet of {len(packet)} bytes; at most {self._most_received} are taken here"
            self.reject(problem, oversize=True)
            return
        try:
            for frame in frames_of(packet):
                self._receive_frame(frame)
        except MalformedFrame as error:
            self.reject(str(error))

    def reject(self, problem: str, oversize: bool = False) -> None:
        """A bad packet or frame arrived and was dropped. Count it, as malformed unless ``oversize``; after
        :data:`BAD_FRAMES_ALLOWED` of them, close the connection."""
        if self._state is _CLOSED:
            return
        if oversize:
            self._counters.oversize_frames += 1
        else:
            self._counters.malformed_frames += 1
        self._bad_frames += 1
        log.warning("dropped a frame from %s: %s", self._link.address, problem)
        if self._bad_frames > BAD_FRAMES_ALLOWED:
            self.close(f"{self._bad_frames} bad frames, the last one: {problem}")

    def flush(self) -> bool:
        """Write what is queued. False if the link has no room for all of it now."""
        while packet := self._outbox.take_packet():
            if not self._link.write(packet):
                self._outbox.put_back(packet)
                return False
        if self._state is _CLOSED:
            self._release()
        return True

    def lost(self, reason: str, nobody_listens: bool = False) -> None:
        """The link has ended; nothing more can be written. Does nothing once the channel has ended."""
        if self._state is _GREETING:
            error = Unreachable(f"{self._link.address}: {reason}")
            error.nobody_listens = nobody_listens
            self._fail_greeting(error)
        elif self._state is _OPEN:
            self._end(reason)
        self._release()

    def abandon(self) -> None:
        """End without a goodbye and without calling the handler, as a killed process does. Requests are forgotten."""
        self._state = _CLOSED
        self._requests.take_all()
        self._release()

    # --- receiving -------------------------------------------------------------------------------------------

    def _receive_frame(self, frame: bytes) -> None:
        if self._state is _CLOSED:
            return
        if self._state is _GREETING and len(frame) > LONGEST_GREETING_BYTES:
            self.reject(f"a greeting of {len(frame)} bytes; expected at most {LONGEST_GREETING_BYTES}")
            return
        try:
            kind, request_id, message = decode_frame(frame)
        except MalformedFrame as error:
            self.reject(str(error))
            return
        if self._state is _GREETING:
            self._receive_greeting(kind, message)
            return
        try:
            if kind is _MESSAGE:
                self._handler.received(self, message, None)
            elif kind is _REQUEST:
                self._handler.received(self, message, request_id)
            elif kind is _REPLY:
                answered = self._requests.take(request_id)
                if answered is not None:  # otherwise it got RequestTimeout before
                    answered(message, None)
            elif kind is Kind.BYE and isinstance(message, Goodbye):
                self._end(message.reason)
                self._release()
            else:
                self.reject(f"a {kind.name.lower()} with a {type(message).__name__} on an open connection")
        except Exception:  # noqa: BLE001 - whatever a handler raises, it ends only this connection
            self._guard.failed()

    def _receive_greeting(self, kind: Kind, message: Message) -> None:
        dialling = self._established is not None
        if kind is (Kind.WELCOME if dialling else Kind.HELLO) and isinstance(message, Hello):
            proven = self._link.proven
            reason = (proven and imposture(proven, message)) or refusal(self._hello, message)
            if reason is None:
                self._open(message)
            elif dialling:
                self._fail_greeting(Refused(f"{self._link.address}: {reason}"))
            else:
                self._counters.refused_hellos += 1
                who = message.node[:LONGEST_NAME]
                log.warning("refused %s (%s) at %s: %s", who, message.role, self._link.address, reason)
                self._outbox.add(encode_frame(Kind.REFUSED, Goodbye(reason)))
                self._state = _CLOSED
                self.flush()
                self._release()
        elif kind is Kind.REFUSED and dialling and isinstance(message, Goodbye):
            self._fail_greeting(Refused(f"{self._link.address}: {message.reason}"))
        elif kind is Kind.BYE and isinstance(message, Goodbye):
            self.lost(message.reason)
        else:
            self.reject(f"a {kind.name.lower()} with a {type(message).__name__} instead of a greeting")

    def _open(self, peer: Hello) -> None:
        self._peer = peer
        if peer.role not in SERVERS:
            self._most_received = min(self._most_received, FROM_A_CLIENT_BYTES)
        self._state = _OPEN
        if self._established is None:
            self._outbox.add(encode_frame(Kind.WELCOME, self._hello), urgent=True)
        self._guard.opened()
        if self._established is None and not self._released:
            # After the handler: what it sends at the end of this turn travels in the same packet.
            self._link.wake()
        if self._established is not None and not self._established.done():
            self._established.set_result(None)

    def _fail_greeting(self, error: Exception) -> None:
        if self._state is not _GREETING:
            return
        self._state = _CLOSED
        if self._established is not None and not self._established.done():
            self._established.set_exception(error)
        self._release()

    # --- ending ----------------------------------------------------------------------------------------------

    def _end(self, reason: str) -> None:
        self._state = _CLOSED

        def finish() -> None:
            for answered in self._requests.take_all():
                self._guard.fail_request(answered, ConnectionLost(f"{self._link.address}: {reason}"))
            self._guard.closed(reason)

        # On a later turn, because a caller of ``send`` or ``close`` must not have its handler called meanwhile.
        self._clock.call_soon(finish)

    def _release(self) -> None:
        if self._released:
            return
        self._released = True
        self._outbox.clear()
        if self._grace is not None:
            self._grace.cancel()
        self._link.release()
