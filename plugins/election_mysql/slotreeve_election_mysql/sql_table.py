"""The lock table and the notifier in a database: the statements, which both dialects share."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from slotreeve.clock import Clock
from slotreeve.errors import ElectionError, NotLeader, StaleTerm, TransportError, VersionConflict
from slotreeve.ports import Versioned

from slotreeve_election_mysql.connection import DatabaseConnection, Record, Session, SqlResult
from slotreeve_election_mysql.database_server import ServersSeen
from slotreeve_election_mysql.dialect import Dialect, Tables
from slotreeve_election_mysql.opening import SqlOpening
from slotreeve_election_mysql.statements import Batch, Statements
from slotreeve_election_mysql.table import NOWHERE, Change, Position, Row, RowRenewal, StoredEntry
from slotreeve_election_mysql.timing import QUEUE_SECONDS, LockTiming, connect_seconds


@dataclass(frozen=True)
class SqlRow:
    """See :class:`slotreeve_election_mysql.table.Row`."""

    owner: str
    term: int
    term_duration: int
    remaining_ms: int
    newest: Position = NOWHERE
    history: str = ""
    server: str = ""


class SqlLockTable:
    """See :class:`slotreeve_election_mysql.table.LockTable`."""

    def __init__(self, dialect: Dialect, tables: Tables, dsn: str, timing: LockTiming, clock: Clock) -> None:
        self._tables, self._timing = tables, timing
        self._place = f"{dialect.place(dsn)}, table {tables.lock_table}"
        self._statements = Statements(dialect, tables)
        self._seen = ServersSeen()
        seconds = connect_seconds(timing.timeout, dialect.hosts(dsn))
        self._connection = DatabaseConnection(
            "slotreeve-lock-table",
            lambda: self._checked(dialect.connect(dsn, timing.timeout, timing.lease, seconds)),
            self._place,
            clock,
            seconds,
        )
        self._opening = SqlOpening(dialect, tables, self._connection, timing, clock)

    def _checked(self, session: Session) -> Session:
        """The session, unless it leads to a server that must not be used."""
        try:
            self._seen.meet(session.server, self._place)
        except TransportError:
            session.close()
            raise
        return session

    @property
    def place(self) -> str:
        """Database and table."""
        return self._place

    async def _run(self, statements: Batch) -> Sequence[SqlResult]:
        return await self._connection.run(lambda session: session.run(*statements), self._timing.timeout)

    # --- opening -----------------------------------------------------------------------------------------------------

    async def open(self, observe_only: bool) -> str:
        """Connect, make the tables if they are missing, check the rights; see LockTable."""
        return await self._opening.open(observe_only)

    async def try_out(self) -> str:
        """Connect, and look whether this account may do what it has to; see :meth:`SqlOpening.try_out`."""
        return await self._opening.try_out()

    # --- the row -----------------------------------------------------------------------------------------------------

    async def look(self) -> Row | None:
        """The row; see LockTable."""
        statements = self._statements.look()

        def look(session: Session) -> Row | None:
            for owner, term, renewals, remaining_ms, revision, its_term, history in session.run(*statements)[0].rows:
                name = "" if history is None else bytes(cast(bytes, history)).decode()
                newest = Position(_number(revision), _number(its_term))
                server = str(session.server)
                return SqlRow(str(owner), _number(term), _number(renewals), _number(remaining_ms), newest, name, server)
            return None

        return await self._connection.run(look, self._timing.timeout)

    async def insert(self, term: int, wait_ms: int) -> None:
        """Make the row, owned by nobody; see LockTable."""
        await self._run(self._statements.insert(term, wait_ms))

    async def take_over(self, seen: Row, owner: str, term: int, duration_ms: int) -> bool:
        """Compare and set on owner, term, term_duration and expiry; see LockTable."""
        return await self._changed_row(self._statements.take_over(seen, owner, term, duration_ms))

    async def renew(self, owner: str, term: int, term_duration: int) -> RowRenewal:
        """Compare and set on owner, term, term_duration and not expired; see LockTable."""
        renewed, newest = await self._run(self._statements.renew(owner, term, term_duration))
        return RowRenewal(renewed.changed == 1, _position(newest))

    async def release(self, owner: str, term: int, kept_for: str = "", wait_ms: int = 0) -> bool:
        """Set the owner to nobody; see LockTable."""
        return await self._changed_row(self._statements.release(owner, term, kept_for, wait_ms))

    async def release_of(self, seen: Row) -> bool:
        """Set the owner to nobody if the row is as it was seen. For an owner that is dead: a command asks for it."""
        return await self._changed_row(self._statements.release_of(seen))

    async def _changed_row(self, statements: Batch) -> bool:
        return (await self._run(statements))[-1].changed == 1

    # --- the meta state ----------------------------------------------------------------------------------------------

    async def index(self, since: int) -> Sequence[StoredEntry]:
        """The values that changed since a revision, without their bytes; see LockTable."""
        return _entries((await self._run(self._statements.index(since)))[-1])

    async def settled_index(self, since: int) -> Sequence[StoredEntry]:
        """The index, once the row is free; see LockTable."""
        return _entries((await self._run(self._statements.settled_index(since)))[-2])

    async def page(self, after: int, up_to: int | None) -> Sequence[Change]:
        """A part of the meta state; see LockTable."""
        return [_change(record) for record in (await self._run(self._statements.page(after, up_to)))[-1].rows]

    async def highest_term(self) -> int:
        """The highest term in the meta state; see LockTable."""
        return _number((await self._run(self._statements.highest_term()))[-1].rows[0][0])

    async def write(
        self, owner: str, term: int, key: str, value: bytes, expected_version: int | None, after: Position
    ) -> Change:
        """Store in a transaction that holds the row; see LockTable."""
        _, row, newest, stored = await self._run(self._statements.hold(key))
        try:
            self._check_holder(row.rows, owner, term, key)
            at = self._next(_position(newest), term, key, after)
            version = _next_version(stored.rows, key, expected_version)
        except ElectionError:
            # If this does not reach the database, its connection ends, and with it the transaction.
            with contextlib.suppress(TransportError):
                await self._run(self._statements.roll_back())
            raise
        await self._run(self._statements.put(key, value, version, at))
        return at.revision, key, Versioned(value, version, term)

    def _check_holder(self, rows: Sequence[Record], owner: str, term: int, key: str) -> None:
        if not rows:
            raise NotLeader(f"write to {key!r} under term {term}: {self._place} has no row for {self._tables.key}")
        held_by, held_term = str(rows[0][0]), _number(rows[0][1])
        holder = held_by.rpartition("#")[0] or "nobody"
        if held_term != term:
            raise StaleTerm(
                f"write to {key!r} under term {term}: the term is {held_term} now, held by {holder} ({self._place})"
            )
        if held_by != owner:
            raise NotLeader(f"write to {key!r} under term {term}: {holder} holds the row ({self._place})")

    def _next(self, newest: Position, term: int, key: str, after: Position) -> Position:
        """Where the change comes that is being made. A database that was set back is not written to."""
        if newest.revision < after.revision or (newest.revision == after.revision and newest != after):
            raise NotLeader(
                f"write to {key!r} under term {term}: {self._place} was set back: it has change {newest.revision} of "
                f"term {newest.term}, this node has {after.revision} of term {after.term}"
            )
        return Position(newest.revision + 1, term)

    async def begin_history(self, history: str) -> None:
        """Name the history; see LockTable."""
        await self._run(self._statements.name_history(history))

    # --- the end -----------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """End the connection in order."""
        await self._connection.close(self._timing.timeout)

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
        longest, seconds = QUEUE_SECONDS + timing.timeout, connect_seconds(timing.timeout, dialect.hosts(dsn))
        self._connection = DatabaseConnection(
            "slotreeve-notifier",
            lambda: dialect.connect(dsn, longest, 3 * longest, seconds),
            dialect.place(dsn),
            clock,
            seconds,
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


def _number(value: object) -> int:
    """A number of the database; 0 for none."""
    return 0 if value is None else int(cast(int, value))


def _position(newest: SqlResult) -> Position:
    return Position(*(_number(part) for part in newest.rows[0]))


def _next_version(rows: Sequence[Record], key: str, expected_version: int | None) -> int:
    """The version of the key that is being made. Raises VersionConflict."""
    version = _number(rows[0][0]) if rows else 0
    if expected_version is not None and version != expected_version:
        raise VersionConflict(f"write to {key!r}: version {version} is stored, the writer expected {expected_version}")
    return version + 1


def _entries(result: SqlResult) -> Sequence[StoredEntry]:
    return [
        StoredEntry(_number(revision), bytes(cast(bytes, key)).decode(), _number(version), _number(term), _number(size))
        for revision, key, version, term, size in result.rows
    ]


def _change(record: Record) -> Change:
    revision, key, value, version, term = record
    held = Versioned(bytes(cast(bytes, value)), _number(version), _number(term))
    return _number(revision), bytes(cast(bytes, key)).decode(), held
