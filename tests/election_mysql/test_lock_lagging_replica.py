"""A replica that lags behind takes over: on a real standby of PostgreSQL, a real replica of MariaDB, and in memory.

What the nodes know, and the new primary lacks, is never mixed with what others write there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from slotreeve.clock import LoopClock
from slotreeve.errors import SlotreeveError
from slotreeve.ports import Context, Versioned
from slotreeve_conformance.virtual_time import run
from slotreeve_election_mysql.database_election import DatabaseLockElection
from slotreeve_election_mysql.election import LockElection
from slotreeve_election_mysql.events import Load
from slotreeve_election_mysql.machine import Machine
from slotreeve_election_mysql.state import CopiedState
from slotreeve_election_mysql.timing import LockTiming
from slotreeve_harness.sql_backends import DIALECTS
from slotreeve_harness.sql_programs import ServerMissing
from slotreeve_harness.sql_replicas import MariaDbPrimary, MariaDbReplica, PostgresStandby
from slotreeve_harness.sql_road import SqlRoad
from slotreeve_harness.sql_servers import PostgresServer, SqlServer
from slotreeve_simulator.simulated_database import SimulatedDatabase
from slotreeve_simulator.simulated_lock_table import SimulatedLockTable, SimulatedNotifier

from tests.election_mysql.conftest import MEMBERS
from tests.election_mysql.real_nodes import Build, Node, play, started, until
from tests.simulation.planting import Patch, both, replaced

Replica = PostgresStandby | MariaDbReplica
SEEDS = int(os.environ.get("SLOTREEVE_LAGGING_SEEDS", "25"))


def known(node: Node) -> dict[str, Versioned]:
    state = node.election.state
    keys = list(state.keys())
    return {key: held for key in keys if (held := state.read(key)) is not None}


def contents(node: Node) -> dict[str, tuple[bytes, int]]:
    return {key: (held.value, held.version) for key, held in known(node).items()}


# --- real servers ----------------------------------------------------------------------------------------------------


@pytest.fixture
def pair(dialect: str) -> Iterator[tuple[SqlServer, Replica]]:
    """A primary and its replica, for one test."""
    with ExitStack() as stack:
        try:
            primary = stack.enter_context(PostgresServer() if dialect == "postgres" else MariaDbPrimary())
            replica = PostgresStandby(primary) if dialect == "postgres" else MariaDbReplica(primary)
            stack.enter_context(replica)
        except ServerMissing as error:
            if os.environ.get("CI") == "true":
                raise
            pytest.skip(str(error))
        yield primary, replica


async def replicated(build: Build, replica: Replica, key: str) -> None:
    """Wait until the change has reached the replica."""

    def has_it() -> bool:
        session = DIALECTS[replica.dialect].connect(replica.dsn(), 10.0, 60.0)
        try:
            return bool(session.query("SELECT 1 FROM slotreeve_meta_state WHERE state_key = %s", (key.encode(),)))
        except SlotreeveError:
            return False  # the tables have not come yet
        finally:
            session.close()

    for _ in range(1_000):
        if await asyncio.to_thread(has_it):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{key!r} has not reached the replica")


@pytest.mark.processes
@pytest.mark.timed
def test_who_knows_changes_that_a_promoted_replica_lacks_neither_leads_nor_mixes_them_with_others(
    pair: tuple[SqlServer, Replica], build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    primary, replica = pair
    tables = {"table": "distribute_lock", "state_table": "slotreeve_meta_state"}

    async def scenario() -> None:
        async with SqlRoad(primary) as road, started(build("meta-1", dsn=road.dsn, **tables)) as (first,):
            await until(lambda: first.leads)
            await first.election.state.write("k", b"1", 0, first.term)
            await first.election.state.write("seen", b"1", 0, first.term)
            await replicated(build, replica, "seen")
            await asyncio.to_thread(replica.cut_off)
            await first.election.state.write("lost", b"1", 0, first.term)
            road.block()
            await until(lambda: not first.leads)
            await asyncio.to_thread(replica.promote)
            async with started(build("meta-2", dsn=replica.dsn(), **tables)) as (second,):
                await until(lambda: second.leads)
                await second.election.state.write("k", b"2", 1, second.term)
                await second.election.state.write("more", b"1", 0, second.term)
                road.leads_to = replica
                road.cut()
                road.unblock()
                await until(lambda: "was set back" in first.causes)
                assert "ALARM" in caplog.text
                await until(lambda: second.leads)
                assert "lost" in contents(first), "it keeps what it knows, until an operator decides"
                accepting = build("meta-3", dsn=replica.dsn(), **tables)
                assert isinstance(accepting, DatabaseLockElection)
                await accepting.accept("accepted")
                await until(lambda: contents(first) == contents(second))
                assert contents(first) == {"k": (b"2", 2), "seen": (b"1", 1), "more": (b"1", 1)}
                await until(lambda: second.leads or first.leads)
                await second.election.stop()
                await until(lambda: first.leads)
                assert await first.election.state.write("k", b"3", 2, first.term) == 3

    play(scenario)


@pytest.mark.processes
@pytest.mark.timed
def test_a_server_that_is_no_primary_is_named_with_what_would_be_right(
    pair: tuple[SqlServer, Replica], build: Build, dialect: str
) -> None:
    primary, replica = pair

    async def scenario() -> None:
        async with started(build("meta-1", dsn=primary.dsn())) as (node,):
            await until(lambda: node.leads)
        says = "a standby: pg_is_in_recovery" if dialect == "postgres" else "read_only is ON"
        with pytest.raises(SlotreeveError, match=says) as caught:
            await build("meta-2", dsn=replica.dsn()).start(lambda _leadership: None)
        assert "the dsn must lead to the primary" in str(caught.value)

    play(scenario)


@pytest.mark.processes
@pytest.mark.timed
@pytest.mark.parametrize("dialect", ["postgres"])  # MariaDB does not count its promotions
def test_an_old_primary_that_was_not_fenced_is_refused_by_who_has_used_the_promoted_one(
    pair: tuple[SqlServer, Replica], build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    primary, replica = pair

    async def scenario() -> None:
        async with SqlRoad(primary) as road, started(build("meta-1", dsn=road.dsn)) as (node,):
            await until(lambda: node.leads)
            await asyncio.to_thread(replica.promote)
            road.leads_to = replica
            road.cut()
            await until(lambda: "it is another server now" in caplog.text)
            await until(lambda: node.leads)
            road.leads_to = primary
            road.cut()
            await until(lambda: "this is an old primary: it is on timeline 1" in caplog.text)
            await until(lambda: not node.leads)
            road.leads_to = replica
            await until(lambda: node.leads)

    play(scenario)


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


@pytest.mark.parametrize("seed", range(SEEDS))
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
