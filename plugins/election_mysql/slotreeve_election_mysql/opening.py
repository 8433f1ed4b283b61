"""The first use of a database: how far it is away, whether its tables are there, and what this account may do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from slotreeve.clock import Clock
from slotreeve.errors import ElectionError

from slotreeve_election_mysql.connection import DatabaseConnection, Session
from slotreeve_election_mysql.dialect import Dialect, Tables, ddl
from slotreeve_election_mysql.statements import Statements
from slotreeve_election_mysql.timing import LockTiming

T = TypeVar("T")
MAKING = "slotreeve makes tables"
OPENING_SECONDS = 5.0
"""A start waits longer than an election does: nothing depends on it yet, and making tables takes its time."""


class SqlOpening:
    """What a node does before it takes part."""

    def __init__(
        self, dialect: Dialect, tables: Tables, connection: DatabaseConnection, timing: LockTiming, clock: Clock
    ) -> None:
        self._dialect, self._tables, self._connection = dialect, tables, connection
        self._timing, self._clock = timing, clock
        self._statements = Statements(dialect, tables)

    async def _prepare(self, work: Callable[[Session], T]) -> T:
        return await self._connection.run(work, max(OPENING_SECONDS, self._timing.timeout))

    async def open(self, observe_only: bool) -> str:
        """Connect, make the tables if they are missing, check the rights; see
        :class:`slotreeve_election_mysql.table.LockTable`."""
        misfit = ""
        try:
            misfit = await self._measure()
            await self._prepare(self._check_reading)
        except ElectionError as missing:
            if observe_only:
                raise
            await self._make_tables(missing)
        if not observe_only:
            await self._prepare(self._check_writing)
        return misfit

    async def _measure(self) -> str:
        """Connect, and say why the configured times do not fit a database that is so far away."""
        began = self._clock.now()
        await self._connection.connect()
        connected = self._clock.now()
        await self._prepare(lambda session: session.query("SELECT 1"))
        return self._timing.misfit(self._clock.now() - connected, connected - began)

    async def try_out(self) -> str:
        """Connect, and look whether this account may do what it has to; nothing is made or changed. Returns what was
        found, for people.

        Raises:
            TransportError: the database cannot be reached.
            ElectionError: it refuses this account.
        """
        misfit = await self._measure()
        try:
            await self._prepare(self._check_reading)
        except ElectionError as missing:
            return (
                f"{self._connection.place} answers; the tables cannot be read yet ({missing}): the first meta "
                "server makes them, if its account may"
            )
        await self._prepare(self._check_writing)
        return f"{self._connection.place} can be read and written" + (f", but {misfit}" if misfit else "")

    async def _make_tables(self, missing: ElectionError) -> None:
        def make(session: Session) -> None:
            # Two nodes may start at once, and IF NOT EXISTS does not keep PostgreSQL from making a table twice.
            session.lock(MAKING, OPENING_SECONDS / 2)
            try:
                for statement in ddl(self._dialect, self._tables):
                    session.execute(statement)
            finally:
                session.unlock(MAKING)
            self._check_reading(session)

        try:
            await self._prepare(make)
        except ElectionError as error:
            raise ElectionError(
                f"the tables {self._tables.lock_table} and {self._tables.state_table} cannot be used ({missing}) nor "
                f"made ({error}); let their owner run what `slotreeve election ddl --dialect {self._dialect.name}` "
                "prints, and grant this account SELECT, INSERT and UPDATE on both"
            ) from None

    def _check_reading(self, session: Session) -> None:
        session.run(*self._statements.check_reading())

    def _check_writing(self, session: Session) -> None:
        """Statements that change nothing, but that the database refuses to an account without the right."""
        lock, state = self._tables.lock_table, self._tables.state_table
        try:
            session.run(*self._statements.check_writing())
        except ElectionError as error:
            raise ElectionError(
                f"this account lacks a right that electing needs: {error}; on the tables {lock} and {state}, grant "
                f"SELECT, INSERT and UPDATE, or name this node in observers of [election.{self._dialect.name}]"
            ) from None
