"""One file of a server's history: an SQLite database that stands alone.

Each service that changes in it begins with its whole state, so that no question needs an earlier file, and an old file
is removed as a whole. All methods block; they are called in one thread at a time, away from the event loop.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from slotreeve.model.publisher import Publisher
from slotreeve_protocol.history_messages import RecordedChange, ServiceChange

from slotreeve_events.changed_services import ServiceRow

SUFFIX = ".db"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS services (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS changes (
    service INTEGER NOT NULL, at INTEGER NOT NULL, epoch INTEGER NOT NULL, leads INTEGER NOT NULL, base BLOB,
    body BLOB NOT NULL,
    PRIMARY KEY (service, at)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS bases ON changes (service, at) WHERE base IS NOT NULL;
CREATE INDEX IF NOT EXISTS times ON changes (at);
CREATE TABLE IF NOT EXISTS events (
    place INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind TEXT NOT NULL, body BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS event_times ON events (at);
CREATE TABLE IF NOT EXISTS gaps (since INTEGER NOT NULL, until INTEGER NOT NULL);
"""
_CACHE_KIB = 4096
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


class HistoryFile:
    """A file that is written, or only read.

    Args:
        begins_ms: wall clock of its begin, which is in its name.

    Raises:
        sqlite3.Error: it is not a history, is damaged, or the disk is full. So do all methods.
    """

    def __init__(self, path: Path, begins_ms: int, *, is_written: bool = False) -> None:
        self.path, self.begins_ms = path, begins_ms
        self._services: dict[str, int] = {}
        if is_written:
            self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._database.executescript(
                f"PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-{_CACHE_KIB}; {_SCHEMA}"
            )
        else:
            self._database = sqlite3.connect(
                f"file:{path}?mode=ro", uri=True, check_same_thread=False, isolation_level=None
            )

    def close(self) -> None:
        """Close it. What was written by a writer goes into the one file."""
        self._database.close()

    @property
    def size(self) -> int:
        """Bytes of the database, without those that the disk has not got yet."""
        pages, page = (self._database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        return int(pages * page)

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

    def write(self, now_ms: int, after_ms: int, rows: Iterable[ServiceRow], events: Sequence[StoredEvent]) -> None:
        """Add rows and events, all or none. A row stands at the time of its first change, later than ``after_ms``, the
        time of the last write, and not later than ``now_ms``."""
        encode = msgspec.msgpack.encode
        found = [
            (
                self._service(row.data_info_id),
                min(now_ms, max(after_ms + 1, min(change.at_ms for change in row.changes))),
                row.leader_epoch,
                row.leads,
                None if row.base is None else encode(row.base),
                encode(row.changes),
            )
            for row in rows
        ]
        self._database.execute("BEGIN")
        try:
            self._database.executemany("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?)", found)
            self._database.executemany(
                "INSERT INTO events VALUES (?, ?, ?, ?)", [(e.place, e.at_ms, e.kind, e.body) for e in events]
            )
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise

    def add_gap(self, since_ms: int, until_ms: int) -> None:
        """Changes of services between these times were not written."""
        self._database.execute("INSERT INTO gaps VALUES (?, ?)", (since_ms, until_ms))

    def gaps(self) -> list[tuple[int, int]]:
        """When changes were not written."""
        return [(since, until) for since, until in self._database.execute("SELECT since, until FROM gaps")]

    def _service(self, name: str) -> int:
        known = self._services.get(name)
        if known is None:
            self._database.execute("INSERT OR IGNORE INTO services (name) VALUES (?)", (name,))
            known = self._services[name] = self._find(name) or 0
        return known

    def _find(self, name: str) -> int | None:
        row = self._database.execute("SELECT id FROM services WHERE name = ?", (name,)).fetchone()
        return None if row is None else int(row[0])

    # --- questions ---------------------------------------------------------------------------------------------------

    def state(self, name: str, at_ms: int) -> tuple[int, int, list[Publisher]] | None:
        """The time and the leader epoch of the last change of a service until ``at_ms``, and its records after it; None
        if it did not change here until then."""
        service = self._find(name)
        if service is None:
            return None
        base = self._database.execute(
            "SELECT max(at) FROM changes WHERE service = ? AND base IS NOT NULL AND at <= ?", (service, at_ms)
        ).fetchone()[0]
        if base is None:
            return None
        records: dict[str, Publisher] = {}
        since = epoch = 0
        for at, leader_epoch, state, body in self._database.execute(
            "SELECT at, epoch, base, body FROM changes WHERE service = ? AND at BETWEEN ? AND ? ORDER BY at",
            (service, base, at_ms),
        ):
            since, epoch = max(at, since), leader_epoch
            if state is not None:
                records = {record.register_id: record for record in _records(state)}
            for change in _changes(body):
                if change.at_ms > at_ms:
                    continue
                since = max(since, change.at_ms)
                if change.is_gone:
                    records.pop(change.register_id, None)
                else:
                    records[change.register_id] = _record(name, change)
        return since, epoch, list(records.values())

    def first_base(self, name: str, after_ms: int) -> tuple[int, int, list[Publisher]] | None:
        """The time and the leader epoch of the first change of a service after ``after_ms``, and its records before
        it; None if it did not change here."""
        service = self._find(name)
        row = self._database.execute(
            "SELECT at, epoch, base FROM changes WHERE service = ? AND base IS NOT NULL AND at > ? ORDER BY at LIMIT 1",
            (service, after_ms),
        ).fetchone()
        return None if row is None else (row[0], row[1], _records(row[2]))

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


def _record(name: str, change: RecordedChange) -> Publisher:
    return Publisher(change.register_id, name, change.version, 0, change.session, change.zone, change.data)


_record_decoder = msgspec.msgpack.Decoder(list[Publisher])
_change_decoder = msgspec.msgpack.Decoder(list[RecordedChange])
_records, _changes = _record_decoder.decode, _change_decoder.decode
