"""One end of a connection in memory, as a :class:`slotreeve_protocol.channel.Link`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from slotreeve.clock import Clock
from slotreeve_protocol.channel import Channel

from slotreeve_transport_memory.network import MemoryNetwork

UNDER_WAY_PACKETS = 1024
"""Packets that one direction of a connection holds, like the socket buffers of a real one."""

_End = str
"""In an inbox, after the packets: why the connection ended."""


class MemoryLink:
    """What one end writes lands in the other end's inbox, and is delivered when it is due and the way is free.

    Attributes:
        source: endpoint at this end.
        target: endpoint at the other end.
        address: where the other end is.
        channel: the protocol on top; set before the first packet.
        other: the other end.
    """

    channel: Channel
    other: MemoryLink

    def __init__(
        self,
        network: MemoryNetwork,
        clock: Clock,
        source: str,
        target: str,
        address: str,
        released: Callable[[MemoryLink], None],
    ) -> None:
        self.source = source
        self.target = target
        self.address = address
        self._network = network
        self._clock = clock
        self._told_release = released
        self._inbox: deque[tuple[float, bytes | _End]] = deque()
        self._scheduled = False
        self._released = False
        self._waits_for_room = False
        network.attach(self)

    # --- Link ------------------------------------------------------------------------------------------------

    def write(self, packet: bytes) -> bool:
        """Put a packet under way; False while the other end's inbox is full."""
        if len(self.other._inbox) >= UNDER_WAY_PACKETS:
            self._waits_for_room = True
            return False
        self.other._put(packet)
        return True

    def wake(self) -> None:
        """Flush on the next turn."""
        self._clock.call_soon(self._flush)

    def release(self) -> None:
        """This end is done; the other end learns of it after what was written before."""
        if not self._released:
            self._released = True
            self._inbox.clear()
            self._network.detach(self)
            self.other._put("connection closed")
            self._told_release(self)

    # --- delivery --------------------------------------------------------------------------------------------

    def die(self) -> None:
        """The process at this end is gone; nothing is told here."""
        self.channel.abandon()

    def break_off(self, reason: str) -> None:
        """End the connection at this end now, losing what is under way to it."""
        self._inbox.clear()
        self._clock.call_soon(lambda: self.channel.lost(reason))

    def schedule(self) -> None:
        """Deliver what is due as soon as the way is free; call again when it has become free."""
        if self._scheduled or not self._inbox or not self._network.passes(self.target, self.source):
            return
        self._scheduled = True
        wait = self._inbox[0][0] - self._clock.now()
        if wait > 0:
            self._clock.call_later(wait, self._deliver)
        else:
            self._clock.call_soon(self._deliver)

    def _put(self, item: bytes | _End) -> None:
        if self._released:
            return
        due = self._clock.now() + self._network.delay_seconds(self.target, self.source)
        if self._inbox:
            due = max(due, self._inbox[-1][0])
        self._inbox.append((due, item))
        self.schedule()

    def _deliver(self) -> None:
        self._scheduled = False
        if not self._network.passes(self.target, self.source):
            return
        now = self._clock.now()
        for _ in range(len(self._inbox)):
            if not self._inbox or self._inbox[0][0] > now:
                break
            _, item = self._inbox.popleft()
            if isinstance(item, bytes):
                self.channel.receive(item)
            else:
                self.channel.lost(item)
        self.schedule()
        if self.other._waits_for_room:
            self.other._waits_for_room = False
            self.other.wake()

    def _flush(self) -> None:
        if not self._released:
            self.channel.flush()
