"""What the command prints makes the tables on real databases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
from slotreeve_chaos.sql_servers import SqlServer
from slotreeve_cli import election_ddl
from slotreeve_election_mysql.election import LockElection
from slotreeve_election_mysql.mysql import MYSQL
from slotreeve_election_mysql.postgres import POSTGRES


@pytest.mark.processes
def test_the_election_runs_on_the_printed_tables(
    dialect: str, server: SqlServer, tables: Mapping[str, object], build: Callable[..., LockElection]
) -> None:
    session = (POSTGRES if dialect == "postgres" else MYSQL).connect(server.dsn(), 10.0, 600.0, 30.0)
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
