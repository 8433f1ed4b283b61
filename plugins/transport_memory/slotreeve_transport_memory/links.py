"""One end of a connection in memory, as a :class:`slotreeve_protocol.channel.Link`."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from slotreeve.clock import Clock
from slotreeve.keys import Principal
from slotreeve_protocol.channel import Channel

from slotreeve_transport_memory.network import MemoryNetwork

_End = str
"""The reason of the connection's end, in an inbox after the packets."""


class MemoryLink:
    """One end of a connection. A written packet goes to the inbox of the other end, which delivers it when it is due
    and the network lets it pass.

    Attributes:
        source: endpoint at this end.
        target: endpoint at the other end.
        address: address of the other end.
        proven: who the other end is by its key.
        channel: the channel on this link; set before the first packet.
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
        proven: Principal | None = None,
    ) -> None:
        self.source = source
        self.target = target
        self.address = address
        self.proven = proven
        self._network = network
        self._clock = clock
        self._on_release = released
        self._inbox: deque[tuple[float, bytes | _End]] = deque()
        self._scheduled = False
        self._written_at = 0.0
        self._answered_at = math.inf  # when the first packet to this end can have been answered
        self._released = False
        self._says_nothing = False
        self._waits_for_room = False
        network.attach(self)

    # --- Link ------------------------------------------------------------------------------------------------

    def write(self, packet: bytes) -> bool:
        """Send a packet. False if the inbox of the other end is full."""
        if len(self.other._inbox) >= self._network.under_way_packets:
            self._waits_for_room = True
            return False
        self.other._put(packet)
        return True

    def wake(self) -> None:
        """Flush on the next turn of the event loop."""
        self._clock.call_soon(self._flush)

    def release(self) -> None:
        """Close this end. The other end gets the end of the connection after the packets written before."""
        if not self._released:
            self._released = True
            self._inbox.clear()
            self._network.detach(self)
            if not self._says_nothing:
                self.other._put("connection closed")
            self._on_release(self)

    # --- delivery --------------------------------------------------------------------------------------------

    @property
    def has_unread(self) -> bool:
        """True while a packet has arrived at this end and was not delivered."""
        return (
            bool(self._inbox)
            and self._inbox[0][0] <= self._clock.now()
            and self._network.passes(self.target, self.source)
        )

    @property
    def has_answered(self) -> bool:
        """Whether packets travel both ways, and the first one from here has had the time to arrive and to be answered:
        a process that is busy counts as one whose transport answers, a network that is slow does not."""
        passes = self._network.passes(self.source, self.target) and self._network.passes(self.target, self.source)
        return passes and not self.other._says_nothing and self.other._answered_at <= self._clock.now()

    def die(self) -> None:
        """The process at this end was killed: call no handler here."""
        self.channel.abandon()

    def say_nothing(self) -> None:
        """The machine at this end goes down: the other end is not told of it. What it writes fills the connection."""
        self._says_nothing = True

    def break_off(self, reason: str) -> None:
        """End the connection at this end now. Packets on their way to it are lost."""
        self._inbox.clear()
        self._clock.call_soon(lambda: self.channel.lost(reason))

    def schedule(self) -> None:
        """Deliver the packets that are due. Call it again when the network lets packets pass again."""
        if self._scheduled or not self._inbox or not self._network.passes(self.target, self.source):
            return
        self._scheduled = True
        wait = self._inbox[0][0] - self._clock.now()
        processor = self._network.processors.get(self.source)
        if processor is not None:
            wait = max(wait, processor.busy_for())
        if wait > 0:
            self._clock.call_later(wait, self._deliver)
        else:
            self._clock.call_soon(self._deliver)

    def _put(self, item: bytes | _End) -> None:
        if self._released:
            if self._says_nothing:
                self._inbox.append((math.inf, item))
            return
        self._written_at = max(self._written_at, self._clock.now())
        if isinstance(item, bytes):
            self._written_at += len(item) / self._network.bytes_per_second
        due = self._written_at + self._network.delay_seconds(self.target, self.source)
        if self._answered_at == math.inf:
            self._answered_at = 2 * due - self._written_at
        if self._inbox:
            due = max(due, self._inbox[-1][0])
        self._inbox.append((due, item))
        self.schedule()

    def _deliver(self) -> None:
        self._scheduled = False
        if not self._network.passes(self.target, self.source):
            return
        now = self._clock.now()
        processor = self._network.processors.get(self.source)
        for _ in range(len(self._inbox)):
            if not self._inbox or self._inbox[0][0] > now or (processor is not None and processor.busy_for() > 0):
                break
            _, item = self._inbox.popleft()
            if isinstance(item, bytes):
                self.channel.receive(item)
                if processor is not None:
                    processor.handled(item)
            else:
                self.channel.lost(item)
        self.schedule()
        if self.other._waits_for_room:
            self.other._waits_for_room = False
            self.other.wake()

    def _flush(self) -> None:
        if not self._released:
            self.channel.flush()
