"""How long things took, counted in ranges of time; and what was counted lately. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence

from slotreeve_protocol.delay_messages import StageDelays

BOUNDS_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper ends of the ranges. What took longer than the last one is in a range without an end."""
SLICE_SECONDS = 30.0
"""What was counted lately is known in steps of this length."""
LATELY_SECONDS = 300.0


class Timing:
    """A histogram. To count one duration costs less than a microsecond.

    Attributes:
        counts: how many durations fell into each range of :data:`BOUNDS_SECONDS`, then those above the last bound.
        total_seconds: their sum.
        longest_seconds: the longest one since somebody set it to 0.
    """

    __slots__ = ("counts", "longest_seconds", "total_seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_SECONDS) + 1)
        self.total_seconds = 0.0
        self.longest_seconds = 0.0

    def took(self, seconds: float, times: int = 1) -> None:
        """It took so long, so many times. A duration equal to a bound belongs to the range that ends there."""
        self.counts[bisect_left(BOUNDS_SECONDS, seconds)] += times
        self.total_seconds += seconds * times
        if seconds > self.longest_seconds:
            self.longest_seconds = seconds


class Lately:
    """What counters that only rise have counted in the last seconds, from copies of them.

    Args:
        slice_seconds: between two copies.
        longest_seconds: the longest time that can be asked for.
    """

    def __init__(self, slice_seconds: float, longest_seconds: float) -> None:
        self._slice = slice_seconds
        self._copies: deque[tuple[float, tuple[int, ...]]] = deque(maxlen=int(longest_seconds / slice_seconds) + 2)

    def look(self, now: float, counters: Sequence[int]) -> bool:
        """Copy the counters, where a slice has passed since the last copy. True: it was done."""
        if self._copies and now < self._copies[-1][0] + self._slice:
            return False
        self._copies.append((now, tuple(counters)))
        return True

    def since(self, now: float, seconds: float, counters: Sequence[int]) -> list[int]:
        """How far each counter rose from ``seconds`` ago, or up to a slice earlier, until now; where the first copy is
        younger, since the start."""
        for at, copy in reversed(self._copies):
            if at <= now - seconds:
                return [later - earlier for later, earlier in zip(counters, copy, strict=True)]
        return list(counters)


class LateTimings:
    """What timings counted in the last :data:`LATELY_SECONDS`.

    Args:
        timings: by the names under which they are told. Their longest durations are taken out of them.
    """

    def __init__(self, timings: Mapping[str, Timing]) -> None:
        self._timings = timings
        self._lately = {name: Lately(SLICE_SECONDS, LATELY_SECONDS) for name in timings}
        slices = int(LATELY_SECONDS / SLICE_SECONDS) + 1
        self._longest: dict[str, deque[float]] = {name: deque(maxlen=slices) for name in timings}

    def look(self, now: float) -> None:
        """Call it at least once in a slice; ``now`` in seconds on one monotonic clock."""
        for name, timing in self._timings.items():
            if self._lately[name].look(now, timing.counts):
                self._longest[name].append(timing.longest_seconds)
                timing.longest_seconds = 0.0

    def stages(self, now: float) -> tuple[StageDelays, ...]:
        """What each timing counted lately."""
        return tuple([self._stage(name, now) for name in self._timings])

    def _stage(self, name: str, now: float) -> StageDelays:
        timing = self._timings[name]
        counts = self._lately[name].since(now, LATELY_SECONDS, timing.counts)
        longest = max((timing.longest_seconds, *self._longest[name]))
        return StageDelays(name, BOUNDS_SECONDS, tuple(counts), longest)

    def quantile_ms(self, name: str, share: float, now: float) -> int:
        """The duration that so large a share of one timing's did not exceed lately, in milliseconds, rounded up."""
        return -int(-1000 * self._stage(name, now).quantile(share) // 1)
