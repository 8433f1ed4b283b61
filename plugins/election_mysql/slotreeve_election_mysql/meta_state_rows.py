"""The rows of the meta state in a database: the statements of a write, of a read, and of a new history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from slotreeve.errors import NotLeader, StaleTerm, VersionConflict
from slotreeve.ports import Versioned

from slotreeve_election_mysql.connection import Session
from slotreeve_election_mysql.dialect import Dialect, Tables
from slotreeve_election_mysql.table import Change

KEY = "data_center = %s AND lock_name = %s"
HISTORY = b"\x00history"
"""Key of the row that names the history. It is no change of the meta state: its revision is 0."""


class MetaStateRows:
    """One cluster's rows. Every method runs in the thread of the session; those of a write within one transaction."""

    def __init__(self, dialect: Dialect, tables: Tables, place: str) -> None:
        self._dialect, self._tables, self._place = dialect, tables, place

    def changes(self, session: Session, after: int) -> Sequence[Change]:
        """The newest change of every key that changed after a revision, by revision."""
        statement = (
            f"SELECT revision, state_key, state_value, version, term FROM {self._tables.state_table} "
            f"WHERE {KEY} AND revision > %s ORDER BY revision"
        )
        return [_change(record) for record in session.query(statement, (*self._tables.key, after))]

    def hold_lock(self, session: Session, owner: str, term: int, key: str) -> None:
        """Lock the row until the end of the transaction, so that no take-over comes between the check and the write."""
        rows = session.query(
            f"SELECT owner, term FROM {self._tables.lock_table} WHERE {KEY} FOR UPDATE", self._tables.key
        )
        if not rows:
            raise NotLeader(f"write to {key!r} under term {term}: {self._place} has no row for {self._tables.key}")
        held_by, held_term = str(rows[0][0]), int(cast(int, rows[0][1]))
        holder = held_by.rpartition("#")[0] or "nobody"
        if held_term != term:
            raise StaleTerm(
                f"write to {key!r} under term {term}: the term is {held_term} now, held by {holder} ({self._place})"
            )
        if held_by != owner:
            raise NotLeader(f"write to {key!r} under term {term}: {holder} holds the row ({self._place})")

    def next_version(self, session: Session, key: str, expected_version: int | None) -> int:
        """The version of the key that is being made. Raises VersionConflict."""
        rows = session.query(
            f"SELECT version FROM {self._tables.state_table} WHERE {KEY} AND state_key = %s FOR UPDATE",
            (*self._tables.key, key.encode()),
        )
        version = number(rows) if rows else 0
        if expected_version is not None and version != expected_version:
            raise VersionConflict(
                f"write to {key!r}: version {version} is stored, the writer expected {expected_version}"
            )
        return version + 1

    def next_revision(self, session: Session, term: int, key: str, after: int) -> int:
        """The revision of the change that is being made. A database that was set back is not written to."""
        statement = f"SELECT COALESCE(MAX(revision), 0) FROM {self._tables.state_table} WHERE {KEY}"
        newest = number(session.query(statement, self._tables.key))
        if newest < after:
            raise NotLeader(
                f"write to {key!r} under term {term}: {self._place} was set back: it has change {newest}, this node "
                f"has {after}"
            )
        return newest + 1

    def put(self, session: Session, term: int, key: str, value: bytes, version: int, revision: int) -> None:
        """Store the change."""
        state, now = self._tables.state_table, self._dialect.now
        if version == 1:
            session.execute(
                f"INSERT INTO {state} (data_center, lock_name, state_key, state_value, version, term, revision, "
                f"gmt_modified) VALUES (%s, %s, %s, %s, %s, %s, %s, {now})",
                (*self._tables.key, key.encode(), value, version, term, revision),
            )
        else:
            session.execute(
                f"UPDATE {state} SET state_value = %s, version = %s, term = %s, revision = %s, gmt_modified = {now} "
                f"WHERE {KEY} AND state_key = %s",
                (value, version, term, revision, *self._tables.key, key.encode()),
            )

    def name_history(self, session: Session, history: str) -> None:
        """Make this the name of the history, in a transaction of its own."""
        state, now, key = self._tables.state_table, self._dialect.now, (*self._tables.key, HISTORY)
        with session.transaction():
            done = session.execute(
                f"UPDATE {state} SET state_value = %s, gmt_modified = {now} WHERE {KEY} AND state_key = %s",
                (history.encode(), *key),
            )
            if not done:
                session.execute(
                    f"INSERT INTO {state} (data_center, lock_name, state_key, state_value, version, term, revision, "
                    f"gmt_modified) VALUES (%s, %s, %s, %s, 1, 0, 0, {now})",
                    (*key, history.encode()),
                )


def number(rows: Sequence[Sequence[object]]) -> int:
    """The one number that a query returned."""
    return int(cast(int, rows[0][0]))


def _change(record: Sequence[object]) -> Change:
    revision, key, value, version, term = record
    held = Versioned(bytes(cast(bytes, value)), int(cast(int, version)), int(cast(int, term)))
    return int(cast(int, revision)), bytes(cast(bytes, key)).decode(), held
