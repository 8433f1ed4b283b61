"""Real replicas of real database servers, by the servers' own replication, which can be cut off and then promoted.

::

    with MariaDbPrimary() as primary, MariaDbReplica(primary) as replica:
        replica.cut_off()  # from now on it lags behind
        replica.promote()
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from slotreeve_election_mysql.connection import Session
from slotreeve_election_mysql.mysql import MYSQL
from slotreeve_election_mysql.postgres import POSTGRES

from slotreeve_chaos.sql_programs import postgres_programs
from slotreeve_chaos.sql_servers import PASSWORD, USER, MariaDbServer, PostgresServer, SqlServer


class SqlReplica(Protocol):
    """A server that follows another one."""

    def cut_off(self) -> None:
        """What the primary commits from now on does not reach it."""

    def promote(self) -> None:
        """Let it take writes, with what has reached it."""


class PostgresStandby(PostgresServer):
    """A standby by streaming replication, from a base backup of the primary, which runs."""

    def __init__(self, primary: SqlServer) -> None:
        super().__init__()
        self._primary = primary

    def cut_off(self) -> None:
        """See :class:`SqlReplica`."""
        self._tell("ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")

    def promote(self) -> None:
        """See :class:`SqlReplica`."""
        self._tell("SELECT pg_promote(true, 30)")

    def _make(self, data: Path, log: Path) -> None:
        source = f"host={self._primary.host} port={self._primary.port} user={USER} password={PASSWORD}"
        backup = str(postgres_programs() / "pg_basebackup")
        self._run(
            [backup, "-D", str(data), "-d", source, "--write-recovery-conf", "--checkpoint=fast", "--no-sync"], log
        )

    def _tell(self, *statements: str) -> None:
        _tell(POSTGRES.connect, self.dsn(), *statements)


class MariaDbPrimary(MariaDbServer):
    """A server that replicas may follow."""

    def _command(self, data: Path) -> list[str]:
        return [*super()._command(data), "--server-id=1", "--log-bin", "--binlog-format=MIXED"]


class MariaDbReplica(MariaDbServer):
    """A replica that carries out what the primary has logged since its first start."""

    def __init__(self, primary: SqlServer) -> None:
        super().__init__()
        self._primary = primary

    def start(self) -> None:
        """Start, and follow; see :class:`SqlServer`."""
        super().start()
        self._tell(
            f"CHANGE MASTER TO MASTER_HOST = '{self._primary.host}', MASTER_PORT = {self._primary.port}, "
            f"MASTER_USER = '{USER}', MASTER_PASSWORD = '{PASSWORD}', MASTER_CONNECT_RETRY = 1",
            "START SLAVE",
            "SET GLOBAL read_only = 1",
        )

    def cut_off(self) -> None:
        """See :class:`SqlReplica`."""
        self._tell("STOP SLAVE")

    def promote(self) -> None:
        """See :class:`SqlReplica`."""
        self._tell("STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = 0")

    def _command(self, data: Path) -> list[str]:
        return [*super()._command(data), "--server-id=2"]

    def _tell(self, *statements: str) -> None:
        _tell(MYSQL.connect, self.dsn(), *statements)


class _Connect(Protocol):
    def __call__(self, dsn: str, timeout_seconds: float, idle_seconds: float, connect_seconds: float, /) -> Session: ...


def _tell(connect: _Connect, dsn: str, *statements: str) -> None:
    session = connect(dsn, 30.0, 60.0, 30.0)
    try:
        for statement in statements:
            session.execute(statement)
    finally:
        session.close()
