"""Driving libzmq's sockets from an asyncio loop without ``zmq.asyncio``, which costs three times as much.

A ZeroMQ socket's descriptor is edge-triggered: it becomes readable once when something has happened, and any call on
the socket may consume that news. So whoever is woken reads until nothing is left, and whoever has sent looks whether
something has come in meanwhile.
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
"""How long a closed socket goes on sending; also what closing the last transport of a process may wait at most."""
HANDSHAKE_MS = 5_000
"""How long somebody may be connected without speaking ZeroMQ."""
BACKLOG = 1024
QUEUE_PACKETS = 256
"""Packets that libzmq holds for one connection and direction; the rest waits in the channel's outbox."""
TURN_PACKETS = 100
TURN_BYTES = 32 * 1024
"""What is read in one turn of the event loop, at most (and one packet more)."""
FIRST_RETRY_SECONDS = 0.001
LAST_RETRY_SECONDS = 0.032

# As plain numbers: pyzmq's enumerations cost more than the calls they go to.
NOBLOCK = int(zmq.NOBLOCK)
NOBLOCK_SNDMORE = int(zmq.NOBLOCK | zmq.SNDMORE)
RCVMORE = int(zmq.RCVMORE)
_EVENTS = int(zmq.EVENTS)
_POLLIN = int(zmq.POLLIN)

_EVENT = struct.Struct("=Hi")
_monitor_numbers = itertools.count(1)


class SocketEnd(ABC):
    """A socket read by the event loop."""

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
        """Take what has come in, at most a turn's worth; True when nothing is left."""

    def look(self) -> None:
        """After sending: see to it that what came in meanwhile is read."""
        if not self.detached and int(self.socket.getsockopt(_EVENTS)) & _POLLIN:
            self.schedule()

    def schedule(self) -> None:
        """Read on the next turn."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._continue)

    def detach(self, linger_ms: int) -> None:
        """Stop reading and close the socket; what was sent lingers on."""
        if not self.detached:
            self.detached = True
            self._loop.remove_reader(self._fd)
            self.socket.close(linger_ms)

    def skip_parts(self) -> None:
        """Take and forget what is left of a message of several parts."""
        while self.socket.getsockopt(RCVMORE):
            self.socket.recv(NOBLOCK)

    def _continue(self) -> None:
        self._scheduled = False
        self._ready()

    def _ready(self) -> None:
        if self.detached:
            return
        if not self.read():
            self.schedule()
        # Answers to what was just read leave now, not a turn later.
        self._flusher.flush()


class OutgoingLink(ABC):
    """What the flusher sees of a link."""

    channel: Channel

    @property
    @abstractmethod
    def end(self) -> SocketEnd:
        """The socket it sends through."""


class Flusher:
    """Flushes the channels that have something to send: once a turn, and again and again where there is no room."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self.loop = loop
        self._clock = clock
        self._woken: list[OutgoingLink] = []
        self._blocked: list[OutgoingLink] = []
        self._scheduled = False
        self._retry: Timer | None = None
        self._retry_seconds = FIRST_RETRY_SECONDS

    def wake(self, link: OutgoingLink) -> None:
        """The link's channel has something to send; at the latest it leaves when this turn ends."""
        self._woken.append(link)
        if not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._turn_ended)

    def flush(self) -> None:
        """Send what is waiting, wherever there is room."""
        if self._woken:
            woken, self._woken = self._woken, []
            self._blocked += _flush_all(woken)
            # libzmq tells of new room by the same edge as of everything else, and for a ROUTER without saying for whom.
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
        before, self._blocked = len(self._blocked), _flush_all(self._blocked)
        progress = len(self._blocked) < before
        self._retry_seconds = FIRST_RETRY_SECONDS if progress else min(2 * self._retry_seconds, LAST_RETRY_SECONDS)
        self._retry = self._clock.call_later(self._retry_seconds, self._try_again) if self._blocked else None


def _flush_all(links: list[OutgoingLink]) -> list[OutgoingLink]:
    """Flush the channels of these links; returns those that have no room for all of it."""
    blocked: list[OutgoingLink] = []
    ends: set[SocketEnd] = set()
    for link in links:
        if not link.channel.flush():
            blocked.append(link)
        ends.add(link.end)
    for end in ends:
        end.look()
    return blocked


class Monitor:
    """What libzmq does behind a socket: ``told(event, value)``, the value being a file descriptor."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        monitored: zmq.Socket[bytes],
        events: int,
        loop: asyncio.AbstractEventLoop,
        told: Callable[[int, int], None],
    ) -> None:
        self._loop = loop
        self._told = told
        self._monitored = monitored
        name = f"inproc://monitor-{next(_monitor_numbers)}"
        monitored.monitor(name, events)
        self._pair = context.socket(zmq.PAIR)
        # Unbounded: a full queue would block libzmq's I/O thread, and with it whoever closes the monitored socket.
        self._pair.setsockopt(zmq.RCVHWM, 0)
        self._pair.connect(name)
        self._fd = self._pair.FD
        self._closed = False
        loop.add_reader(self._fd, self.drain)
        # The edge tells only of what comes after a look that found nothing.
        self.drain()

    def drain(self) -> None:
        """Tell everything that has happened so far."""
        while not self._closed:
            try:
                event, _endpoint = self._pair.recv_multipart(NOBLOCK)
            except zmq.Again:
                return
            self._told(*_EVENT.unpack(event))

    def close(self) -> None:
        """Stop monitoring; to be called before the monitored socket is closed."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._fd)
            self._monitored.disable_monitor()
            self._pair.close(0)


def new_socket(
    context: zmq.Context[zmq.Socket[bytes]], kind: int, endpoint: str, max_frame_bytes: int
) -> zmq.Socket[bytes]:
    """A socket for ``endpoint``, with the options that both ends share."""
    socket = context.socket(kind)
    socket.setsockopt(zmq.IPV6, "[" in endpoint)
    socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
    socket.setsockopt(zmq.LINGER, LINGER_MS)
    socket.setsockopt(zmq.SNDHWM, QUEUE_PACKETS)
    socket.setsockopt(zmq.RCVHWM, QUEUE_PACKETS)
    # libzmq cuts a peer off without a word; what is only somewhat too large comes through, to be counted.
    socket.setsockopt(zmq.MAXMSGSIZE, 2 * max_frame_bytes)
    socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
    socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, 10)
    socket.setsockopt(zmq.TCP_KEEPALIVE_INTVL, 5)
    socket.setsockopt(zmq.TCP_KEEPALIVE_CNT, 3)
    return socket
