"""What goes wrong with databases: each trap against a real PostgreSQL and a real MariaDB."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

import pytest
from slotreeve.clock import LoopClock
from slotreeve.errors import NotLeader, StaleTerm, VersionConflict
from slotreeve.ports import Versioned
from slotreeve_chaos.sql_road import SqlRoad
from slotreeve_chaos.sql_servers import USER, SqlServer
from slotreeve_election_mysql.connection import Session
from slotreeve_election_mysql.table import NOWHERE

from tests.election_mysql.real_nodes import LEASE_SECONDS, Build, end_connections, play, started, until

pytestmark = [pytest.mark.processes, pytest.mark.timed]

# --- the connection --------------------------------------------------------------------------------------------------


def test_a_killed_backend_costs_the_leader_neither_lease_nor_term(dialect: str, admin: Session, build: Build) -> None:
    async def scenario() -> None:
        async with started(build()) as (node,):
            await until(lambda: node.leads)
            term = node.term
            assert end_connections(dialect, admin) >= 1
            killed_at = asyncio.get_running_loop().time()
            await until(lambda: node.election.leadership().valid_until > killed_at + LEASE_SECONDS)
            assert node.leads
            assert node.term == term
            assert [report.term for report in node.reports if report.leading] == [term]

    play(scenario)


def test_a_leader_whose_connection_hangs_steps_down_before_another_leads(server: SqlServer, build: Build) -> None:
    async def scenario() -> None:
        async with SqlRoad(server) as road, started(build("meta-1", dsn=road.dsn)) as (hung,):
            await until(lambda: hung.leads)
            async with started(build("meta-2")) as (other,):
                await until(lambda: other.election.leadership().leader == "meta-1")
                road.block()
                await until(lambda: not hung.leads)
                assert not other.leads
                await until(lambda: other.leads, within_seconds=LEASE_SECONDS)
                assert other.term == hung.term + 1
                await until(lambda: "lease ran out" in hung.causes)
                road.unblock()
                await until(lambda: hung.election.leadership().leader == "meta-2")

    play(scenario)


def make_commits_stall(admin: Session, tables: Mapping[str, object]) -> None:
    """Let the COMMIT take 0.8 s for values that begin with ``stalled``. (One that does not arrive is no way here:
    PostgreSQL rolls such a transaction back.)"""
    admin.execute(
        "CREATE OR REPLACE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF convert_from(NEW.state_value, 'UTF8') LIKE 'stalled%%' THEN PERFORM pg_sleep(0.8); END IF; "
        "RETURN NULL; END $$"
    )
    admin.execute(
        f"CREATE CONSTRAINT TRIGGER stall AFTER INSERT OR UPDATE ON {tables['state_table']} "
        "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION stall()"
    )


@pytest.fixture(params=["read committed", "repeatable read", "serializable"])
def default_isolation(request: pytest.FixtureRequest, dialect: str, admin: Session) -> Iterator[str]:
    """What the server gives to sessions that set no isolation of their own."""
    if dialect == "postgres":
        admin.execute(f"ALTER ROLE {USER} SET default_transaction_isolation = '{request.param}'")
    else:
        (before,) = admin.query("SELECT REPLACE(@@GLOBAL.tx_isolation, '-', ' ')")[0]
        admin.execute(f"SET GLOBAL TRANSACTION ISOLATION LEVEL {request.param}")
    yield str(request.param)
    if dialect == "postgres":
        admin.execute(f"ALTER ROLE {USER} RESET default_transaction_isolation")
    else:
        admin.execute(f"SET GLOBAL TRANSACTION ISOLATION LEVEL {before}")


@pytest.mark.usefixtures("default_isolation")
def test_a_commit_that_stalls_leaves_no_gap_in_what_the_leader_knows(
    dialect: str, server: SqlServer, admin: Session, tables: Mapping[str, object], build: Build
) -> None:
    async def scenario() -> None:
        async with (
            SqlRoad(server) as road,
            started(build("meta-1", dsn=road.dsn, lease_ms=9_000, renew_ms=4_000, timeout_ms=500)) as (node,),
        ):
            await until(lambda: node.leads)
            state, term = node.election.state, node.term

            async def write_stalled(value: bytes, version: int) -> None:
                if dialect == "mysql":
                    road.stall(b";\nCOMMIT", 0.8)  # not READ COMMITTED, which a new connection asks for
                with pytest.raises(NotLeader, match="may or may not be stored"):
                    await state.write("view", value, version, term)

            if dialect == "postgres":
                await asyncio.to_thread(make_commits_stall, admin, tables)
            await state.write("before", b"1", None, term)
            await write_stalled(b"stalled", 0)
            # The row is free again when the next write begins, and the leader has read what was committed meanwhile.
            with pytest.raises(VersionConflict, match="version 1 is stored"):
                await state.write("view", b"again", 0, term)
            assert state.read("view") == Versioned(b"stalled", 1, term)
            await state.write("other", b"2", None, term)
            assert (node.leads, node.term) == (True, term)
            assert state.read("view") == Versioned(b"stalled", 1, term)
            assert await state.write("view", b"next", 1, term) == 2
            await write_stalled(b"stalled too", 2)
            await until(lambda: state.read("view") == Versioned(b"stalled too", 3, term))

    play(scenario)


def test_the_database_restarts_and_the_election_goes_on(server: SqlServer, build: Build) -> None:
    async def scenario() -> None:
        async with started(build("meta-1"), build("meta-2")) as nodes:
            await until(lambda: any(node.leads for node in nodes))
            term = max(node.term for node in nodes)
            await asyncio.to_thread(server.stop)
            await until(lambda: not any(node.leads for node in nodes), within_seconds=LEASE_SECONDS + 0.1)
            await until(lambda: any("lease ran out" in node.causes for node in nodes))
            await asyncio.to_thread(server.start)
            await until(lambda: any(node.leads for node in nodes))
            assert max(node.term for node in nodes) == term + 1

    play(scenario)


# --- the row ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "rises_by"),
    [
        pytest.param("UPDATE {table} SET owner = 'somebody', term = term + 5", 6, id="another owner"),
        pytest.param("UPDATE {table} SET term = term - 1", 1, id="an older term"),
        pytest.param("DELETE FROM {table}", 1, id="deleted"),
    ],
)
def test_a_row_changed_by_hand_ends_the_term_and_terms_go_on_rising(
    change: str, rises_by: int, admin: Session, tables: Mapping[str, object], build: Build
) -> None:
    async def scenario() -> None:
        async with started(build()) as (node,):
            await until(lambda: node.leads)
            term = node.term
            began = node.election.leadership().valid_until
            await until(lambda: node.election.leadership().valid_until > began)
            assert admin.execute(change.format(table=tables["table"])) == 1
            await until(lambda: node.leads and node.term != term)  # between two looks it may lose and win the lead
            assert node.term == term + rises_by
            assert [report.term for report in node.reports] == sorted(report.term for report in node.reports)

    play(scenario)


def test_renewals_counted_by_hand_end_the_term_unless_the_leader_sees_them_before_its_next_one(
    admin: Session, tables: Mapping[str, object], build: Build
) -> None:
    async def scenario() -> None:
        async with started(build()) as (node,):
            await until(lambda: node.leads)
            term = node.term
            began = node.election.leadership().valid_until
            await until(lambda: node.election.leadership().valid_until > began)
            assert admin.execute(f"UPDATE {tables['table']} SET term_duration = 1000000") == 1

            def counts_on() -> bool:
                ((count,),) = admin.query(f"SELECT term_duration FROM {tables['table']}")
                return int(str(count)) > 1_000_000

            await until(lambda: node.leads and (node.term == term + 1 or counts_on()))

    play(scenario)


def test_a_deleted_row_is_not_taken_while_a_node_may_hold_its_lease(
    admin: Session, tables: Mapping[str, object], build: Build
) -> None:
    async def scenario() -> None:
        async with started(build("meta-1")) as (first,):
            await until(lambda: first.leads)
            await first.election.state.write("k", b"v", None, first.term)
            first.election._table.abort()  # and with it the renewal that would notice
            lease_end = first.election.leadership().valid_until
            admin.execute(f"DELETE FROM {tables['table']}")
            async with started(build("meta-2")) as (second,):
                await until(lambda: second.leads or (first.leads and first.term > 1))
                assert asyncio.get_running_loop().time() >= lease_end
                assert max(second.term, first.term) == 2

    play(scenario)


def test_nodes_that_start_at_once_make_the_tables_once(build: Build) -> None:
    async def scenario() -> None:
        nodes = [build(f"meta-{number}") for number in (1, 2, 3)]
        await asyncio.gather(*(node.start(lambda _leadership: None) for node in nodes))
        await until(lambda: any(node.leadership().leading for node in nodes))
        await asyncio.gather(*(node.stop() for node in nodes))

    play(scenario)


def test_two_clusters_share_the_tables(build: Build) -> None:
    async def scenario() -> None:
        async with started(build(cluster="here"), build(cluster="there")) as (here, there):
            await until(lambda: here.leads and there.leads)
            await here.election.state.write("k", b"here", 0, here.term)
            await there.election.state.write("k", b"there", 0, there.term)
            async with started(build("meta-2", cluster="there")) as (reader,):
                await until(lambda: reader.election.state.read("k") is not None)
                held = reader.election.state.read("k")
                assert held is not None
                assert held.value == b"there"

    play(scenario)


def test_two_processes_of_one_name_never_lead_at_once(build: Build) -> None:
    async def scenario() -> None:
        async with started(build("meta-1"), build("meta-1")) as nodes:
            await until(lambda: any(node.leads for node in nodes))
            for _ in range(100):
                assert sum(node.leads for node in nodes) == 1
                await asyncio.sleep(0.01)
            first = next(node for node in nodes if node.leads)
            second = next(node for node in nodes if node is not first)
            await first.election.stop()
            await until(lambda: second.leads)
            assert second.term == first.term + 1

    play(scenario)


def test_a_node_never_looks_at_its_wall_clock(build: Build) -> None:
    class NoWallClock(LoopClock):
        def wall_ms(self) -> int:
            raise AssertionError("the wall clock was read")

    async def scenario() -> None:
        async with started(build("meta-1", clock=NoWallClock()), build("meta-2", clock=NoWallClock())) as nodes:
            await until(lambda: any(node.leads for node in nodes))
            first = next(node for node in nodes if node.leads)
            await first.election.resign()
            await until(lambda: any(node.leads for node in nodes if node is not first))

    play(scenario)


def test_a_deposed_leaders_write_names_both_terms(build: Build) -> None:
    async def scenario() -> None:
        async with started(build("meta-1"), build("meta-2")) as nodes:
            await until(lambda: any(node.leads for node in nodes))
            first = next(node for node in nodes if node.leads)
            term = first.term
            await first.election.resign()
            await until(lambda: any(node.leads for node in nodes if node is not first))
            # As it would be if the old leader knew nothing of it: only the database is asked.
            with pytest.raises(StaleTerm, match=rf"under term {term}: the term is {term + 1} now, held by meta-"):
                await first.election._table.write(first.election._owner, term, "k", b"late", None, NOWHERE)
            assert (await first.election._table.index(0)) == []

    play(scenario)
