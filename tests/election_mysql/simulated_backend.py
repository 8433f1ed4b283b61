"""The lock election on a table in memory, on virtual time, as the election suite builds it."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from typing import Any

from slotreeve.clock import Timer
from slotreeve.ports import Context, Election
from slotreeve_conformance.election_backend import ElectionBackend, RestorableStore, Store, UnreliableStore
from slotreeve_conformance.virtual_time import VirtualClock
from slotreeve_election_mysql.election import LockElection
from slotreeve_election_mysql.timing import LockTiming
from slotreeve_simulator.simulated_database import SimulatedDatabase
from slotreeve_simulator.simulated_lock_table import SimulatedLockTable, SimulatedNotifier

PATIENT = LockTiming(lease=0.6, renew=0.1, timeout=0.3)
"""A statement may take longer than the pause between two renewals."""
HASTY = LockTiming(lease=0.6, renew=0.2, timeout=0.12)
"""A statement is given up before the next renewal is due."""


class SimulatedStore(RestorableStore, UnreliableStore):
    def __init__(self, database: SimulatedDatabase, timing: LockTiming) -> None:
        self._database, self._timing = database, timing
        self._rng = random.Random(0)
        self._shortest_delay, self._longest_delay = 0.0, 0.002
        self._longest_commit = 0.002
        database.delay_seconds = self._delay
        database.commit_seconds = self._commit
        self._late_share = 0.0
        self._later: Timer | None = None

    async def stop(self) -> None:
        self._database.is_down = True

    async def start(self) -> None:
        self._database.restart()
        self._database.is_down = False

    async def close(self) -> None:
        assert not self._database.violations

    def trouble(self, rng: random.Random) -> Callable[[], None]:
        database = self._database
        match rng.randrange(10):
            case 0:
                database.restart()
            case 1:
                database.is_down = True
            case 2:
                database.is_silent = True
            case 3:
                database.is_read_only = True
            case 4:
                self._longest_delay = rng.choice([0.05, 0.25])
            case 5:
                self._longest_commit = rng.choice([0.45, 2.5])
            case 6:
                database.commit_seconds = self._commit_beyond_a_statement
            case 7:
                self._late_share = 0.1
            case _:
                self._shortest_delay = self._longest_delay = rng.choice([0.05, 0.12])
                self._later = database.clock.call_later(rng.uniform(0.2, 1.0), self._cut_off_owner)
        return self._end_troubles

    def _delay(self) -> float:
        if self._rng.random() < self._late_share:
            return self._rng.uniform(self._timing.timeout, 3 * self._timing.lease)
        return self._rng.uniform(self._shortest_delay, self._longest_delay)

    def _commit(self) -> float:
        return self._rng.uniform(-self._longest_commit, self._longest_commit)

    def _commit_beyond_a_statement(self) -> float:
        """Some stall for longer than a statement may take, and for less than the lease."""
        if self._rng.random() < 0.9:
            return 0.0
        return self._rng.uniform(self._timing.timeout, 1.4 * self._timing.timeout)

    def _cut_off_owner(self) -> None:
        """Cut one node off while answers to it are on their way; for the others the database is fast again."""
        self._shortest_delay, self._longest_delay = 0.0, 0.002
        if self._database.row is not None:
            self._database.cut_off.add(self._database.row.owner.rpartition("#")[0])

    def _end_troubles(self) -> None:
        if self._later is not None:
            self._later.cancel()
        self._database.cut_off.clear()
        self._shortest_delay = self._late_share = 0.0
        database = self._database
        database.commit_seconds = self._commit
        database.is_down = database.is_silent = database.is_read_only = False
        self._longest_delay = self._longest_commit = 0.002

    async def back_up(self) -> Callable[[], Coroutine[Any, Any, None]]:
        set_back = self._database.back_up(keeps_row=True)

        async def restore() -> None:
            set_back()

        return restore

    async def accept(self) -> None:
        self._database.history = "accepted"


class SimulatedBackend(ElectionBackend):
    name = "lock, simulated"
    fail_over_seconds = 0.8
    hand_over_seconds = 0.1
    outage_seconds = 0.7
    settle_seconds = 0.2
    timing = PATIENT

    async def open_store(self) -> Store | None:
        self._database = SimulatedDatabase(VirtualClock())
        return SimulatedStore(self._database, self.timing)

    def build(self, context: Context) -> Election:
        table = SimulatedLockTable(self._database, context.clock, self.timing.timeout, context.node)
        return LockElection(context, self.timing, table, SimulatedNotifier(self._database, context.clock, context.node))


class HastyBackend(SimulatedBackend):
    settle_seconds = 0.3
    timing = HASTY
