"""When to look at what ends in time: a timing wheel that a later end does not touch. Pure: time is an argument.

What was put off is found nevertheless when the time has come that was its end before, and is added again (Varghese and
Lauck 1987, corrected lazily): a renewal costs nothing here.
"""

from __future__ import annotations

from typing import Generic, TypeVar

TICK_SECONDS = 0.05
"""An entry is found so much late at most."""


class Timed:
    """An entry. ``tick``: where the wheel has it; 0: nowhere."""

    __slots__ = ("tick",)

    def __init__(self) -> None:
        self.tick = 0


Entry = TypeVar("Entry", bound=Timed)


class TimingWheel(Generic[Entry]):
    """Entries by time.

    Invariant: each entry that was added, and neither found nor dropped since, is in the bucket of its tick.
    """

    def __init__(self, now: float) -> None:
        self._tick = _tick_of(now)
        self._buckets: dict[int, dict[Entry, None]] = {}

    def add(self, entry: Entry, at: float) -> None:
        """Find this entry at that time. One that would be found earlier stays where it is."""
        tick = max(_tick_of(at) + 1, self._tick)
        if not entry.tick or tick < entry.tick:
            self.drop(entry)
            entry.tick = tick
            self._buckets.setdefault(tick, {})[entry] = None

    def drop(self, entry: Entry) -> None:
        """Find this entry no more. Its time may be far away, and what it belongs to large, so it does not stay."""
        bucket = self._buckets.get(entry.tick)
        if bucket is not None:
            bucket.pop(entry, None)
            if not bucket and entry.tick > self._tick:
                del self._buckets[entry.tick]
        entry.tick = 0

    def due(self, now: float) -> Entry | None:
        """Take out one of the entries whose time has come, if there is one."""
        end = _tick_of(now)
        while self._tick <= end:
            bucket = self._buckets.get(self._tick)
            while bucket:
                entry, _ = bucket.popitem()
                entry.tick = 0
                return entry
            self._buckets.pop(self._tick, None)
            self._tick += 1
        return None


def _tick_of(seconds: float) -> int:
    """The number of a tick, from 1 on."""
    return max(0, int(seconds / TICK_SECONDS)) + 1
