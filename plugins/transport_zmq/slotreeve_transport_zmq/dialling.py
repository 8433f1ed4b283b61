"""The dialling end: one DEALER socket for each connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import zmq
from slotreeve.keys import Principal
from slotreeve_protocol.channel import BUSY_PEER_LOOKS, Channel

from slotreeve_transport_zmq.sockets import (
    LINGER_MS,
    NOBLOCK,
    RCVMORE,
    TURN_BYTES,
    TURN_PACKETS,
    Flusher,
    Monitor,
    OutgoingLink,
    SocketEnd,
)

_EVENTS = (
    zmq.EVENT_CLOSED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
)
_SUCCEEDED = int(zmq.EVENT_HANDSHAKE_SUCCEEDED)
_CLOSED = int(zmq.EVENT_CLOSED)
_HUNG_UP = int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
_DENIED = int(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
_REASONS = {
    _CLOSED: "the connection was refused",
    int(zmq.EVENT_DISCONNECTED): "connection lost",
    _DENIED: "the key of this process is not trusted there",
    _HUNG_UP: "the peer hung up during the handshake: it may have another key or expect one of this process, or one of"
    " both stood still for seconds",
    int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL): "the peer does not speak ZeroMQ, or only one end uses keys",
}


class DialledLink(SocketEnd, OutgoingLink):
    """One outgoing connection. Set ``channel``, then call :meth:`dial`. It raises ZMQError where this process has no
    descriptor left for it, and leaves nothing behind then.

    Attributes:
        proven: who the peer is, once ZeroMQ's handshake is over; None without keys.
        was_denied: the peer has refused this process's key. ``has_ended``: the connection has ended or was refused.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        socket: zmq.Socket[bytes],
        address: str,
        flusher: Flusher,
        released: Callable[[DialledLink], None],
        proven: Principal | None = None,
    ) -> None:
        super().__init__(socket, flusher)
        self.channel: Channel
        self.proven = proven
        self.was_denied = False
        self._address = address
        self._on_release = released
        self._end_reason = ""
        self._was_refused = False
        self._has_answered = False
        self._leave: asyncio.TimerHandle | None = None
        try:
            self._monitor = Monitor(context, socket, _EVENTS, flusher.loop, self._happened)
        except zmq.ZMQError:
            self.detach(0)
            raise

    @property
    def address(self) -> str:
        """The address of the peer."""
        return self._address

    @property
    def end(self) -> SocketEnd:
        """Itself."""
        return self

    @property
    def has_ended(self) -> bool:
        """See the class."""
        return bool(self._end_reason)

    @property
    def has_answered(self) -> bool:
        """Whether the peer's libzmq has completed ZeroMQ's handshake. Its I/O thread does so while the process is
        busy."""
        self._monitor.drain()
        return self._has_answered

    def dial(self, endpoint: str) -> None:
        """Begin to connect. The monitor reports how the attempt ends.

        Raises:
            zmq.ZMQError: the endpoint is not valid.
        """
        # libzmq must not reconnect: the new connection would look like the old one with a gap.
        self.socket.setsockopt(zmq.RECONNECT_IVL, -1)
        self.socket.connect(endpoint)

    def write(self, packet: bytes) -> bool:
        """Give a packet to libzmq. False if its queue is full (or the connection has just ended)."""
        try:
            self.socket.send(packet, NOBLOCK)
        except zmq.Again:
            return False
        return True

    def wake(self) -> None:
        """Flush by the end of this turn."""
        self._flusher.wake(self)

    def release(self) -> None:
        """Close the socket: at once where the peer has ended; else once it does, or after a second."""
        if self.channel.ended_here and not self._end_reason:
            # A stream that is closed with bytes unread is reset, and what it has to send is lost: first the peer ends.
            self._leave = self._flusher.loop.call_later(LINGER_MS / 1000, self._close)
        else:
            self._close()

    def _close(self) -> None:
        if self._leave is not None:
            self._leave.cancel()
        self._monitor.close()
        self.detach(LINGER_MS if self.channel.opened and not self._end_reason else 0)
        self._on_release(self)

    def read(self) -> bool:
        """Read packets. The end of the connection is reported after all packets that arrived before it."""
        receive, channel = self.socket.recv, self.channel
        size = 0
        for _ in range(TURN_PACKETS):
            if not self.is_readable:
                if self._end_reason:
                    channel.lost(self._end_reason, self._was_refused)
                    if not self.detached:
                        self._close()
                return True
            packet = receive(NOBLOCK)
            if self.socket.getsockopt(RCVMORE):
                self.skip_parts()
                channel.reject("a message of several parts")
            else:
                channel.receive(packet)
            size += len(packet)
            if self.detached:
                return True
            if size > TURN_BYTES:
                return False
        return False

    def end_all(self, reason: str) -> None:
        """The one connection ends."""
        self.channel.lost(reason)

    def _happened(self, event: int, _fd: int) -> None:
        if event == _SUCCEEDED:
            self._has_answered = True
            self.channel.greeting_looks += BUSY_PEER_LOOKS
            return
        self.was_denied = self.was_denied or event == _DENIED
        if not self._end_reason:
            self._was_refused = event == _CLOSED
        self._end_reason = self._end_reason or _REASONS.get(event, "connection lost")
        self.schedule()
