"""A node that starts while the database does not answer waits for it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest
from slotreeve.clock import LoopClock
from slotreeve.ports import Context
from slotreeve_conformance.virtual_time import run
from slotreeve_election_mysql.election import LockElection
from slotreeve_election_mysql.timing import LockTiming
from slotreeve_simulator.simulated_database import SimulatedDatabase
from slotreeve_simulator.simulated_lock_table import SimulatedLockTable, SimulatedNotifier

from tests.election_mysql.conftest import MEMBERS
from tests.election_mysql.real_nodes import Node, until

TIMING = LockTiming(lease=0.6, renew=0.1, timeout=0.3)


def silent(database: SimulatedDatabase, begins: bool) -> None:
    database.is_silent = begins


def cutting(database: SimulatedDatabase, begins: bool) -> None:
    if begins:
        database.cut_off.add("meta-1")
    else:
        database.cut_off.clear()


@pytest.mark.parametrize("trouble", [silent, cutting])
def test_a_node_that_starts_while_the_database_does_not_answer_waits_and_then_leads(
    trouble: Callable[[SimulatedDatabase, bool], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(rng: random.Random) -> None:
        database = SimulatedDatabase(LoopClock())
        trouble(database, True)
        context = Context("test", 256, LoopClock(), rng, "meta-1", MEMBERS)
        table = SimulatedLockTable(database, context.clock, TIMING.timeout, "meta-1")
        election = LockElection(context, TIMING, table, SimulatedNotifier(database, context.clock, "meta-1"))
        node = Node(election)
        starting = asyncio.ensure_future(election.start(node.reports.append))
        await asyncio.sleep(10 * TIMING.lease)
        assert not starting.done()
        assert "waiting for the database" in caplog.text
        trouble(database, False)
        await starting
        await until(lambda: node.leads)
        await election.stop()

    run(scenario)
