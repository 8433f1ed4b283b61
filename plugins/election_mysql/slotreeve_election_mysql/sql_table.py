"""The lock table and the notifier in a database: the statements, which both dialects share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from slotreeve.clock import Clock
from slotreeve.errors import ElectionError
from slotreeve.ports import Versioned

from slotreeve_election_mysql.connection import DatabaseConnection, Session
from slotreeve_election_mysql.dialect import Dialect, Tables, ddl
from slotreeve_election_mysql.meta_state_rows import HISTORY, KEY, MetaStateRows, number
from slotreeve_election_mysql.table import Change, Row
from slotreeve_election_mysql.timing import QUEUE_SECONDS, LockTiming

T = TypeVar("T")
MAKING = "slotreeve makes tables"
OPENING_SECONDS = 5.0
"""A start waits longer than an election does: nothing depends on it yet, and making tables takes its time."""


@dataclass(frozen=True)
class SqlRow:
    """See :class:`slotreeve_election_mysql.table.Row`."""

    owner: str
    term: int
    term_duration: int
    remaining_ms: int
    revision: int
    history: str = ""


class SqlLockTable:
    """See :class:`slotreeve_election_mysql.table.LockTable`."""

    def __init__(self, dialect: Dialect, tables: Tables, dsn: str, timing: LockTiming, clock: Clock) -> None:
        self._dialect, self._tables, self._timeout = dialect, tables, timing.timeout
        self._place = f"{dialect.place(dsn)}, table {tables.lock_table}"
        self._meta_state = MetaStateRows(dialect, tables, self._place)
        self._connection = DatabaseConnection(
            "slotreeve-lock-table", lambda: dialect.connect(dsn, timing.timeout, timing.lease), self._place, clock
        )

    @property
    def place(self) -> str:
        """Database and table."""
        return self._place

    async def _run(self, work: Callable[[Session], T]) -> T:
        return await self._connection.run(work, self._timeout)

    async def _prepare(self, work: Callable[[Session], T]) -> T:
        return await self._connection.run(work, max(OPENING_SECONDS, self._timeout))

    # --- opening -----------------------------------------------------------------------------------------------------

    async def open(self, observe_only: bool) -> None:
        """Connect, make the tables if they are missing, check the rights; see LockTable."""
        try:
            await self._prepare(self._check_reading)
        except ElectionError as missing:
            if observe_only:
                raise
            await self._make_tables(missing)
        if not observe_only:
            await self._prepare(self._check_writing)

    async def try_out(self) -> str:
        """Connect, and look whether this account may do what it has to; nothing is made or changed. Returns what was
        found, for people.

        Raises:
            TransportError: the database cannot be reached.
            ElectionError: it refuses this account.
        """
        await self._prepare(lambda session: session.query("SELECT 1"))
        try:
            await self._prepare(self._check_reading)
        except ElectionError as missing:
            return (
                f"{self._place} answers; the tables cannot be read yet ({missing}): the first meta server makes them, "
                "if its account may"
            )
        await self._prepare(self._check_writing)
        return f"{self._place} can be read and written"

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
        session.query(f"SELECT owner, duration, term, term_duration FROM {self._tables.lock_table} WHERE 1 = 0")
        session.query(f"SELECT state_value, version, term, revision FROM {self._tables.state_table} WHERE 1 = 0")

    def _check_writing(self, session: Session) -> None:
        """Statements that change nothing, but that the database refuses to an account without the right."""
        lock, state = self._tables.lock_table, self._tables.state_table
        try:
            for table, column in ((lock, "owner"), (state, "state_key")):
                session.execute(f"UPDATE {table} SET {column} = {column} WHERE 1 = 0")
                session.execute(f"INSERT INTO {table} SELECT * FROM {table} WHERE 1 = 0")
        except ElectionError as error:
            raise ElectionError(
                f"this account lacks a right that electing needs: {error}; grant SELECT, INSERT and UPDATE on {lock} "
                f"and {state}, or set observe_only"
            ) from None

    # --- the row -----------------------------------------------------------------------------------------------------

    async def look(self) -> Row | None:
        """The row; see LockTable."""
        statement = (
            f"SELECT owner, term, term_duration, {self._dialect.remaining}, "
            f"(SELECT COALESCE(MAX(revision), 0) FROM {self._tables.state_table} WHERE {KEY}), "
            f"(SELECT state_value FROM {self._tables.state_table} WHERE {KEY} AND state_key = %s) "
            f"FROM {self._tables.lock_table} WHERE {KEY}"
        )
        key = self._tables.key

        def look(session: Session) -> Row | None:
            for owner, *numbers, history in session.query(statement, (*key, *key, HISTORY, *key)):
                term, term_duration, remaining_ms, revision = (int(cast(int, number)) for number in numbers)
                name = "" if history is None else bytes(cast(bytes, history)).decode()
                return SqlRow(str(owner), term, term_duration, remaining_ms, revision, name)
            return None

        return await self._run(look)

    async def insert(self, term: int, wait_ms: int) -> None:
        """Make the row, owned by nobody; see LockTable."""
        begin, end = self._dialect.insert_new
        now = self._dialect.now
        statement = (
            f"{begin} {self._tables.lock_table} "
            "(data_center, lock_name, owner, duration, term, term_duration, gmt_create, gmt_modified) "
            f"VALUES (%s, %s, '', %s, %s, 0, {now}, {now}) {end}"
        )
        await self._run(lambda session: session.execute(statement, (*self._tables.key, wait_ms, term)))

    async def take_over(self, seen: Row, owner: str, term: int, duration_ms: int) -> bool:
        """Compare and set on owner, term, term_duration and expiry; see LockTable."""
        return await self._changed_row(
            f"owner = %s, duration = %s, term = %s, term_duration = 0, gmt_modified = {self._dialect.now}",
            (owner, duration_ms, term),
            f"owner = %s AND term = %s AND term_duration = %s AND {self._dialect.remaining} <= 0",
            (seen.owner, seen.term, seen.term_duration),
        )

    async def renew(self, owner: str, term: int, term_duration: int) -> bool:
        """Compare and set on owner, term, term_duration and not expired; see LockTable."""
        return await self._changed_row(
            f"term_duration = term_duration + 1, gmt_modified = {self._dialect.now}",
            (),
            f"owner = %s AND term = %s AND term_duration = %s AND {self._dialect.remaining} > 0",
            (owner, term, term_duration),
        )

    async def release(self, owner: str, term: int) -> bool:
        """Set the owner to nobody; see LockTable."""
        return await self._changed_row(
            f"owner = '', duration = 0, gmt_modified = {self._dialect.now}",
            (),
            "owner = %s AND term = %s",
            (owner, term),
        )

    async def _changed_row(
        self, assignments: str, values: tuple[str | int, ...], condition: str, seen: tuple[str | int, ...]
    ) -> bool:
        statement = f"UPDATE {self._tables.lock_table} SET {assignments} WHERE {KEY} AND {condition}"
        return await self._run(lambda session: session.execute(statement, (*values, *self._tables.key, *seen)) == 1)

    # --- the meta state ----------------------------------------------------------------------------------------------

    async def changes(self, after: int) -> Sequence[Change]:
        """What changed after a revision; see LockTable."""
        return await self._run(lambda session: self._meta_state.changes(session, after))

    async def settled_changes(self, after: int) -> Sequence[Change]:
        """What changed after a revision, once the row is free; see LockTable."""

        def read(session: Session) -> Sequence[Change]:
            with session.transaction():
                # Only the second statement reads the meta state: MySQL's transactions read as of their first plain
                # SELECT, PostgreSQL's as of each statement.
                session.query(f"SELECT owner FROM {self._tables.lock_table} WHERE {KEY} FOR UPDATE", self._tables.key)
                return self._meta_state.changes(session, after)

        return await self._run(read)

    async def highest_term(self) -> int:
        """The highest term in the meta state; see LockTable."""
        statement = f"SELECT COALESCE(MAX(term), 0) FROM {self._tables.state_table} WHERE {KEY}"
        return await self._run(lambda session: number(session.query(statement, self._tables.key)))

    async def write(
        self, owner: str, term: int, key: str, value: bytes, expected_version: int | None, after: int
    ) -> Change:
        """Store in a transaction that holds the row; see LockTable."""

        rows = self._meta_state

        def store(session: Session) -> Change:
            with session.transaction():
                rows.hold_lock(session, owner, term, key)
                revision = rows.next_revision(session, term, key, after)
                version = rows.next_version(session, key, expected_version)
                rows.put(session, term, key, value, version, revision)
            return revision, key, Versioned(value, version, term)

        return await self._run(store)

    async def begin_history(self, history: str) -> None:
        """Name the history; see LockTable."""
        await self._run(lambda session: self._meta_state.name_history(session, history))

    # --- the end -----------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """End the connection in order."""
        await self._connection.close(self._timeout)

    def abort(self) -> None:
        """Drop the connection."""
        self._connection.abort()


class SqlNotifier:
    """See :class:`slotreeve_election_mysql.table.Notifier`."""

    def __init__(self, dialect: Dialect, tables: Tables, dsn: str, timing: LockTiming, clock: Clock) -> None:
        self._timeout = timing.timeout
        # Names of MySQL's locks have at most 64 characters, and are shared by all databases of a server.
        text = "/".join((tables.lock_table, *tables.key))
        self._name = f"slotreeve {hashlib.sha256(text.encode()).hexdigest()[:32]}"
        longest = QUEUE_SECONDS + timing.timeout
        self._connection = DatabaseConnection(
            "slotreeve-notifier", lambda: dialect.connect(dsn, longest, 3 * longest), dialect.place(dsn), clock
        )

    async def acquire(self, wait_seconds: float) -> bool:
        """Wait for the lock; see Notifier."""
        return await self._connection.run(
            lambda session: session.lock(self._name, wait_seconds), wait_seconds + self._timeout
        )

    async def check(self) -> None:
        """Raise if the connection is gone."""
        await self._connection.run(lambda session: session.query("SELECT 1"), self._timeout)

    async def release(self) -> None:
        """Release the lock."""
        await self._connection.run(lambda session: session.unlock(self._name), self._timeout)

    def abort(self) -> None:
        """Drop the connection."""
        self._connection.abort()
