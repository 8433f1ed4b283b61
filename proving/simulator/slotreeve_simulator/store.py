"""The database of a simulated cluster with a lock election, and its faults."""

from __future__ import annotations

import random

from pydantic import Field
from slotreeve import Context, Offer, Options
from slotreeve.catalogue import Catalogue, Listed
from slotreeve.clock import Clock
from slotreeve.offers import Port
from slotreeve.ports import Election
from slotreeve_election_mysql.election import LockElection
from slotreeve_election_mysql.timing import LockTiming

from slotreeve_simulator.simulated_database import SimulatedDatabase
from slotreeve_simulator.simulated_lock_table import SimulatedLockTable, SimulatedNotifier

ELECTION = "simulated_lock"


class SimulatedLockOptions(Options):
    """Options as of the real lock elections. The defaults are shorter, because a storm lasts some seconds."""

    lease_ms: int = Field(default=2_000, ge=100, description="Milliseconds for which the row belongs to its owner.")
    renew_ms: int = Field(default=400, ge=10, description="Milliseconds between two renewals.")
    timeout_ms: int = Field(default=500, ge=10, description="Milliseconds after which a statement fails.")
    observers: list[str] = Field(default_factory=list, description="Meta servers that never lead.")


class LockStore:
    """The product's lock election on a table in memory. ``clock`` is the database's clock.

    Attributes:
        slowness: factor by which statements take longer; 1 without a fault.
    """

    def __init__(self, clock: Clock, rng: random.Random, delay_ms: tuple[float, float]) -> None:
        self.database = SimulatedDatabase(clock)
        self.database.delay_seconds = lambda: rng.uniform(*delay_ms) * self.slowness / 1000
        self.slowness = 1.0

    def offer(self, catalogue: Catalogue) -> None:
        """Add it to the offers of the catalogue, so that a configuration can choose it."""
        offer = Offer(ELECTION, self._build, "the lock election on a simulated table", SimulatedLockOptions)
        catalogue.listed.append(Listed(Port.ELECTION, offer, "the simulator"))

    def _build(self, options: SimulatedLockOptions, context: Context) -> Election:
        timing = LockTiming(options.lease_ms / 1000, options.renew_ms / 1000, options.timeout_ms / 1000)
        timing.check(f"[election.{ELECTION}]")
        table = SimulatedLockTable(self.database, context.clock, timing.timeout, context.node)
        notifier = SimulatedNotifier(self.database, context.clock, context.node)
        return LockElection(context, timing, table, notifier, options.observers)
