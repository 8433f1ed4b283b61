"""The lock election on a table in memory, for simulation: imported on executors only, inside a cell."""

from __future__ import annotations

import random
from collections.abc import Iterable

from slotreeve.ports import Context, Election
from slotreeve_conformance.election_backend import ElectionBackend, Wires
from slotreeve_conformance.virtual_time import VirtualClock
from slotreeve_election_mysql.election import LockElection
from slotreeve_election_mysql.timing import LockTiming
from slotreeve_simulator.simulated_database import SimulatedDatabase
from slotreeve_simulator.simulated_lock_table import SimulatedLockTable, SimulatedNotifier

TIMING = LockTiming(lease=0.6, renew=0.1, timeout=0.3)
"""Short times, so that it can be compared with an election whose leases are a quarter of a second."""
LONGEST_STATEMENT_SECONDS = 0.002


class LockBackend(ElectionBackend):
    """Nodes that meet at a simulated database.

    Attributes:
        database: of the present cell.
    """

    name = "lock"
    database: SimulatedDatabase

    async def open_store(self) -> None:
        """A new database, whose statements take up to two milliseconds each way."""
        rng = random.Random(0)
        self.database = SimulatedDatabase(VirtualClock())
        self.database.delay_seconds = lambda: rng.uniform(0.0, LONGEST_STATEMENT_SECONDS)

    def network(self) -> Wires:
        """No packet passes; a node that is partitioned from the others is cut off from the database."""
        return _Ways(self.database)

    def build(self, context: Context) -> Election:
        """One node's election, with the node's own way to the database."""
        table = SimulatedLockTable(self.database, context.clock, TIMING.timeout, context.node)
        return LockElection(context, TIMING, table, SimulatedNotifier(self.database, context.clock, context.node))


class _Ways(Wires):
    """Parts nodes from the database."""

    def __init__(self, database: SimulatedDatabase) -> None:
        super().__init__()
        self._database = database

    def partition(self, sources: Iterable[str], targets: Iterable[str], *, one_way: bool = False) -> None:
        self._database.cut_off.update(sources)

    def heal(self) -> None:
        self._database.cut_off.clear()
