"""A replica that lags behind takes over: on a real standby of PostgreSQL, a real replica of MariaDB, and in memory.

What the nodes know, and the new primary lacks, is never mixed with what others write there.
"""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest
from slotreeve.clock import LoopClock
from slotreeve.errors import SlotreeveError
from slotreeve.ports import Context, Versioned
from slotreeve_conformance.simulated import seeds
from slotreeve_conformance.virtual_time import run
from slotreeve_election_mysql.election import LockElection
from slotreeve_election_mysql.events import Load
from slotreeve_election_mysql.machine import Machine
from slotreeve_election_mysql.state import CopiedState
from slotreeve_election_mysql.timing import LockTiming
from slotreeve_simulator.simulated_database import SimulatedDatabase
from slotreeve_simulator.simulated_lock_table import SimulatedLockTable, SimulatedNotifier

from tests.election_mysql.conftest import MEMBERS
from tests.election_mysql.real_nodes import Node, until
from tests.simulation.planting import Patch, both, replaced


def known(node: Node) -> dict[str, Versioned]:
    state = node.election.state
    keys = list(state.keys())
    return {key: held for key in keys if (held := state.read(key)) is not None}


# --- in memory: any moments, any nodes -------------------------------------------------------------------------------

TIMING = LockTiming(lease=0.6, renew=0.1, timeout=0.3)


class LaggingCluster:
    """Three nodes on virtual time, and a database with a replica that lags behind by some changes."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.database = rng, SimulatedDatabase(LoopClock())
        self.database.delay_seconds = lambda: rng.uniform(0.0, 0.004)
        self.nodes = {name: Node(self._build(name)) for name in MEMBERS}

    def _build(self, name: str) -> LockElection:
        context = Context("test", 256, LoopClock(), random.Random(self.rng.random()), name, MEMBERS)
        table = SimulatedLockTable(self.database, context.clock, TIMING.timeout, name)
        return LockElection(context, TIMING, table, SimulatedNotifier(self.database, context.clock, name))

    @property
    def leaders(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.leads]

    async def write(self, times: int) -> None:
        """Writes of whoever leads, to a few keys, as their leader knows them. Whose write is stored acts on what the
        database has (I17)."""
        for _ in range(times):
            assert len(self.leaders) <= 1
            for node in self.leaders:
                key, term = self.rng.choice("abc"), node.term
                held = node.election.state.read(key)
                value = b"%d" % self.rng.randrange(1_000_000)
                with contextlib.suppress(SlotreeveError):
                    await node.election.state.write(key, value, held.version if held else 0, term)
                    if node.leads and node.term == term:
                        assert known(node) == self.stored(), f"term {term} mixes what it knows"
            await asyncio.sleep(self.rng.uniform(0.0, 0.1))

    def stored(self) -> dict[str, Versioned]:
        return {key: held for key, (_, held) in self.database.state.items()}


async def lag(rng: random.Random) -> None:
    cluster = LaggingCluster(rng)
    for node in cluster.nodes.values():
        await node.election.start(node.reports.append)
    try:
        await until(lambda: bool(cluster.leaders))
        await cluster.write(rng.randint(1, 4))
        promote = cluster.database.replicate()
        await cluster.write(rng.randint(0, 3))
        gone = rng.sample(sorted(MEMBERS), rng.randint(0, 2))
        cluster.database.cut_off.update(gone)
        await asyncio.sleep(rng.choice([0.0, 2 * TIMING.lease]))
        promote()
        for _ in range(4):
            await cluster.write(rng.randint(0, 3))
            await asyncio.sleep(rng.uniform(0.0, 2 * TIMING.lease))
        cluster.database.cut_off.clear()
        for _ in range(3):
            await asyncio.sleep(2 * TIMING.lease)
            await cluster.write(3)
            for node in cluster.leaders:
                await node.election.resign()
        cluster.database.history = "accepted"
        await asyncio.sleep(6 * TIMING.lease)
        await cluster.write(2)
        await asyncio.sleep(4 * TIMING.lease)
        assert len(cluster.leaders) == 1
        for name, node in cluster.nodes.items():
            assert known(node) == cluster.stored(), f"{name} knows {known(node)}, stored is {cluster.stored()}"
        leader = cluster.leaders[0]
        for key, held in cluster.stored().items():
            assert await leader.election.state.write(key, b"last", held.version, leader.term) == held.version + 1
    finally:
        for node in cluster.nodes.values():
            await node.election.stop()


@pytest.mark.parametrize("seed", seeds(6))
def test_whatever_a_replica_lacks_and_whoever_sees_it_first_no_node_acts_on_a_mixed_state(seed: int) -> None:
    run(lag, seed)


def compares_revisions_alone() -> Patch:
    """A defect of old: a database that has a later revision than this node is one that has gone on, whatever its terms,
    and what comes after that revision is all that is read."""
    return both(
        replaced(
            CopiedState,
            "contradiction",
            lambda self, newest: "an older revision" if newest.revision < self.newest.revision else "",
        ),
        both(
            replaced(CopiedState, "contradiction_in", lambda _self, _index, _since: ""),
            replaced(Machine, "_load", lambda self: self._ask(Load())),
        ),
    )


def test_without_the_comparison_of_terms_a_mixed_state_is_found() -> None:
    def any_seed() -> None:
        for seed in range(100):
            run(lag, seed)

    with compares_revisions_alone(), pytest.raises(AssertionError, match="mixes what it knows"):
        any_seed()
