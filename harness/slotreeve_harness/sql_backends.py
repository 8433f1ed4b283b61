"""The lock election as the election suite runs it: on real servers that are started for it, and on real time.

::

    pytest --election=postgres --election-backend=slotreeve_harness.sql_backends:PostgresBackend
    pytest --election=mysql --election-backend=slotreeve_harness.sql_backends:MariaDbBackend
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
from collections.abc import Mapping

from slotreeve_conformance.election_backend import InstalledBackend, Store

from slotreeve_harness.sql_servers import MariaDbServer, PostgresServer, SqlServer

_numbers = itertools.count(1)
_servers: dict[type[SqlServer], SqlServer] = {}

TIMES: Mapping[str, object] = {"lease_ms": 600, "renew_ms": 100, "timeout_ms": 300}
"""Short, so that the suite is fast; a lost renewal can still be sent again."""


def running(kind: type[SqlServer]) -> SqlServer:
    """The database server of a kind that all tests of this process share; it stops when the process ends.

    Raises:
        ServerMissing, ServerFailed: as :meth:`slotreeve_harness.sql_servers.SqlServer.start`.
    """
    if kind not in _servers:
        server = kind()
        atexit.register(server.close)
        server.start()
        _servers[kind] = server
    return _servers[kind]


def fresh_tables() -> Mapping[str, object]:
    """Options that name tables that were not used before."""
    number = next(_numbers)
    return {"table": f"distribute_lock_{number}", "state_table": f"slotreeve_meta_state_{number}"}


class ServerStore(Store):
    """The server behind a scenario."""

    def __init__(self, server: SqlServer) -> None:
        self._server = server

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


class SqlBackend(InstalledBackend):
    """A lock election with tables of its own on a shared server."""

    realtime = True
    fail_over_seconds = 1.5
    hand_over_seconds = 0.2
    outage_seconds = 1.0
    settle_seconds = 0.5
    server: type[SqlServer]

    def __init__(self) -> None:
        self.options = {**TIMES, **fresh_tables(), "dsn": running(self.server).dsn()}

    async def open_store(self) -> Store | None:
        """The shared server, and new tables."""
        return ServerStore(running(self.server))


class PostgresBackend(SqlBackend):
    """The ``postgres`` election."""

    name = "postgres"
    server = PostgresServer


class MariaDbBackend(SqlBackend):
    """The ``mysql`` election, on MariaDB."""

    name = "mysql"
    server = MariaDbServer
