"""libzmq's sockets on an asyncio loop, without ``zmq.asyncio``, which takes three times the processor time.

The descriptor of a ZeroMQ socket is edge-triggered: it becomes readable once when something has happened, and any call
on the socket may reset that. So a reader reads until nothing is left, and after each send the socket is checked for
input.
"""

from __future__ import annotations

import asyncio
import itertools
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable

import zmq
from slotreeve.clock import Clock, Timer
from slotreeve_protocol.channel import Channel

LINGER_MS = 1_000
"""A closed socket goes on sending for so long. Closing the last transport of a process may take as long."""
BACKLOG = 1024
QUEUE_PACKETS = 256
"""Number of packets that libzmq holds for one connection and direction. The rest waits in the channel's outbox."""
TURN_PACKETS = 100
TURN_BYTES = 32 * 1024
"""Most packets and bytes that are read in one turn of the event loop; the last packet may exceed the bytes."""
FIRST_RETRY_SECONDS = 0.001
LAST_RETRY_SECONDS = 0.032

# Plain numbers, because pyzmq's enumerations take more time than the calls that use them.
NOBLOCK = int(zmq.NOBLOCK)
NOBLOCK_SNDMORE = int(zmq.NOBLOCK | zmq.SNDMORE)
RCVMORE = int(zmq.RCVMORE)
_EVENTS = int(zmq.EVENTS)
_POLLIN = int(zmq.POLLIN)

_EVENT = struct.Struct("=Hi")
_monitor_numbers = itertools.count(1)


class SocketEnd(ABC):
    """A socket that the event loop reads."""

    def __init__(self, socket: zmq.Socket[bytes], flusher: Flusher) -> None:
        self.socket = socket
        self.detached = False
        self._flusher = flusher
        self._loop = flusher.loop
        self._scheduled = False
        self._fd = socket.FD
        self._loop.add_reader(self._fd, self._ready)

    @abstractmethod
    def read(self) -> bool:
        """Read packets, as many as one turn may. True if nothing is left."""

    @abstractmethod
    def end_all(self, reason: str) -> None:
        """End every connection over this socket at once: a packet of one of them may be lost."""

    @property
    def is_readable(self) -> bool:
        """Whether a packet can be read now. It costs less than a call of ``recv`` that raises ``Again``."""
        return bool(int(self.socket.getsockopt(_EVENTS)) & _POLLIN)

    def look(self) -> None:
        """After another call on the socket: have packets read that arrived meanwhile."""
        if not self.detached and self.is_readable:
            self.schedule()

    @property
    def has_unread(self) -> bool:
        """True while libzmq has packets that were not read. They are read soon."""
        self.look()
        return self._scheduled

    def schedule(self) -> None:
        """Read on the next turn."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._continue)

    def detach(self, linger_ms: int) -> None:
        """Stop reading and close the socket. libzmq goes on sending for ``linger_ms``."""
        if not self.detached:
            self.detached = True
            self._loop.remove_reader(self._fd)
            self.socket.close(linger_ms)

    def skip_parts(self) -> None:
        """Read and drop the other parts of a message of several parts."""
        while self.socket.getsockopt(RCVMORE):
            self.socket.recv(NOBLOCK)

    def _continue(self) -> None:
        self._scheduled = False
        self._ready()

    def _ready(self) -> None:
        if self.detached:
            return
        try:
            if not self.read():
                self.schedule()
        except Exception:
            # For the event loop's handler, which logs it. What was read may be lost, so nobody may go on as if it were
            # not, least of all a process that has no memory left.
            self.end_all("reading failed")
            raise
        # Send replies to the packets just read now, not a turn later.
        self._flusher.flush()


class OutgoingLink(ABC):
    """A link for the flusher."""

    channel: Channel

    @property
    @abstractmethod
    def end(self) -> SocketEnd:
        """The socket that it sends with."""


class Flusher:
    """Flushes the channels that have something to send: once each turn, and repeatedly while libzmq has no room."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self.loop = loop
        self._clock = clock
        self._woken: list[OutgoingLink] = []
        self._blocked: list[OutgoingLink] = []
        self._scheduled = False
        self._retry: Timer | None = None
        self._retry_seconds = FIRST_RETRY_SECONDS

    def wake(self, link: OutgoingLink) -> None:
        """The link's channel has something to send. It is flushed by the end of this turn."""
        self._woken.append(link)
        if not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._turn_ended)

    def flush(self) -> None:
        """Send everything that waits and for which there is room."""
        if self._woken:
            woken, self._woken = self._woken, []
            self._flush_all(woken)
            # libzmq reports new room by the same edge as everything else, and for a ROUTER not for which peer.
            if self._blocked and self._retry is None:
                self._retry_seconds = FIRST_RETRY_SECONDS
                self._retry = self._clock.call_later(self._retry_seconds, self._try_again)

    def close(self) -> None:
        """Stop retrying."""
        if self._retry is not None:
            self._retry.cancel()

    def _turn_ended(self) -> None:
        self._scheduled = False
        self.flush()

    def _try_again(self) -> None:
        links, self._blocked = self._blocked, []
        self._flush_all(links)
        progress = len(self._blocked) < len(links)
        self._retry_seconds = FIRST_RETRY_SECONDS if progress else min(2 * self._retry_seconds, LAST_RETRY_SECONDS)
        self._retry = self._clock.call_later(self._retry_seconds, self._try_again) if self._blocked else None

    def _flush_all(self, links: list[OutgoingLink]) -> None:
        """Flush the channels of these links, and remember those without room for everything. What a link raises is for
        the event loop's handler: the other ones are flushed, because nothing else would wake them again."""
        ends: set[SocketEnd] = set()
        for link in links:
            try:
                if not link.channel.flush():
                    self._blocked.append(link)
            except Exception as error:  # noqa: BLE001 - it is given to the loop's handler
                link.channel.lost("writing failed")  # a packet was taken from its queue and may not be sent
                what = {"message": f"writing to {link.channel.address} failed", "exception": error}
                self.loop.call_exception_handler(what)
            ends.add(link.end)
        for end in ends:
            end.look()


class Monitor:
    """Reports libzmq's events of a socket by calling ``happened(event, file descriptor)``.

    An event is reported at once, and those of the next ``pause_seconds`` together: a wake-up takes more time than what
    an event is for, and strangers that connect again and again cause three for each attempt.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        monitored: zmq.Socket[bytes],
        events: int,
        loop: asyncio.AbstractEventLoop,
        happened: Callable[[int, int], None],
        pause_seconds: float = 0.0,
    ) -> None:
        self._loop = loop
        self._pause_seconds = pause_seconds
        self._report = happened
        self._monitored = monitored
        name = f"inproc://monitor-{next(_monitor_numbers)}"
        monitored.monitor(name, events)
        self._pair = context.socket(zmq.PAIR)
        # Unbounded: a full queue would block libzmq's I/O thread, and so also the close of the monitored socket.
        self._pair.setsockopt(zmq.RCVHWM, 0)
        self._pair.connect(name)
        self._fd = self._pair.FD
        self._closed = False
        loop.add_reader(self._fd, self._woken)
        # The edge reports only events after a read that found none.
        self.drain()

    def _woken(self) -> None:
        if self._pause_seconds:
            self._loop.remove_reader(self._fd)
            self._loop.call_later(self._pause_seconds, self._paused)
        self.drain()

    def _paused(self) -> None:
        more = not self._closed
        try:
            more = self.drain()
        finally:  # whatever a report raises, the next events are read
            if more:
                self._loop.call_later(self._pause_seconds, self._paused)
            elif not self._closed:
                self._loop.add_reader(self._fd, self._woken)

    def drain(self) -> bool:
        """Report every event so far. False if there was none."""
        found = False
        while not self._closed:
            try:
                event = self._pair.recv(NOBLOCK)  # it asks the kernel once for all events, and EVENTS would for each
            except zmq.Again:
                break
            self._pair.recv(NOBLOCK)  # the endpoint
            found = True
            self._report(*_EVENT.unpack(event))
        return found

    def close(self) -> None:
        """Stop monitoring. Call it before the monitored socket is closed."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._fd)
            self._monitored.disable_monitor()
            self._pair.close(0)


def new_socket(
    context: zmq.Context[zmq.Socket[bytes]], kind: int, endpoint: str, max_frame_bytes: int, handshake_ms: int = 0
) -> zmq.Socket[bytes]:
    """A socket for ``endpoint``, with the options of both ends. A peer that does not complete ZeroMQ's handshake
    within ``handshake_ms`` is disconnected; 0: it may take any time."""
    socket = context.socket(kind)
    socket.setsockopt(zmq.IPV6, "[" in endpoint)
    socket.setsockopt(zmq.HANDSHAKE_IVL, handshake_ms)
    socket.setsockopt(zmq.LINGER, LINGER_MS)
    socket.setsockopt(zmq.SNDHWM, QUEUE_PACKETS)
    socket.setsockopt(zmq.RCVHWM, QUEUE_PACKETS)
    # libzmq disconnects a peer without a message. A packet that is a little too large gets through and is counted.
    socket.setsockopt(zmq.MAXMSGSIZE, 2 * max_frame_bytes)
    socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
    socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, 10)
    socket.setsockopt(zmq.TCP_KEEPALIVE_INTVL, 5)
    socket.setsockopt(zmq.TCP_KEEPALIVE_CNT, 3)
    return socket
