"""The election suite: against real servers, and against a table in memory on virtual time."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from slotreeve.ports import Context, Election
from slotreeve_conformance.election import ElectionContract
from slotreeve_conformance.election_backend import ElectionBackend, RestorableStore, Store
from slotreeve_conformance.virtual_time import VirtualClock
from slotreeve_election_mysql.election import LockElection
from slotreeve_election_mysql.timing import LockTiming
from slotreeve_harness.sql_backends import MariaDbBackend, PostgresBackend
from slotreeve_harness.sql_servers import SqlServer
from slotreeve_simulator.simulated_database import SimulatedDatabase
from slotreeve_simulator.simulated_lock_table import SimulatedLockTable, SimulatedNotifier

TIMING = LockTiming(lease=0.6, renew=0.1, timeout=0.3)


class SimulatedStore(RestorableStore):
    def __init__(self, database: SimulatedDatabase) -> None:
        self._database = database

    async def stop(self) -> None:
        self._database.is_down = True

    async def start(self) -> None:
        self._database.restart()
        self._database.is_down = False

    async def close(self) -> None:
        pass

    async def back_up(self) -> Callable[[], Coroutine[Any, Any, None]]:
        set_back = self._database.back_up()

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

    async def open_store(self) -> Store | None:
        rng = random.Random(0)
        self._database = SimulatedDatabase(VirtualClock())
        self._database.delay_seconds = lambda: rng.uniform(0.0, 0.002)
        return SimulatedStore(self._database)

    def build(self, context: Context) -> Election:
        table = SimulatedLockTable(self._database, context.clock, TIMING.timeout)
        return LockElection(context, TIMING, table, SimulatedNotifier(self._database, context.clock))


class TestSimulated(ElectionContract):
    def make_backend(self) -> ElectionBackend:
        return SimulatedBackend()


@pytest.mark.processes
class TestPostgres(ElectionContract):
    @pytest.fixture(autouse=True)
    def _on_a_server(self, postgres: SqlServer) -> None:
        """Skips where there is none."""

    def make_backend(self) -> ElectionBackend:
        return PostgresBackend()


@pytest.mark.processes
class TestMariaDb(ElectionContract):
    @pytest.fixture(autouse=True)
    def _on_a_server(self, mariadb: SqlServer) -> None:
        """Skips where there is none."""

    def make_backend(self) -> ElectionBackend:
        return MariaDbBackend()
