"""The printed statements make tables that an account with no right to make any can elect with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
import typer
from slotreeve.errors import SlotreeveError
from slotreeve_cli import election_ddl
from slotreeve_election_mysql.election import LockElection
from slotreeve_election_mysql.mysql import MYSQL
from slotreeve_election_mysql.postgres import POSTGRES
from slotreeve_harness.sql_servers import SqlServer
from typer.testing import CliRunner


@pytest.mark.parametrize("dialect", ["mysql", "postgres"])
def test_the_command_prints_both_tables(dialect: str) -> None:
    app = typer.Typer()
    app.callback()(lambda: None)
    election_ddl.add_to(app)
    done = CliRunner().invoke(app, ["ddl", "--dialect", dialect, "--set", "table=registry_lock"])
    assert done.exit_code == 0, done.output
    assert "CREATE TABLE IF NOT EXISTS registry_lock (" in done.output
    assert "CREATE TABLE IF NOT EXISTS slotreeve_meta_state (" in done.output


def test_an_election_without_a_database_is_refused() -> None:
    with pytest.raises(SlotreeveError, match="dsn"):
        election_ddl.ddl("fle", {})


def test_a_name_that_is_no_table_name_is_refused() -> None:
    with pytest.raises(SlotreeveError, match="table"):
        election_ddl.ddl("postgres", {"table": "lock; DROP TABLE users"})


@pytest.mark.processes
def test_the_election_runs_on_the_printed_tables(
    dialect: str, server: SqlServer, tables: Mapping[str, object], build: Callable[..., LockElection]
) -> None:
    session = (POSTGRES if dialect == "postgres" else MYSQL).connect(server.dsn(), 10.0, 600.0)
    for statement in election_ddl.ddl(dialect, tables).split(";\n"):
        if statement:
            session.execute(statement)
    session.close()

    async def main() -> None:
        election = build()
        led = asyncio.Event()
        await election.start(lambda leadership: led.set() if leadership.leading else None)
        await asyncio.wait_for(led.wait(), 5.0)
        await election.stop()

    asyncio.run(main())
