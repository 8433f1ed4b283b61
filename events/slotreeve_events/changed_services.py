"""Which registrations have changed since the last write to the history. Pure.

A change costs two look-ups here. What changes again before it is written is one entry, with the newest state and how
often it ended. Under a load of more changes than can be written there is a gap: they are only counted, which costs
nothing, until they have become few again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from slotreeve.model.publisher import Publisher
from slotreeve_protocol.history_messages import RecordedChange

BASE_AGAIN = 1_000
"""After so many changes of a service, or twice as many as it has records, its whole state is written again, so that a
question reads about as much."""


Anchor = tuple[int, bool, float, bool]


class HeldRecords(NamedTuple):
    """What a server holds of a slot.

    Attributes:
        services: the live records, by data info id and register id. They are looked at when a change is noted, and
            again when the rows are made.
        leader_epoch: of the slot.
        leads: this server leads the slot; else it follows.
        since: since when it has heard of every change, on any clock of its own.
        is_complete: these are all records of the slot; a new leader gathers them first.
    """

    services: Mapping[str, Mapping[str, Publisher]]
    leader_epoch: int
    leads: bool = True
    since: float = 0.0
    is_complete: bool = True
    slot: int = -1

    @property
    def anchor(self) -> Anchor:
        """Rows of one service under the same anchor go on from each other."""
        return self.leader_epoch, self.leads, self.since, self.is_complete


_NOWHERE = (0, False, 0.0, False)


@dataclass(slots=True)
class _Entry:
    """A registration that was touched. ``old``: its record before; None if there was none. ``sent``: the record that
    came last."""

    old: Publisher | None
    sent: Publisher | None
    at_ms: int
    reason: str = ""
    ends: int = 0


@dataclass(slots=True)
class _Touched:
    held: HeldRecords
    entries: dict[str, _Entry] = field(default_factory=dict)


@dataclass(slots=True)
class ServiceRow:
    """What is written of one service at a time.

    Attributes:
        changes: of registrations.
        is_complete: the records of the service are known; else only these changes are.
        records: all its records, where a reader may begin with this row; else None. ``before``: those of them that were
            others before these changes, or none, by register id.
    """

    data_info_id: str
    slot: int
    leader_epoch: int
    leads: bool
    is_complete: bool
    changes: list[RecordedChange]
    records: list[Publisher] | None = None
    before: Mapping[str, Publisher | None] = field(default_factory=dict)

    @property
    def base(self) -> list[Publisher] | None:
        """All records before these changes, where a reader may begin with this row. It costs what there are."""
        if self.records is None:
            return None
        same = (record for record in self.records if record.register_id not in self.before)
        return [*same, *(record for record in self.before.values() if record is not None)]


class Gap(NamedTuple):
    """From ``since_ms`` to ``until_ms`` there were so many ``changes`` that nobody wrote down."""

    since_ms: int
    until_ms: int
    changes: int


class Lapse(NamedTuple):
    """From ``since_ms`` to ``until_ms`` a server did not hold these slots completely: it did not hear of changes."""

    since_ms: int
    until_ms: int
    slots: frozenset[int]


class ChangedServices:
    """Takes notes while records change, and makes rows of them later.

    Args:
        most: so many changes may wait; where there are more, a gap begins.
    """

    def __init__(self, most: int = 10_000) -> None:
        self._most, self._waiting = most, 0
        self._first_ms = 0
        self._gap: tuple[int, int] | None = None
        self._since_look = 0
        self._touched: dict[str, _Touched] = {}
        self._based: dict[str, tuple[Anchor, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._touched) or self._gap is not None

    @property
    def waiting(self) -> int:
        """Number of changes that wait to be taken, at most."""
        return self._waiting

    def has_room(self, count: int, at_ms: int) -> bool:
        """Whether so many changes, which come now, are to be noted; else they are counted."""
        if self._gap is None:
            self._waiting += count
            if self._waiting <= self._most:
                return True
            self._gap = (self._first_ms if self._touched else at_ms, self._waiting - count)
            self._touched.clear()
            self._waiting = self._since_look = 0
        self._since_look += count
        return False

    def end_gap(self, at_ms: int, few: int) -> Gap | None:
        """Called at regular intervals: the gap that ends now, if there is one and there were at most ``few`` changes
        since the last call. What is written from now on stands alone."""
        if self._gap is None:
            return None
        since_ms, count = self._gap
        count, now = count + self._since_look, self._since_look
        self._since_look = 0
        if now > few:
            self._gap = since_ms, count
            return None
        self._gap = None
        self.begin_anew()
        return Gap(since_ms, at_ms, count)

    def comes(self, record: Publisher, held: HeldRecords, at_ms: int) -> None:
        """A record is about to be stored."""
        self._entry(record.data_info_id, record.register_id, held, at_ms).sent = record

    def buried(self, tombstone: Publisher, held: HeldRecords, at_ms: int, reason: str, *, client_left: bool) -> None:
        """A tombstone is about to be stored, because its client has left or for itself. It ends nothing that is newer,
        and a client that left ends only what it had at that session server. ``reason``: why, for people."""
        entry = self._entry(tombstone.data_info_id, tombstone.register_id, held, at_ms)
        ours = entry.sent
        if ours is None or (
            not ours.newer_than(tombstone) and ours.session == tombstone.session
            if client_left
            else tombstone.newer_than(ours)
        ):
            entry.reason = reason
            entry.ends += 1

    def ends(self, data_info_id: str, register_id: str, held: HeldRecords, at_ms: int, reason: str) -> None:
        """A registration is about to end. ``reason``: why, for people."""
        entry = self._entry(data_info_id, register_id, held, at_ms)
        entry.reason = reason
        entry.ends += 1

    def _entry(self, data_info_id: str, register_id: str, held: HeldRecords, at_ms: int) -> _Entry:
        touched = self._touched.get(data_info_id)
        if touched is None:
            if not self._touched:
                self._first_ms = at_ms
            touched = self._touched[data_info_id] = _Touched(held)
        else:
            touched.held = held
        entry = touched.entries.get(register_id)
        if entry is None:
            service = held.services.get(data_info_id)
            old = None if service is None else service.get(register_id)
            entry = touched.entries[register_id] = _Entry(old, old, at_ms)
        else:
            entry.at_ms = at_ms
        return entry

    def begin_anew(self) -> None:
        """What is written from now on stands alone: each service begins with its whole state."""
        self._based.clear()

    def take(self, most: int) -> list[ServiceRow]:
        """Rows of the services that were touched first, with ``most`` changes at most; the others wait."""
        rows: list[ServiceRow] = []
        done: list[str] = []
        for name, touched in self._touched.items():
            if most <= 0:
                break
            taken = touched.entries
            if len(taken) > most:
                taken = dict(islice(taken.items(), most))
            row = self._row(name, touched, taken)
            if row is not None:
                rows.append(row)
            if taken is touched.entries:
                done.append(name)
            else:
                touched.entries = dict(islice(touched.entries.items(), most, None))
            most -= len(taken)
            self._waiting -= len(taken)
        for name in done:
            del self._touched[name]
        if not self._touched:
            self._waiting = 0
        return rows

    def _row(self, name: str, touched: _Touched, taken: Mapping[str, _Entry]) -> ServiceRow | None:
        held = touched.held
        records = held.services.get(name, {})
        changes = [
            change
            for register_id, entry in taken.items()
            if (change := _change(register_id, entry, records.get(register_id))) is not None
        ]
        if not changes:
            return None
        anchor, since_base = self._based.get(name, (_NOWHERE, 0))
        row = ServiceRow(name, held.slot, held.leader_epoch, held.leads, held.is_complete, changes)
        if anchor != held.anchor or since_base > max(BASE_AGAIN, 2 * len(records)):
            since_base = 0
            row.records = []
            if held.is_complete:
                row.records = list(records.values())
                row.before = {register_id: entry.old for register_id, entry in touched.entries.items()}
        self._based[name] = held.anchor, since_base + len(changes)
        return row


def _change(register_id: str, entry: _Entry, new: Publisher | None) -> RecordedChange | None:
    """What subscribers saw of it; None if they saw nothing."""
    old = entry.old
    last = new if new is not None else entry.sent
    if last is None or (new is old and not entry.ends):
        return None
    if old is not None and new is not None and not entry.ends and (old.data, old.zone) == (new.data, new.zone):
        return None
    return RecordedChange(
        register_id,
        entry.at_ms,
        new is None,
        last.version,
        last.session,
        last.zone,
        last.data or (),
        entry.reason if entry.ends else "",
        entry.ends,
    )
