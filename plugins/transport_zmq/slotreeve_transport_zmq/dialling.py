"""The dialling end: one DEALER socket for each connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import zmq
from slotreeve.wire.channel import Channel

from slotreeve_transport_zmq.sockets import (
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
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
)
_REASONS = {
    int(zmq.EVENT_CLOSED): "the connection was refused",
    int(zmq.EVENT_DISCONNECTED): "connection lost",
    int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL): "it hung up during the handshake",
    int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL): "it does not speak ZeroMQ",
}


class DialledLink(SocketEnd, OutgoingLink):
    """One outgoing connection. Set ``channel``, then call :meth:`dial`."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        socket: zmq.Socket[bytes],
        address: str,
        loop: asyncio.AbstractEventLoop,
        flusher: Flusher,
        released: Callable[[DialledLink], None],
    ) -> None:
        super().__init__(socket, loop, flusher)
        self.channel: Channel
        self._address = address
        self._told_release = released
        self._end_reason = ""
        self._monitor = Monitor(context, socket, _EVENTS, loop, self._happened)

    @property
    def address(self) -> str:
        """Where the other side is."""
        return self._address

    @property
    def end(self) -> SocketEnd:
        """Itself."""
        return self

    def dial(self, endpoint: str) -> None:
        """Begin to connect; the end of the attempt is an event.

        Raises:
            zmq.ZMQError: the endpoint is not one.
        """
        self.socket.setsockopt(zmq.RECONNECT_IVL, -1)
        self.socket.connect(endpoint)

    def write(self, packet: bytes) -> bool:
        """Hand a packet to libzmq; False while its queue is full (or the connection has just ended)."""
        try:
            self.socket.send(packet, zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def wake(self) -> None:
        """Flush at the end of this turn."""
        self._flusher.wake(self)

    def release(self) -> None:
        """Close the socket."""
        self._monitor.close()
        self.detach()
        self._told_release(self)

    def read(self) -> bool:
        """Take what has come in; the end of the connection counts only after all that came before it."""
        receive, channel = self.socket.recv, self.channel
        size = 0
        try:
            for _ in range(TURN_PACKETS):
                packet = receive(zmq.NOBLOCK)
                if self.socket.getsockopt(zmq.RCVMORE):
                    self._skip_parts()
                    channel.reject("a message of several parts")
                else:
                    channel.receive(packet)
                size += len(packet)
                if self.detached:
                    return True
                if size > TURN_BYTES:
                    return False
        except zmq.Again:
            if self._end_reason:
                channel.lost(self._end_reason)
            return True
        return False

    def _skip_parts(self) -> None:
        while self.socket.getsockopt(zmq.RCVMORE):
            self.socket.recv(zmq.NOBLOCK)

    def _happened(self, event: int, _fd: int) -> None:
        self._end_reason = self._end_reason or _REASONS.get(event, "connection lost")
        self.schedule()
