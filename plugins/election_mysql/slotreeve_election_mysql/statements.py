"""Every SQL statement of the lock election, as text and parameters. Pure: a golden file shows them for both databases.

What stands in one tuple is sent at once, and takes one round trip.
"""

from __future__ import annotations

from slotreeve_election_mysql.connection import Parameter, SqlStatement
from slotreeve_election_mysql.dialect import Dialect, Tables
from slotreeve_election_mysql.table import KEPT_FOR, Position, Row, reservation

KEY = "data_center = %s AND lock_name = %s"
HISTORY = b"\x00history"
"""Key of the row that names the history. It is no change of the meta state: its revision is 0."""
NOBODY = "owner = '', duration = 0"
"""Assignments that leave the row to the node that looks next."""
Batch = tuple[SqlStatement, ...]


class Statements:
    """The statements for one cluster's rows."""

    def __init__(self, dialect: Dialect, tables: Tables) -> None:
        self._dialect, self._tables = dialect, tables

    # --- rights ------------------------------------------------------------------------------------------------------

    def check_reading(self) -> Batch:
        """What the database refuses to an account without the right, or without the tables."""
        lock, state = self._tables.lock_table, self._tables.state_table
        return (
            SqlStatement(f"SELECT owner, duration, term, term_duration FROM {lock} WHERE 1 = 0"),
            SqlStatement(f"SELECT state_value, version, term, revision FROM {state} WHERE 1 = 0"),
        )

    def check_writing(self) -> Batch:
        """What changes nothing, but is refused to an account without the right."""
        return tuple(
            SqlStatement(text)
            for table, column in ((self._tables.lock_table, "owner"), (self._tables.state_table, "state_key"))
            for text in (
                f"UPDATE {table} SET {column} = {column} WHERE 1 = 0",
                f"INSERT INTO {table} SELECT * FROM {table} WHERE 1 = 0",
            )
        )

    # --- the row -----------------------------------------------------------------------------------------------------

    def look(self) -> Batch:
        """The row, the newest change of the meta state, and the name of its history."""
        key = self._tables.key
        return (
            self._of_row(
                f"SELECT owner, term, term_duration, {self._dialect.remaining}, ({self._newest('revision')}), "
                f"({self._newest('term')}), (SELECT state_value FROM {self._tables.state_table} WHERE {KEY} "
                "AND state_key = %s)",
                (*key, *key, *key, HISTORY),
            ),
        )

    def insert(self, term: int, wait_ms: int) -> Batch:
        """Make the row, owned by nobody, if there is none."""
        begin, end = self._dialect.insert_new
        now = self._dialect.now
        text = (
            f"{begin} {self._tables.lock_table} "
            "(data_center, lock_name, owner, duration, term, term_duration, gmt_create, gmt_modified) "
            f"VALUES (%s, %s, '', %s, %s, 0, {now}, {now}) {end}"
        )
        return (SqlStatement(text.strip(), (*self._tables.key, wait_ms, term)),)

    def take_over(self, seen: Row, owner: str, term: int, duration_ms: int) -> Batch:
        """Compare and set on owner, term, term_duration, and expiry unless the row is kept for this node."""
        return self._change_row(
            f"owner = %s, duration = %s, term = %s, term_duration = 0, gmt_modified = {self._dialect.now}",
            (owner, duration_ms, term),
            f"owner = %s AND term = %s AND term_duration = %s AND ({self._dialect.remaining} <= 0 OR owner = %s)",
            (seen.owner, seen.term, seen.term_duration, reservation(owner)),
        )

    def renew(self, owner: str, term: int, term_duration: int) -> Batch:
        """Compare and set on owner, term, term_duration and not expired; then read the newest change."""
        renewal = self._change_row(
            f"term_duration = term_duration + 1, gmt_modified = {self._dialect.now}",
            (),
            f"owner = %s AND term = %s AND term_duration = %s AND {self._dialect.remaining} > 0",
            (owner, term, term_duration),
        )
        return (*renewal, self._newest_change())

    def release(self, owner: str, term: int, kept_for: str = "", wait_ms: int = 0) -> Batch:
        """Set the owner to nobody, or keep the row for a node, if the row has this owner and term."""
        owned_by, values = ("owner = %s, duration = %s", (KEPT_FOR + kept_for, wait_ms)) if kept_for else (NOBODY, ())
        assignments = f"{owned_by}, gmt_modified = {self._dialect.now}"
        return self._change_row(assignments, values, "owner = %s AND term = %s", (owner, term))

    def release_of(self, seen: Row) -> Batch:
        """Set the owner to nobody, if the row is as it was seen: no renewal came since."""
        return self._change_row(
            f"{NOBODY}, gmt_modified = {self._dialect.now}",
            (),
            "owner = %s AND term = %s AND term_duration = %s",
            (seen.owner, seen.term, seen.term_duration),
        )

    def highest_term(self) -> Batch:
        """The highest term under which anything in the meta state was written."""
        text = f"SELECT COALESCE(MAX(term), 0) FROM {self._tables.state_table} WHERE {KEY}"
        return (SqlStatement(text, self._tables.key),)

    # --- reading the meta state --------------------------------------------------------------------------------------

    def index(self, since: int) -> Batch:
        """Revision, key, version, term and size of every value with a change from this revision on, by revision."""
        text = (
            f"SELECT revision, state_key, version, term, OCTET_LENGTH(state_value) FROM {self._tables.state_table} "
            f"WHERE {KEY} AND revision >= %s AND revision > 0 ORDER BY revision"
        )
        return (SqlStatement(text, (*self._tables.key, since)),)

    def settled_index(self, since: int) -> Batch:
        """The index, once the row is free. Each statement of the transaction reads what is committed by then."""
        return (SqlStatement("BEGIN"), self._held_row("owner"), *self.index(since), *self.roll_back())

    def page(self, after: int, up_to: int | None) -> Batch:
        """The newest change of every key that changed after one revision and not after another one, by revision."""
        until, bounds = ("", (after,)) if up_to is None else (" AND revision <= %s", (after, up_to))
        text = (
            f"SELECT revision, state_key, state_value, version, term FROM {self._tables.state_table} "
            f"WHERE {KEY} AND revision > %s{until} ORDER BY revision"
        )
        return (SqlStatement(text, (*self._tables.key, *bounds)),)

    # --- writing it --------------------------------------------------------------------------------------------------

    def hold(self, key: str) -> Batch:
        """Begin a write: lock the row, so that no take-over comes between the check and the write, and read what is
        checked: the row, the newest change, and the key's version."""
        text = f"SELECT version FROM {self._tables.state_table} WHERE {KEY} AND state_key = %s FOR UPDATE"
        return (
            SqlStatement("BEGIN"),
            self._held_row("owner, term"),
            self._newest_change(),
            SqlStatement(text, (*self._tables.key, key.encode())),
        )

    def put(self, key: str, value: bytes, version: int, at: Position) -> Batch:
        """Store the change, and commit."""
        state, now, blob = self._tables.state_table, self._dialect.now, self._dialect.blob
        stored = self._dialect.as_blob(value)
        if version == 1:
            change = SqlStatement(
                f"INSERT INTO {state} (data_center, lock_name, state_key, state_value, version, term, revision, "
                f"gmt_modified) VALUES (%s, %s, %s, {blob}, %s, %s, %s, {now})",
                (*self._tables.key, key.encode(), stored, version, at.term, at.revision),
            )
        else:
            change = SqlStatement(
                f"UPDATE {state} SET state_value = {blob}, version = %s, term = %s, revision = %s, "
                f"gmt_modified = {now} WHERE {KEY} AND state_key = %s",
                (stored, version, at.term, at.revision, *self._tables.key, key.encode()),
            )
        return (change, SqlStatement("COMMIT"))

    def roll_back(self) -> Batch:
        """End a write that is refused."""
        return (SqlStatement("ROLLBACK"),)

    def name_history(self, history: str) -> Batch:
        """Make this the name of the history."""
        state, now, key = self._tables.state_table, self._dialect.now, (*self._tables.key, HISTORY)
        begin, end = self._dialect.insert_new
        insert = (
            f"{begin} {state} (data_center, lock_name, state_key, state_value, version, term, revision, gmt_modified) "
            f"VALUES (%s, %s, %s, %s, 1, 0, 0, {now}) {end}"
        )
        update = f"UPDATE {state} SET state_value = %s, gmt_modified = {now} WHERE {KEY} AND state_key = %s"
        return (
            SqlStatement(insert.strip(), (*key, history.encode())),
            SqlStatement(update, (history.encode(), *key)),
        )

    # --- pieces ------------------------------------------------------------------------------------------------------

    def _newest(self, column: str) -> str:
        state = self._tables.state_table
        return f"SELECT {column} FROM {state} WHERE {KEY} AND revision > 0 ORDER BY revision DESC LIMIT 1"

    def _newest_change(self) -> SqlStatement:
        text = f"SELECT ({self._newest('revision')}), ({self._newest('term')})"
        return SqlStatement(text, (*self._tables.key, *self._tables.key))

    def _held_row(self, columns: str) -> SqlStatement:
        return self._of_row(f"SELECT {columns}", (), " FOR UPDATE")

    def _of_row(self, select: str, parameters: tuple[Parameter, ...], end: str = "") -> SqlStatement:
        text = f"{select} FROM {self._tables.lock_table} WHERE {KEY}{end}"
        return SqlStatement(text, (*parameters, *self._tables.key))

    def _change_row(
        self, assignments: str, values: tuple[str | int, ...], condition: str, seen: tuple[str | int, ...]
    ) -> Batch:
        text = f"UPDATE {self._tables.lock_table} SET {assignments} WHERE {KEY} AND {condition}"
        return (SqlStatement(text, (*values, *self._tables.key, *seen)),)
