"""The lock election on a real database, made from options."""

from __future__ import annotations

from slotreeve.errors import ConfigError, ElectionError
from slotreeve.ports import Context

from slotreeve_election_mysql import LockOptions
from slotreeve_election_mysql.dialect import Dialect, Tables, ddl
from slotreeve_election_mysql.election import LockElection
from slotreeve_election_mysql.sql_table import SqlLockTable, SqlNotifier
from slotreeve_election_mysql.table import Row
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
        super().__init__(context, timing, self._sql_table, notifier, options.observers)

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

    async def release(self) -> str:
        """Release the row of an owner that is dead, whatever the database's clock says. It is dead if it renews nothing
        for a whole lease. Returns what was done, for people. Not for an election that was started.

        Raises:
            ElectionError: there is no row, or its owner lives, or the database refuses this account.
            TransportError: the database cannot be used.
        """
        table = self._sql_table
        try:
            await table.open(observe_only=False)
            seen = await table.look()
            if seen is None:
                raise ElectionError(f"{table.place} has no row for the cluster; the first meta server makes it")
            if not seen.owner:
                return f"{table.place}: nobody owns the row; the next meta server that looks takes it"
            over_at, owner = self._clock.now() + self._timing.lease, seen.owner.rpartition("#")[0]
            while self._clock.now() < over_at and _is_unchanged(seen, await table.look()):
                await self._clock.sleep(self._timing.renew)
            if self._clock.now() < over_at or not await table.release_of(seen):
                raise ElectionError(
                    f"{table.place}: {owner} has renewed its lease, or the row has another owner, within "
                    f"{self._timing.lease:g} s: the owner lives, so nothing was released; `slotreeve election resign` "
                    "asks it to give up the lead"
                )
            return f"{table.place}: the row of {owner} in term {seen.term} is released"
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


def _is_unchanged(seen: Row, now: Row | None) -> bool:
    """Whether the owner has renewed nothing since."""
    return now is not None and (now.owner, now.term, now.term_duration) == (seen.owner, seen.term, seen.term_duration)
