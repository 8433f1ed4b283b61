"""How long things took, counted in ranges of time."""

from __future__ import annotations

from bisect import bisect_left

BOUNDS_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper ends of the ranges. What took longer than the last one is in a range without an end."""


class Timing:
    """A histogram. To count one duration costs less than a microsecond.

    Attributes:
        counts: how many durations fell into each range of :data:`BOUNDS_SECONDS`, then those above the last bound.
        total_seconds: their sum.
    """

    __slots__ = ("counts", "total_seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_SECONDS) + 1)
        self.total_seconds = 0.0

    def took(self, seconds: float) -> None:
        """It took so long this time. A duration equal to a bound belongs to the range that ends there."""
        self.counts[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        self.total_seconds += seconds
