"""The lock election as the election suite runs it: on real servers that are started for it, and on real time.

::

    pytest --election=postgres --election-backend=slotreeve_chaos.sql_backends:PostgresBackend
    pytest --election=mysql --election-backend=slotreeve_chaos.sql_backends:MariaDbBackend
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import uuid
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar, cast

from slotreeve.clock import MachineClock
from slotreeve_conformance.election_backend import InstalledBackend, RestorableStore, Store
from slotreeve_conformance.ensemble import CLUSTER as ENSEMBLE_CLUSTER
from slotreeve_election_mysql import LockOptions
from slotreeve_election_mysql.connection import Parameter, Session, SqlStatement
from slotreeve_election_mysql.dialect import Tables
from slotreeve_election_mysql.mysql import MYSQL
from slotreeve_election_mysql.postgres import POSTGRES
from slotreeve_election_mysql.sql_table import SqlLockTable
from slotreeve_election_mysql.timing import LockTiming

from slotreeve_chaos.sql_servers import MariaDbServer, PostgresServer, SqlServer

T = TypeVar("T")
DIALECTS = {dialect.name: dialect for dialect in (POSTGRES, MYSQL)}
_numbers = itertools.count(1)
_servers: dict[type[SqlServer], SqlServer] = {}

TIMES: Mapping[str, object] = {"lease_ms": 600, "renew_ms": 100, "timeout_ms": 300}
"""Short, so that the suite is fast; a lost renewal can still be sent again."""
CONTRACT_TIMES: Mapping[str, object] = {"lease_ms": 1_000, "renew_ms": 100, "timeout_ms": 700}
"""For the contract of elections: a write without an answer fails there, and a busy machine may answer after 0.3 s."""
LOAD_TIMES: Mapping[str, object] = {"lease_ms": 5_000, "renew_ms": 500, "timeout_ms": 2_000}
"""For scenarios under load: one sync of a busy disk can take longer than the whole lease of :data:`TIMES`."""


def running(kind: type[SqlServer]) -> SqlServer:
    """The database server of a kind that all tests of this process share; it stops when the process ends, or with
    :func:`close_all`: a process that is killed, as those that run tests at once may be, ends nothing.

    Raises:
        ServerMissing, ServerFailed: as :meth:`slotreeve_chaos.sql_servers.SqlServer.start`.
    """
    if kind not in _servers:
        server = kind()
        atexit.register(server.close)
        server.start()
        _servers[kind] = server
    return _servers[kind]


def close_all() -> None:
    """Stop every server that :func:`running` has started."""
    while _servers:
        _servers.popitem()[1].close()


def fresh_tables() -> Mapping[str, object]:
    """Options that name tables that were not used before."""
    number = next(_numbers)
    return {"table": f"distribute_lock_{number}", "state_table": f"slotreeve_meta_state_{number}"}


class ServerStore(RestorableStore):
    """The server behind a scenario, with the tables of the scenario's cluster."""

    def __init__(self, server: SqlServer, tables: Tables) -> None:
        self._server, self._tables = server, tables
        self._dialect = DIALECTS[server.dialect]

    async def stop(self) -> None:
        """An outage; see :class:`slotreeve_conformance.election_backend.Store`."""
        await asyncio.to_thread(self._server.kill)

    async def start(self) -> None:
        """Its end."""
        await asyncio.to_thread(self._server.start)

    async def close(self) -> None:
        """The server stays, for the next scenario."""
        if not self._server.is_running:
            await self.start()

    async def back_up(self) -> Callable[[], Coroutine[Any, Any, None]]:
        """Copy both tables; see :class:`slotreeve_conformance.election_backend.RestorableStore`."""
        names = self._tables.lock_table, self._tables.state_table
        copies = await self._run(lambda session: [(n, session.query(f"SELECT * FROM {n}")) for n in names])

        def write_back(session: Session) -> None:
            statements = [SqlStatement("BEGIN")]
            for name, records in copies:
                statements.append(SqlStatement(f"DELETE FROM {name}"))
                for record in records:
                    values = ", ".join(["%s"] * len(record))
                    parameters = cast(tuple[Parameter, ...], tuple(record))
                    statements.append(SqlStatement(f"INSERT INTO {name} VALUES ({values})", parameters))
            session.run(*statements, SqlStatement("COMMIT"))

        return lambda: self._run(write_back)

    async def accept(self) -> None:
        """Accept the tables as they are."""
        timing, dsn = LockTiming(10.0, 1.0, 5.0), self._server.dsn()
        table = SqlLockTable(self._dialect, self._tables, dsn, timing, MachineClock())
        await table.begin_history(uuid.uuid4().hex)
        await table.close()

    async def _run(self, work: Callable[[Session], T]) -> T:
        def run() -> T:
            session = self._dialect.connect(self._server.dsn(), 10.0, 600.0, 30.0)
            try:
                return work(session)
            finally:
                session.close()

        return await asyncio.to_thread(run)


class SqlBackend(InstalledBackend):
    """A lock election with tables of its own on a shared server."""

    realtime = True
    fail_over_seconds = 2.0
    hand_over_seconds = 0.2
    outage_seconds = 1.5
    settle_seconds = 0.5
    storms = 1
    server: type[SqlServer]

    def __init__(self) -> None:
        self._tables = fresh_tables()
        self.options = {**CONTRACT_TIMES, **self._tables, "dsn": running(self.server).dsn()}

    def expect_load(self) -> None:
        """A lease that is longer than a disk's slowest sync."""
        self.options = {**self.options, **LOAD_TIMES}

    async def open_store(self) -> Store | None:
        """The shared server, and new tables."""
        own = LockOptions.model_validate(self._tables)
        tables = Tables(own.table, own.state_table, ENSEMBLE_CLUSTER, own.lock_name)
        return ServerStore(running(self.server), tables)


class PostgresBackend(SqlBackend):
    """The ``postgres`` election."""

    name = "postgres"
    server = PostgresServer


class MariaDbBackend(SqlBackend):
    """The ``mysql`` election, on MariaDB."""

    name = "mysql"
    server = MariaDbServer
