"""Accounts and their rights, and databases that do not answer at a start: on a real PostgreSQL and a real MariaDB."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from slotreeve.errors import ElectionError, SlotreeveError
from slotreeve_chaos.sql_servers import PASSWORD, SqlServer
from slotreeve_election_mysql.connection import Session
from slotreeve_election_mysql.database_election import DatabaseLockElection
from slotreeve_election_mysql.election import LockElection

from tests.election_mysql.real_nodes import LEASE_SECONDS, Build, Node, end_connections, play, started, until

pytestmark = [pytest.mark.processes, pytest.mark.timed]

# --- trying a database out -------------------------------------------------------------------------------------------


def test_trying_a_database_out_changes_nothing_and_says_what_is_missing(
    admin: Session, tables: Mapping[str, object], build: Build, server: SqlServer
) -> None:
    def tables_made() -> int:
        names = "', '".join(str(name) for name in tables.values())
        return len(admin.query(f"SELECT 1 FROM information_schema.tables WHERE table_name IN ('{names}')"))

    async def scenario() -> None:
        assert "cannot be read yet" in await tried(build())
        assert tables_made() == 0
        async with started(build()) as (node,):
            await until(lambda: node.leads)
            assert "can be read and written" in await tried(build("meta-2"))
            assert node.leads
        with pytest.raises(ElectionError):
            await tried(build(dsn=server.dsn(password="wrong")))

    async def tried(election: LockElection) -> str:
        assert isinstance(election, DatabaseLockElection)
        return await election.try_out()

    play(scenario)


# --- rights ----------------------------------------------------------------------------------------------------------


async def start_error(election: LockElection) -> SlotreeveError:
    with pytest.raises(SlotreeveError) as caught:
        await election.start(lambda _leadership: None)
    return caught.value


def fails_to_start(build: Build, **options: object) -> SlotreeveError:
    async def scenario() -> SlotreeveError:
        return await start_error(build(**options))

    return asyncio.run(scenario())


def test_a_wrong_password_stops_the_start_and_is_not_printed(server: SqlServer, build: Build) -> None:
    error = fails_to_start(build, dsn=server.dsn(password="wrong-parole"))
    assert isinstance(error, ElectionError)
    assert server.address in str(error)
    assert "slotreeve" in str(error)
    assert "parole" not in str(error)


def test_a_start_waits_for_a_database_that_is_down(
    server: SqlServer, build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        await asyncio.to_thread(server.stop)
        node = Node(build())
        starting = asyncio.create_task(node.election.start(node.reports.append))
        try:
            await until(lambda: "waiting for the database" in caplog.text)
            assert server.address in caplog.text
            assert PASSWORD not in caplog.text
            assert not starting.done()
            await asyncio.to_thread(server.start)
            await starting
            await until(lambda: node.leads)
        finally:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            await node.election.stop()

    play(scenario)


def test_without_the_right_to_make_tables_the_error_says_how_to_get_them(
    plain: str, server: SqlServer, build: Build
) -> None:
    error = fails_to_start(build, dsn=server.dsn(user="plain"))
    assert isinstance(error, ElectionError)
    assert "slotreeve election ddl --dialect" in str(error)
    assert "SELECT, INSERT and UPDATE" in str(error)


def test_tables_that_may_only_be_read_stop_a_candidate_but_not_an_observer(
    plain: str, admin: Session, server: SqlServer, tables: Mapping[str, object], build: Build
) -> None:
    async def scenario() -> None:
        async with started(build()) as (leader,):
            await until(lambda: leader.leads)
            for table in tables.values():
                admin.execute(f"GRANT SELECT ON {table} TO {plain}")
            with pytest.raises(
                ElectionError, match=r"lacks a right.*grant SELECT, INSERT and UPDATE, or name this node"
            ):
                await build("meta-2", dsn=server.dsn(user="plain")).start(lambda _leadership: None)
            async with started(build("meta-3", dsn=server.dsn(user="plain"), observe_only=True)) as (observer,):
                await until(lambda: observer.election.leadership().leader == "meta-1")

    play(scenario)


def test_on_a_database_that_becomes_read_only_no_node_leads_until_it_can_be_written_again(
    dialect: str, plain: str, admin: Session, server: SqlServer, tables: Mapping[str, object], build: Build
) -> None:
    def set_read_only(on: bool) -> None:
        if dialect == "postgres":
            admin.execute(f"ALTER ROLE plain SET default_transaction_read_only = {'on' if on else 'off'}")
            end_connections(dialect, admin)
        else:
            admin.execute(f"SET GLOBAL read_only = {int(on)}")

    async def scenario() -> None:
        async with started(build("meta-3")):
            for table in tables.values():
                admin.execute(f"GRANT SELECT, INSERT, UPDATE ON {table} TO {plain}")
        async with started(build(dsn=server.dsn(user="plain"))) as (node,):
            await until(lambda: node.leads)
            term = node.term
            try:
                set_read_only(True)
                await until(lambda: not node.leads, within_seconds=LEASE_SECONDS + 0.1)
                error = await start_error(build("meta-2", dsn=server.dsn(user="plain")))
                assert all(word in str(error) for word in ("read", "only"))
            finally:
                set_read_only(False)
            await until(lambda: node.leads)
            assert node.term == term + 1

    play(scenario)
