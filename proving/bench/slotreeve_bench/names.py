"""Which measurements there are. Imports nothing of ours, so that the help of the command is quick."""

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
