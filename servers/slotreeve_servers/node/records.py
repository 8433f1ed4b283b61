"""The records of one slot, by service (original: ``PublisherGroup``). Pure: time is an argument.

A data server keeps one store for each slot that it holds, a session server one for each slot with records of its
clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from slotreeve.model.datum import content_digest
from slotreeve.model.publisher import Publisher
from slotreeve_protocol.slot_messages import ComparedUpTo, PartDigests, ServicePart, SlotDigests

from slotreeve_servers.node.deltas import PART_BYTES, size_of
from slotreeve_servers.node.digests import FANOUT, PartedService, RunningDigests, coarser

PARTS_PER_ANSWER = 4
"""The parts in which a large service is compared are so much smaller than a message, because a part with one difference
is sent whole."""
LARGE_RECORDS = 1_000
"""A service with more records than this has parts: to hash all of them at once would hold up other services."""
FEW_RECORDS = 8
"""A service with fewer records is hashed as a whole."""
FOLD_AT = 500
"""So many changes of a service with parts are not left for the next comparison, which they would hold up."""


class Stored(IntEnum):
    """What became of a record."""

    IGNORED = 0
    """It is not newer than what is there."""
    SILENTLY = 1
    """It replaced an older one, but subscribers see no difference."""
    CHANGED = 2
    """Subscribers see a difference."""


_IGNORED, _SILENTLY, _CHANGED = Stored

START = ComparedUpTo()
PARTS_AT_ONCE = 32
"""At most so many parts of large services are in one answer. The other side may hold much in each of them, and must
remove it, where this side has nothing."""
_ABSENT_BYTES = 100
"""To remove a service takes the other side as long as to take in so many bytes, and its name."""


@dataclass(eq=False, slots=True)
class StoreDifference:
    """What differs in one slot: services with all their records, and parts of large services.

    Attributes:
        cost: a bound of the encoded size in bytes, and of what the other side must remove.
        complete: these are all differences.
        upto: how far the comparison has come, where it is not complete.
    """

    records: dict[str, list[Publisher]] = field(default_factory=dict)
    parts: list[ServicePart] = field(default_factory=list)
    cost: int = 0
    complete: bool = True
    upto: ComparedUpTo = START

    def add(self, part: ServicePart, least: int) -> None:
        """Another part differs. Its cost is ``least`` bytes at least: where this side has few records of it, the other
        side may have many to remove."""
        self.parts.append(part)
        self.upto = ComparedUpTo(part.data_info_id, part.count, part.number)
        self.cost += max(least, sum(map(size_of, part.records)))

    def add_whole(self, data_info_id: str, records: list[Publisher]) -> None:
        """A service without parts differs."""
        self.records[data_info_id] = records
        self.upto = ComparedUpTo(data_info_id)
        self.cost += sum(map(size_of, records))

    def add_absent(self, data_info_id: str) -> None:
        """This side has no record of the service."""
        self.records[data_info_id] = []
        self.upto = ComparedUpTo(data_info_id)
        self.cost += _ABSENT_BYTES + len(data_info_id)


_EMPTY: dict[str, Publisher] = {}


def _payload(record: Publisher) -> int:
    """The bytes of its payload."""
    data = record.data or ()
    return len(data[0]) if len(data) == 1 else sum(map(len, data))


class SlotStore:
    """Live records by data info id and register id, and tombstones by register id.

    Args:
        part_bytes: messages of a comparison are about so large.

    Invariant: for one register id at most one of live record and tombstone exists, and it is the greatest in
    (version, incarnation) ever stored here, until purged or compacted (I10).

    Attributes:
        size: number of live records. ``payload``: bytes of their payloads.
    """

    __slots__ = ("_changed", "_changes", "_digests", "_parted", "payload", "services", "size", "tombstones")

    def __init__(self, part_bytes: int = PART_BYTES) -> None:
        self._digests = RunningDigests(part_bytes // PARTS_PER_ANSWER)
        self._parted = self._digests.parted
        self._changed: dict[str, None] = {}  # in the order of the changes, which is that of the records in memory
        self._changes: dict[str, dict[str, Publisher | None]] = {}
        self.services: dict[str, dict[str, Publisher]] = {}
        self.tombstones: dict[str, tuple[Publisher, float]] = {}
        self.size = self.payload = 0

    def put(self, record: Publisher, now: float) -> Stored:
        """Store a record or tombstone if it is strictly newer than what is there."""
        service = self.services.get(record.data_info_id)
        register_id = record.register_id
        old = service.get(register_id) if service is not None else None
        if old is None:
            buried = self.tombstones.get(register_id) if self.tombstones else None
            if buried is not None:
                if not record.newer_than(buried[0]):
                    return _IGNORED
                del self.tombstones[register_id]
        elif not record.newer_than(old):
            return _IGNORED
        if record.data is None:
            self.tombstones[register_id] = (record, now)
            if old is None:
                return _SILENTLY
            self._drop(old)
            return _CHANGED
        if service is None:
            service = self.services[record.data_info_id] = {}
        service[register_id] = record
        data, is_same = record.data, False
        if old is None:
            self.size += 1
            self.payload += _payload(record)
        elif not (is_same := old.data == data):
            self.payload += _payload(record) - _payload(old)
        if len(service) < FEW_RECORDS and record.data_info_id not in self._parted:
            self._changed[record.data_info_id] = None
        else:
            self._note(record.data_info_id, register_id, old)
        return _CHANGED if old is None or not is_same or old.zone != record.zone else _SILENTLY

    def find(self, record: Publisher) -> Publisher | None:
        """The live record of the same registration, if any."""
        service = self.services.get(record.data_info_id)
        return service.get(record.register_id) if service is not None else None

    def is_news(self, record: Publisher) -> bool:
        """Whether to store this record would make a difference here; a tombstone makes one where it ends something."""
        held = self.find(record)
        if held is None:
            buried = self.tombstones.get(record.register_id)
            return not record.is_tombstone and (buried is None or record.newer_than(buried[0]))
        return record.newer_than(held)

    def has(self, record: Publisher) -> bool:
        """Whether there is a live record of the same registration, and not a newer one."""
        held = self.find(record)
        return held is not None and not held.newer_than(record)

    def put_gone(self, tombstone: Publisher, now: float) -> bool:
        """The client of this registration has left: remove its record, if that is no newer and still belongs to the
        same session process. Returns True if subscribers see a difference."""
        old = self.find(tombstone)
        if old is None or old.newer_than(tombstone) or old.session != tombstone.session:
            return False
        self.tombstones[tombstone.register_id] = (tombstone, now)
        return self._drop(old)

    def purge(self, data_info_id: str, register_id: str) -> bool:
        """Remove a live record without a tombstone, so that the same record may come back. True if it was there."""
        old = self.services.get(data_info_id, {}).get(register_id)
        return old is not None and self._drop(old)

    def replace(self, data_info_id: str, records: Iterable[Publisher]) -> None:
        """Hold exactly these live records of one service, as a follower that copies its leader."""
        self._replace(data_info_id, list(self.services.get(data_info_id, ())), records)

    def replace_part(self, part: ServicePart) -> None:
        """Hold exactly these live records of one part of a service."""
        held = [record.register_id for record in self.part(part.data_info_id, part.count, part.number)]
        self._replace(part.data_info_id, held, part.records)

    def _replace(self, data_info_id: str, held: Iterable[str], records: Iterable[Publisher]) -> None:
        service = self.services.setdefault(data_info_id, {})
        kept = {record.register_id: record for record in records}
        for register_id in held:
            if register_id not in kept:
                gone = service.pop(register_id)
                self._count(gone, None)
                self._note(data_info_id, register_id, gone)
        for register_id, record in kept.items():
            self.tombstones.pop(register_id, None)
            old = service.get(register_id)
            service[register_id] = record
            self._count(old, record)
            self._note(data_info_id, register_id, old)
        if not service:
            del self.services[data_info_id]

    def _count(self, old: Publisher | None, new: Publisher | None) -> None:
        """``new`` has come into the place of ``old`` among the live records."""
        if old is not None:
            self.size -= 1
            self.payload -= _payload(old)
        if new is not None:
            self.size += 1
            self.payload += _payload(new)

    def _drop(self, record: Publisher) -> bool:
        service = self.services[record.data_info_id]
        del service[record.register_id]
        self._count(record, None)
        self._note(record.data_info_id, record.register_id, record)
        if not service:
            del self.services[record.data_info_id]
        return True

    def _note(self, data_info_id: str, register_id: str, old: Publisher | None) -> None:
        """A live record has just changed from ``old`` (None: there was none). A service of few records is hashed as a
        whole in the next comparison, any other one only where it changed."""
        service = self.services.get(data_info_id, _EMPTY)
        if data_info_id not in self._parted:
            if len(service) > LARGE_RECORDS:
                self._changed[data_info_id] = None
                self._digests.with_parts(data_info_id, FANOUT, service)
                self._fold(data_info_id)
                return
            if len(service) < FEW_RECORDS:
                self._changed[data_info_id] = None
                return
        changes = self._changes.get(data_info_id)
        if changes is None:
            self._changes[data_info_id] = {register_id: old}
            return
        changes.setdefault(register_id, old)
        if len(changes) >= FOLD_AT:
            self._fold(data_info_id)

    def compact(self, before: float) -> None:
        """Forget the tombstones stored earlier than ``before``. They are in the order in which they were stored."""
        old = list[str]()
        for register_id, (_, stored_at) in self.tombstones.items():
            if stored_at >= before:
                break
            old.append(register_id)
        for register_id in old:
            del self.tombstones[register_id]

    def records(self) -> Iterator[Publisher]:
        """Every live record."""
        for service in self.services.values():
            yield from service.values()

    def services_of(self, session: str) -> list[str]:
        """The services with records of one session process. It does not look at all records."""
        self._fold_all()
        return list(self._digests.of(session))

    # --- comparing ---------------------------------------------------------------------------------------------------

    def _fold(self, data_info_id: str) -> None:
        """Bring the digests of one service up to date."""
        changes, service = self._changes.pop(data_info_id, None), self.services.get(data_info_id, {})
        if data_info_id in self._changed:
            del self._changed[data_info_id]
            self._digests.count(data_info_id, service)
        elif changes is not None:
            self._digests.move(data_info_id, changes, service)

    def _fold_all(self) -> None:
        changed, self._changed = self._changed, {}
        count, services = self._digests.count, self.services
        for data_info_id in changed:
            count(data_info_id, services.get(data_info_id, _EMPTY))
            if self._changes:
                self._changes.pop(data_info_id, None)
        for data_info_id in list(self._changes):
            self._fold(data_info_id)

    def digests(self, session: str | None = None) -> tuple[dict[str, int], dict[str, PartDigests]]:
        """Sync digests of all live records, or of those of one session process: by data info id, and of large services
        by part. Small services without such records are left out."""
        self._fold_all()
        whole = dict(self._digests.of(session))
        parts = {}
        for data_info_id, parted in self._digests.parted.items():
            whole.pop(data_info_id, None)
            parts[data_info_id] = PartDigests(parted.count, parted.digests(session))
        return whole, parts

    def content_digest(self, data_info_id: str) -> int:
        """The content digest of a service. A large one is not hashed for it."""
        service = self.services.get(data_info_id, _EMPTY)
        if data_info_id not in self._parted or not service:
            return content_digest(service.values())
        self._fold(data_info_id)
        return self._parted[data_info_id].content

    def part(self, data_info_id: str, count: int, number: int) -> list[Publisher]:
        """The live records of one part of a service that has ``count`` parts."""
        self._fold(data_info_id)
        service = self.services.get(data_info_id, {})
        parted = self._digests.with_parts(data_info_id, count, service)
        return [service[register_id] for register_id in parted.members(count, number)]

    def difference(self, asked: SlotDigests, limit: int) -> StoreDifference:
        """What differs from the digests that the other side sent, until it has about ``limit`` bytes; at least one
        service or part, if there is one."""
        self._fold_all()
        found, after = StoreDifference(upto=asked.after), asked.after
        for data_info_id in self._differing(asked):
            if data_info_id < after.data_info_id or (data_info_id == after.data_info_id and not after.count):
                continue
            if found.cost >= limit:
                found.complete = False
            elif data_info_id not in self.services and data_info_id in asked.parts:
                self._add_absent_parts(found, data_info_id, asked, limit)
            elif data_info_id not in self.services:
                found.add_absent(data_info_id)
            elif data_info_id in asked.parts or data_info_id in self._digests.parted:
                self._add_parts(found, data_info_id, asked, limit)
            else:
                found.add_whole(data_info_id, list(self.services[data_info_id].values()))
            if not found.complete:
                return found
        return found

    def _differing(self, asked: SlotDigests) -> list[str]:
        """The services whose digests are not the same on both sides, by name."""
        theirs = asked.digests | {name: _total(parts) for name, parts in asked.parts.items()}
        ours = self._digests.of(None)
        names = [name for name, digest in ours.items() if theirs.get(name) != digest]
        names += [name for name, digest in theirs.items() if digest and name not in ours]
        return sorted(names)

    def _add_parts(self, found: StoreDifference, data_info_id: str, asked: SlotDigests, limit: int) -> None:
        """Add the parts that differ, in the larger parts of the two sides. Where those of the other side are too large
        for an answer, add only one part: the other side takes over the number of parts with it, and asks again."""
        theirs = asked.parts.get(data_info_id, PartDigests(1, {}))
        service = self.services[data_info_id]
        parted = self._digests.with_parts(data_info_id, theirs.count, service)
        count = min(parted.count, theirs.count)
        if count < parted.count and (count == 1 or self._digests.sizes[data_info_id] > count * limit):
            number = min(parted.digests(None))
            found.add(self._part(data_info_id, parted, parted.count, number), limit // PARTS_AT_ONCE)
            found.complete, found.upto = False, ComparedUpTo(data_info_id, count, -1)
            return
        mine, other = coarser(parted.digests(None), count), coarser(theirs.digests, count)
        first = _first_part(asked.after, data_info_id, count)
        for number in sorted(n for n in mine.keys() | other.keys() if n >= first and mine.get(n) != other.get(n)):
            if found.cost >= limit:
                found.complete = False
                return
            found.add(self._part(data_info_id, parted, count, number), limit // PARTS_AT_ONCE)

    def _add_absent_parts(self, found: StoreDifference, data_info_id: str, asked: SlotDigests, limit: int) -> None:
        """Name the parts of a large service as empty that only the other side has."""
        theirs = asked.parts[data_info_id]
        first = _first_part(asked.after, data_info_id, theirs.count)
        for number in sorted(n for n in theirs.digests if n >= first):
            if found.cost >= limit:
                found.complete = False
                return
            found.add(ServicePart(data_info_id, theirs.count, number, []), limit // PARTS_AT_ONCE)

    def _part(self, data_info_id: str, parted: PartedService, count: int, number: int) -> ServicePart:
        service = self.services[data_info_id]
        return ServicePart(data_info_id, count, number, [service[key] for key in parted.members(count, number)])


def _first_part(after: ComparedUpTo, data_info_id: str, count: int) -> int:
    """The part of a service with which a comparison goes on."""
    return after.number + 1 if (after.data_info_id, after.count) == (data_info_id, count) else 0


def _total(parts: PartDigests) -> int:
    return sum(parts.digests.values()) & ((1 << 64) - 1)
