"""A replica that lags behind, on real databases."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from slotreeve.errors import SlotreeveError
from slotreeve_chaos.sql_backends import DIALECTS
from slotreeve_chaos.sql_programs import ServerMissing
from slotreeve_chaos.sql_replicas import MariaDbPrimary, MariaDbReplica, PostgresStandby
from slotreeve_chaos.sql_road import SqlRoad
from slotreeve_chaos.sql_servers import PostgresServer, SqlServer
from slotreeve_election_mysql.database_election import DatabaseLockElection

from tests.election_mysql.real_nodes import Build, Node, play, started, until
from tests.election_mysql.scheduled_nodes import STEADY
from tests.election_mysql.test_lock_lagging_replica import known

Replica = PostgresStandby | MariaDbReplica


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
        session = DIALECTS[replica.dialect].connect(replica.dsn(), 10.0, 60.0, 30.0)
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
    # Who connects anew to a database that was promoted just now has three of these time-outs.
    options = {**STEADY, "table": "distribute_lock", "state_table": "slotreeve_meta_state"}

    async def scenario() -> None:
        async with SqlRoad(primary) as road, started(build("meta-1", dsn=road.dsn, **options)) as (first,):
            await until(lambda: first.leads)
            await first.election.state.write("k", b"1", 0, first.term)
            await first.election.state.write("seen", b"1", 0, first.term)
            await replicated(build, replica, "seen")
            await asyncio.to_thread(replica.cut_off)
            await first.election.state.write("lost", b"1", 0, first.term)
            road.block()
            await until(lambda: not first.leads)
            await asyncio.to_thread(replica.promote)
            async with started(build("meta-2", dsn=replica.dsn(), **options)) as (second,):
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
                accepting = build("meta-3", dsn=replica.dsn(), **options)
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
