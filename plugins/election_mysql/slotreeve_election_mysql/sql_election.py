"""A lock election on SQL tables, from options."""

from __future__ import annotations

from slotreeve.errors import ConfigError
from slotreeve.ports import Context

from slotreeve_election_mysql import LockOptions
from slotreeve_election_mysql.dialect import Dialect, Tables, ddl
from slotreeve_election_mysql.election import LockElection
from slotreeve_election_mysql.sql_table import SqlBell, SqlLockTable
from slotreeve_election_mysql.timing import Timing


class SqlElection(LockElection):
    """See :class:`slotreeve_election_mysql.election.LockElection`."""

    def __init__(self, dialect: Dialect, options: LockOptions, context: Context) -> None:
        """Nothing is connected before :meth:`start`.

        Raises:
            ConfigError: the times do not go together, or the dsn is none or missing.
        """
        # These are not the options model's own checks: its messages would quote all options, the dsn among them.
        dsn = options.dsn.get_secret_value()
        if not dsn:
            raise ConfigError(
                f"[election.{dialect.name}] dsn is missing; expected {dialect.name}://USER:PASSWORD@HOST:PORT/DATABASE"
            )
        timing = Timing(options.lease_ms / 1000, options.renew_ms / 1000, options.timeout_ms / 1000)
        timing.check(f"[election.{dialect.name}]")
        self._dialect = dialect
        self._tables = Tables(options.table, options.state_table, context.cluster, options.lock_name)
        table = SqlLockTable(dialect, self._tables, dsn, timing, context.clock)
        bell = SqlBell(dialect, self._tables, dsn, timing, context.clock)
        super().__init__(context, timing, table, bell)

    def ddl(self) -> str:
        """The statements that make the tables."""
        return "".join(f"{statement};\n" for statement in ddl(self._dialect, self._tables))
