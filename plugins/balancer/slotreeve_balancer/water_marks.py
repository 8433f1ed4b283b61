"""The thresholds of the ``default`` plugins (original: ``NaiveBalancePolicy``)."""

from __future__ import annotations


def ceil_average(slots: int, servers: int) -> int:
    """The average number of slots of a server, rounded up."""
    return -(-slots // servers)


def high_water_mark(average: int, threshold_percent: int) -> int:
    """The highest number of slots that is left as it is, rounded up; ``average`` must be rounded up too."""
    return -(-average * (100 + threshold_percent) // 100)


def low_water_mark(average: int, threshold_percent: int) -> int:
    """The lowest number of slots that is left as it is, rounded down; ``average`` must be rounded down too."""
    return average * (100 - threshold_percent) // 100
