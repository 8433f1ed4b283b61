"""The times of the lock election, and which of them go together."""

from __future__ import annotations

from dataclasses import dataclass

from slotreeve.errors import ConfigError

QUEUE_SECONDS = 10.0
"""How long one statement waits for the notifier's lock, and how often its holder checks that it still has it."""


@dataclass(frozen=True)
class LockTiming:
    """Durations in seconds.

    Attributes:
        lease: for which the database keeps the row for its owner after a renewal.
        renew: between two renewals of the leader, and at most between two reads of the others.
        timeout: after which a statement is given up and its connection dropped.
    """

    lease: float
    renew: float
    timeout: float

    @property
    def lease_ms(self) -> int:
        """The lease as it is written into the row."""
        return round(self.lease * 1000)

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
