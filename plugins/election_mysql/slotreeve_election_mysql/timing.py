"""The times of the lock election, and which of them go together."""

from __future__ import annotations

import math
from dataclasses import dataclass

from slotreeve.errors import ConfigError

QUEUE_SECONDS = 10.0
"""How long one statement waits for the notifier's lock, and how often its holder checks that it still has it."""
SHORTEST_RETRY_SECONDS = 0.05
"""Pause before the database is asked again after a failure; it doubles with each further one."""
CONNECT_TIMEOUTS = 3.0
"""Time-outs of a statement that connecting may take: with TLS and a log-in it has up to eight round trips."""


HOST_SECONDS = 2.5
"""Least time for connecting to each of several hosts: libpq tries none for less than 2 s."""


def connect_seconds(timeout_seconds: float, hosts: int = 1) -> float:
    """For how long a node tries to connect, where a statement may take so long, and so many hosts are named: each has
    its share, so that one that does not answer leaves time for the next one."""
    return max(CONNECT_TIMEOUTS * timeout_seconds, HOST_SECONDS * hosts if hosts > 1 else 0.0)


@dataclass(frozen=True)
class LockTiming:
    """Durations in seconds.

    Attributes:
        lease: for which the database keeps the row for its owner after a renewal.
        renew: between two renewals of the leader, and at most between two reads of the others.
        timeout: after which one round trip to the database is given up and its connection dropped.
    """

    lease: float
    renew: float
    timeout: float

    @property
    def lease_ms(self) -> int:
        """The lease as it is written into the row."""
        return round(self.lease * 1000)

    @property
    def keep_ms(self) -> int:
        """For which a released row is kept for the node that shall lead next: it looks, perhaps twice, and takes it."""
        return round((2 * self.renew + self.timeout) * 1000)

    @property
    def margin(self) -> float:
        """By how much a leader's own deadline is earlier than the database's. The rates of the two clocks may differ by
        2 % before two nodes could hold a lease at once."""
        return 0.005 + 0.02 * self.lease

    def check(self, where: str) -> None:
        """Refuse times with which one late or lost renewal ends a leadership.

        Raises:
            ConfigError: names the options, below ``where``.
        """
        if self.lease <= 2 * self.renew + self.timeout:
            raise ConfigError(
                f"{where}: lease_ms ({self.lease_ms}) must be greater than 2 x renew_ms ({self.renew * 1000:g}) + "
                f"timeout_ms ({self.timeout * 1000:g}): a renewal may be lost, time out, and be sent again before the "
                "lease runs out"
            )

    def misfit(self, round_trip: float, connecting: float) -> str:
        """Why these times do not fit a database that is so far away, in seconds; empty if they do."""
        recovery = self.renew + self.timeout + min(self.renew, SHORTEST_RETRY_SECONDS * 2) + connecting + 2 * round_trip
        ms = f"a round trip to the database takes {round_trip * 1000:.0f} ms, connecting {connecting * 1000:.0f} ms"
        if 2 * round_trip > self.timeout:
            return f"{ms}: timeout_ms ({self.timeout * 1000:g}) should be at least {math.ceil(2 * round_trip * 1000)}"
        if connecting > connect_seconds(self.timeout) / 2:
            least = math.ceil(2 * connecting / CONNECT_TIMEOUTS * 1000)
            return f"{ms}: timeout_ms ({self.timeout * 1000:g}) should be at least {least}"
        if recovery > self.lease - self.margin:
            least = math.ceil((recovery + 0.005) / 0.98 * 1000)
            return (
                f"{ms}: lease_ms ({self.lease_ms}) should be at least {least}, so that a leader whose connection was "
                "lost can renew its lease in time"
            )
        return ""
