"""Which measurements ``slotreeve bench`` knows. Without them, and without imports: its help is there and quick."""

from __future__ import annotations

from enum import StrEnum


class Measurement(StrEnum):
    """The measurements, in the order in which all of them run."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"
    FANOUT = "fanout"
    LOOKUPS = "lookups"
    FAILOVER = "failover"
    RESTART = "restart"
    DEPARTURE = "departure"
    HERD = "herd"
    BUSY = "busy"
    LARGE = "large"
    HOSTILE = "hostile"
