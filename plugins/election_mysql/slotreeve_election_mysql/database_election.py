"""The lock election on a real database, made from options."""

from __future__ import annotations

from slotreeve.errors import ConfigError
from slotreeve.ports import Context

from slotreeve_election_mysql import LockOptions
from slotreeve_election_mysql.dialect import Dialect, Tables, ddl
from slotreeve_election_mysql.election import LockElection
from slotreeve_election_mysql.sql_table import SqlLockTable, SqlNotifier
from slotreeve_election_mysql.timing import LockTiming

LONGEST_CLUSTER = 128
LONGEST_NODE = 240
"""Characters that the tables' columns hold; an owner is a node's name and 13 more."""


class DatabaseLockElection(LockElection):
    """See :class:`slotreeve_election_mysql.election.LockElection`."""

    def __init__(self, dialect: Dialect, options: LockOptions, context: Context) -> None:
        """Nothing is connected before :meth:`start`.

        Raises:
            ConfigError: the times do not go together, the dsn is none or missing, or a name is too long.
        """
        # Not checks of the options model: its messages would quote all options, the dsn among them.
        dsn = options.dsn.get_secret_value()
        if not dsn:
            raise ConfigError(
                f"[election.{dialect.name}] dsn is missing; expected {dialect.name}://USER:PASSWORD@HOST:PORT/DATABASE"
            )
        for setting, name, longest in (
            ("cluster.name", context.cluster, LONGEST_CLUSTER),
            ("node.name", context.node, LONGEST_NODE),
        ):
            if len(name) > longest:
                raise ConfigError(
                    f"{setting} has {len(name)} characters; the tables of the election {dialect.name!r} hold {longest}"
                )
        timing = LockTiming(options.lease_ms / 1000, options.renew_ms / 1000, options.timeout_ms / 1000)
        timing.check(f"[election.{dialect.name}]")
        self._dialect = dialect
        self._tables = Tables(options.table, options.state_table, context.cluster, options.lock_name)
        self._sql_table = SqlLockTable(dialect, self._tables, dsn, timing, context.clock)
        notifier = SqlNotifier(dialect, self._tables, dsn, timing, context.clock)
        super().__init__(context, timing, self._sql_table, notifier)

    async def accept(self, history: str) -> str:
        """Accept the meta state as the database has it now, although nodes may know a newer one: it becomes
        ``history``, and every node reads it anew. Returns the place and the newest change, for people. Not for an
        election that was started.

        Raises:
            TransportError, ElectionError: the database cannot be used.
        """
        table = self._sql_table
        try:
            await table.open(observe_only=False)
            await table.begin_history(history)
            row = await table.look()
            return f"{table.place}, change {row.newest.revision if row else 0} of the meta state"
        finally:
            await table.close()

    async def try_out(self) -> str:
        """Connect to the database and check the rights, for ``slotreeve config check --online``; nothing is changed.
        Returns what was found, for people. Not for an election that was started.

        Raises:
            TransportError, ElectionError: the database cannot be used.
        """
        try:
            return await self._sql_table.try_out()
        finally:
            await self._sql_table.close()

    def ddl(self) -> str:
        """The statements that make the tables."""
        return "".join(f"{statement};\n" for statement in ddl(self._dialect, self._tables))
