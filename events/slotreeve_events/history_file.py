"""One file of a server's history: an SQLite database that stands alone.

Each service that changes in it begins with its whole state, so that no question needs an earlier file, and an old file
is removed as a whole. All methods block; they are called in one thread at a time, away from the event loop.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from slotreeve.model.publisher import Publisher
from slotreeve_protocol.history_messages import RecordedChange, ServiceChange

from slotreeve_events.changed_services import ServiceRow

SUFFIX = ".db"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS services (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS changes (
    service INTEGER NOT NULL, at INTEGER NOT NULL, slot INTEGER NOT NULL, epoch INTEGER NOT NULL,
    leads INTEGER NOT NULL, base INTEGER, body BLOB NOT NULL,
    PRIMARY KEY (service, at)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS states (
    service INTEGER NOT NULL, at INTEGER NOT NULL, part INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (service, at, part));
CREATE INDEX IF NOT EXISTS bases ON changes (service, at) WHERE base IS NOT NULL;
CREATE INDEX IF NOT EXISTS times ON changes (at);
CREATE TABLE IF NOT EXISTS events (
    place INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind TEXT NOT NULL, body BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS event_times ON events (at);
CREATE TABLE IF NOT EXISTS gaps (since INTEGER NOT NULL, until INTEGER NOT NULL, slots TEXT);
"""
_CACHE_KIB = 4096
_PAGE_BYTES = 4096
_WAL_PAGES = 1000
_UNKNOWN = -1
"""Of a row that stands alone, instead of the number of pieces in ``states``: its state is not known, or was too large
to be written."""
_LOCKED_SECONDS = 0.5
"""Another process may hold the file for so long."""
PIECE = 500
"""So many records of a state are encoded and decoded at a time: other threads wait meanwhile."""
_EVENTS = """
SELECT place, at, kind, body FROM events WHERE place > ? AND place < ? AND at >= ? AND at < ?
    AND (? = '[]' OR kind IN (SELECT value FROM json_each(?))) ORDER BY place """
_OLDEST_FIRST, _NEWEST_FIRST = _EVENTS + "ASC", _EVENTS + "DESC"


class StoredEvent(msgspec.Struct, frozen=True):
    """An event as it lies on the disk. ``place``: unique in the history of a server; later ones are greater."""

    place: int
    at_ms: int
    kind: str
    body: bytes


Missed = tuple[int, int, frozenset[int] | None]


class FoundState(NamedTuple):
    """A state of a service: when its last change was, or the next one, and under which leader epoch. ``records``: None
    if it is not known, or was too large to be written."""

    at_ms: int
    slot: int
    leader_epoch: int
    records: list[Publisher] | None


class HistoryFile:
    """A file that is written, or only read.

    Args:
        begins_ms: wall clock of its begin, which is in its name.
        most_bytes: it is full then; one write adds no more than that, and a few fields of each change.

    Raises:
        sqlite3.Error: it is not a history, is damaged, or the disk is full. So do all methods.
    """

    def __init__(self, path: Path, begins_ms: int, most_bytes: int = 0) -> None:
        self.path, self.begins_ms, self._most_bytes = path, begins_ms, most_bytes
        # The id of a service, and where its last row stands.
        self._services: dict[str, tuple[int, int]] = {}
        mode = "rwc" if most_bytes else "ro"
        self._database = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            _LOCKED_SECONDS,
            uri=True,
            check_same_thread=False,
            isolation_level=None,
        )
        if most_bytes:
            wal_pages = min(_WAL_PAGES, most_bytes // (4 * _PAGE_BYTES))
            try:
                self._database.executescript(
                    f"PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-{_CACHE_KIB};"
                    f"PRAGMA wal_autocheckpoint={wal_pages}; PRAGMA journal_size_limit={wal_pages * _PAGE_BYTES};"
                    f"BEGIN; {_SCHEMA} COMMIT"
                )
            except BaseException:
                self._database.close()
                raise

    def close(self) -> None:
        """Close it. What was written by a writer goes into the one file, if nobody else reads there."""
        try:
            if self._most_bytes:
                self._database.execute("PRAGMA journal_mode=DELETE")
        finally:
            self._database.close()

    @property
    def last_ms(self) -> int:
        """When the last thing that it holds happened; when it begins if it holds nothing."""
        row = self._database.execute(
            "SELECT max(coalesce((SELECT max(at) FROM changes), 0), coalesce((SELECT max(at) FROM events), 0))"
        ).fetchone()
        return max(int(row[0]), self.begins_ms)

    @property
    def last_place(self) -> int:
        """The place of its last event; 0 if it has none."""
        return int(self._database.execute("SELECT coalesce(max(place), 0) FROM events").fetchone()[0])

    def write(
        self,
        now_ms: int,
        rows: Iterable[ServiceRow],
        events: Sequence[StoredEvent],
        gaps: Sequence[Missed] = (),
    ) -> None:
        """Add rows, events, and gaps, all or none. A row stands at the time of its first change, behind the rows of its
        service.

        Args:
            now_ms: later than at the last write.
            gaps: from when to when changes were not written, of all services or in these slots.
        """
        self._database.execute("BEGIN")
        try:
            self._add(now_ms, rows)
            self._database.executemany(
                "INSERT INTO events VALUES (?, ?, ?, ?)", [(e.place, e.at_ms, e.kind, e.body) for e in events]
            )
            self._database.executemany(
                "INSERT INTO gaps VALUES (?, ?, ?)",
                [(g[0], g[1], None if g[2] is None else msgspec.json.encode(sorted(g[2])).decode()) for g in gaps],
            )
            self._database.execute("COMMIT")
        except BaseException:
            self._services.clear()
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise

    def _add(self, now_ms: int, rows: Iterable[ServiceRow]) -> None:
        states: list[tuple[int, int, int, bytes]] = []
        changes: list[tuple[int, int, int, int, bool, int | None, bytes]] = []
        left = self._most_bytes
        for row in rows:
            service, last_ms = self._services.get(row.data_info_id) or self._service(row.data_info_id)
            at_ms = min(now_ms, max(self.begins_ms, last_ms + 1, min(change.at_ms for change in row.changes)))
            self._services[row.data_info_id] = service, at_ms
            encoded = _encoded(row, left)
            if encoded is None:
                cut = [msgspec.structs.replace(change, data=()) for change in row.changes]
                changes.append((service, at_ms, row.slot, row.leader_epoch, row.leads, _UNKNOWN, _encode(cut)))
                continue
            body, pieces = encoded
            left -= len(body)
            base = None if row.records is None else len(pieces) if row.is_complete else _UNKNOWN
            changes.append((service, at_ms, row.slot, row.leader_epoch, row.leads, base, body))
            for part, piece in enumerate(pieces):
                left -= len(piece)
                states.append((service, at_ms, part, piece))
        self._database.executemany("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?)", changes)
        self._database.executemany("INSERT INTO states VALUES (?, ?, ?, ?)", states)

    def gaps(self) -> list[Missed]:
        """When changes were not written, of all services or in these slots."""
        return [
            (since, until, None if slots is None else frozenset(msgspec.json.decode(slots, type=list[int])))
            for since, until, slots in self._database.execute("SELECT since, until, slots FROM gaps")
        ]

    def _service(self, name: str) -> tuple[int, int]:
        known = self._find(name)
        if known is None:
            return self._database.execute("INSERT INTO services (name) VALUES (?)", (name,)).lastrowid or 0, 0
        last = self._database.execute("SELECT coalesce(max(at), 0) FROM changes WHERE service = ?", (known,))
        return known, int(last.fetchone()[0])

    def _find(self, name: str) -> int | None:
        row = self._database.execute("SELECT id FROM services WHERE name = ?", (name,)).fetchone()
        return None if row is None else int(row[0])

    # --- questions ---------------------------------------------------------------------------------------------------

    def state(self, name: str, at_ms: int) -> FoundState | None:
        """A service after its last change until ``at_ms``; None if it did not change here until then."""
        service = self._find(name)
        row = self._database.execute(
            "SELECT at, slot, epoch, base FROM changes WHERE service = ? AND base IS NOT NULL AND at <= ? "
            "ORDER BY at DESC LIMIT 1",
            (service, at_ms),
        ).fetchone()
        if row is None:
            return None
        base, slot, epoch, pieces = row
        records = self._records(service, base, pieces)
        since = base
        for at, leader_epoch, body in self._database.execute(
            "SELECT at, epoch, body FROM changes WHERE service = ? AND at BETWEEN ? AND ? ORDER BY at",
            (service, base, at_ms),
        ):
            since, epoch = max(at, since), leader_epoch
            for change in _changes(body):
                if change.at_ms > at_ms:
                    continue
                since = max(since, change.at_ms)
                if change.is_gone:
                    records.pop(change.register_id, None)
                else:
                    records[change.register_id] = _record(name, change)
        return FoundState(since, slot, epoch, None if pieces == _UNKNOWN else list(records.values()))

    def before_next(self, name: str, after_ms: int) -> FoundState | None:
        """A service before its first change after ``after_ms``; None if it did not change here. Without records where
        that change goes on from another one."""
        service = self._find(name)
        row = self._database.execute(
            "SELECT at, slot, epoch, base FROM changes WHERE service = ? AND at > ? ORDER BY at LIMIT 1",
            (service, after_ms),
        ).fetchone()
        if row is None:
            return None
        at, slot, epoch, pieces = row
        is_unknown = pieces is None or pieces == _UNKNOWN
        return FoundState(at, slot, epoch, None if is_unknown else list(self._records(service, at, pieces).values()))

    def _records(self, service: int | None, at_ms: int, pieces: int) -> dict[str, Publisher]:
        found: dict[str, Publisher] = {}
        read = 0
        for (piece,) in self._database.execute(
            "SELECT body FROM states WHERE service = ? AND at = ? ORDER BY part", (service, at_ms)
        ):
            found.update((record.register_id, record) for record in _state(piece))
            read += 1
        if read != max(0, pieces):
            raise sqlite3.DatabaseError(f"malformed: a state of {pieces} pieces has {read}")
        return found

    def changes(self, name: str, since_ms: int, until_ms: int) -> Iterator[ServiceChange]:
        """The changes of a service, or of all where ``name`` is empty, the newest first."""
        columns = "SELECT services.name, at, epoch, leads, body FROM changes JOIN services ON services.id = service"
        if name:
            service = self._find(name)
            found = self._database.execute(
                f"{columns} WHERE service = ? AND at >= ? AND at < ? ORDER BY at DESC", (service, since_ms, until_ms)
            )
        else:
            found = self._database.execute(
                f"{columns} WHERE at >= ? AND at < ? ORDER BY at DESC, service", (since_ms, until_ms)
            )
        for service_name, at, epoch, leads, body in found:
            yield ServiceChange(service_name, at, epoch, bool(leads), _changes(body))

    def events(
        self, since_ms: int, until_ms: int, kinds: Sequence[str], after: int, before: int, *, newest_first: bool
    ) -> Iterator[StoredEvent]:
        """The events at places between ``after`` and ``before``, of these kinds, or of all where none is given."""
        wanted = msgspec.json.encode(list(kinds)).decode()
        found = self._database.execute(
            _NEWEST_FIRST if newest_first else _OLDEST_FIRST, (after, before, since_ms, until_ms, wanted, wanted)
        )
        return (StoredEvent(*row) for row in found)


def _encoded(row: ServiceRow, most_bytes: int) -> tuple[bytes, Sequence[bytes]] | None:
    """The changes, and the state in pieces; None if they are larger than ``most_bytes``."""
    size = 0
    for change in row.changes:
        for part in change.data:
            size += len(part)
    if size > most_bytes:
        return None
    body = _encode(row.changes)
    base = row.base
    if base is None:
        return body, ()
    left = most_bytes - len(body)
    pieces = list[bytes]()
    for start in range(0, len(base), PIECE):
        piece = base[start : start + PIECE]
        if sum(len(part) for record in piece for part in record.data or ()) > left:
            return None
        pieces.append(_encode(piece))
        left -= len(pieces[-1])
    return body, pieces


def _record(name: str, change: RecordedChange) -> Publisher:
    return Publisher(change.register_id, name, change.version, 0, change.session, change.zone, change.data)


_encode = msgspec.msgpack.Encoder().encode
_state = msgspec.msgpack.Decoder(list[Publisher]).decode
_changes = msgspec.msgpack.Decoder(list[RecordedChange]).decode
