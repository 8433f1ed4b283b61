"""For how long slots could not be read. Pure.

A slot cannot be read from the last sign of life of its former leader until its new leader serves it. The new leader
measures both on its own monotonic clock: as a follower it was connected to the former one. Where it was not, the time
begins when it is told to lead, and what was before is not known here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from slotreeve_events.history import ServerHistory
from slotreeve_protocol.delay_messages import MOST_LAGGING, GetSlotReads, SlotReads, SlotReadsPage

from slotreeve_servers.node.outbox import Outbox, Peer
from slotreeve_servers.node.timings import Timing

HOUR_SECONDS, DAY_SECONDS = 3_600.0, 86_400.0
MOST_KEPT = 100
"""Times of one slot that are kept apart; of more, the two oldest become one."""
TOLD_FROM_SECONDS = 0.05
"""Shorter times are counted, and not told of: each planned move of a leader takes some milliseconds."""


class Began(NamedTuple):
    """A slot cannot be read since this time, for this reason."""

    since: float
    why: str


class UnreadableSlots:
    """The slots of one data server that it leads and that cannot be read, and for how long they could not.

    Attributes:
        times: each time that ended. ``total_seconds`` of it is the sum.
    """

    def __init__(self, outbox: Outbox, name: str, history: ServerHistory | None) -> None:
        self._outbox, self._name, self._history = outbox, name, history
        self._open: dict[int, Began] = {}
        self._ended: dict[int, deque[tuple[float, float]]] = {}
        self._to_tell: dict[str, dict[int, float]] = {}
        self.times = Timing()

    @property
    def open(self) -> int:
        """Number of slots that cannot be read now."""
        return len(self._open)

    def begins(self, slot: int, since: float, why: str) -> None:
        """This server leads a slot and does not serve it yet. Where it did so before, the earlier time counts."""
        known = self._open.get(slot)
        self._open[slot] = Began(since, why) if known is None or since < known.since else known

    def ends(self, slot: int, outcome: str = "serves it now") -> None:
        """The slot can be read again; or this server leads it no more. ``outcome``: what this server does."""
        began = self._open.pop(slot, None)
        if began is None:
            return
        now = self._outbox.now()
        seconds = max(0.0, now - began.since)
        self.times.took(seconds)
        ended = self._ended.setdefault(slot, deque())
        if len(ended) >= MOST_KEPT:
            (_, first), (at, second) = ended.popleft(), ended.popleft()
            ended.appendleft((at, first + second))
        ended.append((now, seconds))
        if seconds >= TOLD_FROM_SECONDS:
            self._to_tell.setdefault(f"{began.why}; {self._name} {outcome}", {})[slot] = seconds

    def keep(self, led: Mapping[int, object]) -> None:
        """These slots are led here. Of others that could not be read, the time has ended here."""
        for slot in [slot for slot in self._open if slot not in led]:
            self.ends(slot, "was to lead it, and another server is to lead it now")

    def look(self) -> None:
        """Tell of the times that have ended since the last call."""
        told, self._to_tell = self._to_tell, {}
        if self._history is None:
            return
        for why, slots in told.items():
            event = self._history.note("slots_unreadable", why)
            event.slots = sorted(slots)
            event.unreadable_ms = [round(1000 * slots[slot], 1) for slot in event.slots]

    def answer(self, peer: Peer, asked: GetSlotReads) -> SlotReadsPage:
        """See GetSlotReads."""
        known = sorted(slot for slot in {*self._open, *self._ended} if slot > asked.after)
        wanted = known[: max(1, min(asked.most, MOST_LAGGING))]
        return SlotReadsPage(tuple(map(self._reads, wanted)), len(known) > len(wanted))

    def _reads(self, slot: int) -> SlotReads:
        now, began = self._outbox.now(), self._open.get(slot)
        ended = self._ended.get(slot, deque())
        while ended and ended[0][0] <= now - DAY_SECONDS:
            ended.popleft()
        open_seconds = max(0.0, now - began.since) if began is not None else 0.0
        hour = sum(_within(ended, now, HOUR_SECONDS)) + min(open_seconds, HOUR_SECONDS)
        day = sum(_within(ended, now, DAY_SECONDS)) + min(open_seconds, DAY_SECONDS)
        return SlotReads(slot, open_seconds, hour, day, len(ended), began.why if began is not None else "")


def _within(ended: deque[tuple[float, float]], now: float, window: float) -> Iterator[float]:
    """The part of each time that lies in the last ``window`` seconds."""
    for at, seconds in ended:
        if at > now - window:
            yield min(seconds, at - (now - window))
