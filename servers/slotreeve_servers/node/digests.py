"""The sync digests of one slot's records, kept as sums that each change moves, so that a comparison costs what changed.
Pure.

A large service is divided into parts by a hash of the register id, so that a comparison finds the part that differs and
not only the service (the buckets of a hash tree of two levels; Merkle 1987, and Dynamo, section 4.7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import TypeVar
from zlib import crc32

from slotreeve.model.datum import with_change
from slotreeve.model.publisher import Publisher
from xxhash import xxh3_64_intdigest

from slotreeve_servers.node.deltas import size_of

FANOUT = 16
"""A service that has become too large for its parts gets so many times as many. It is hashed again then; the factor is
large, so that this is rare."""
REGROUPED_AT_ONCE = 1_000
"""A large service is hashed again piece by piece, with each of its next changes so many records."""
_MASK = (1 << 64) - 1
_LED = Struct("!QQ")

Key = TypeVar("Key", str, int)


def sync_hash(record: Publisher) -> int:
    """Hash of the id, version and incarnation of a record, 64 bits. A sync digest is the sum of them, modulo 2^64.

    The order of the records does not matter. Two servers with different records have equal digests with a probability
    of 2^-64. The hash is XXH3 (Collet): a slot that is written all the time is hashed as often as it is compared. It
    resists nobody who makes ids on purpose, and does not have to: an id belongs to the client that made it.
    """
    return xxh3_64_intdigest(f"{record.register_id}\0{record.version}\0{record.incarnation}".encode())


def _move(sums: dict[Key, int], key: Key, value: int) -> None:
    """Add ``value`` to one of several sums. A sum of 0 is left out: it is of no record, but for a chance of 2^-64."""
    total = (sums.get(key, 0) + value) & _MASK
    if total:
        sums[key] = total
    else:
        sums.pop(key, None)


def part_of(register_id: str, count: int) -> int:
    """The part of a registration in a service that has ``count`` parts, a power of two."""
    return crc32(register_id.encode()) & (count - 1)


class PartedService:
    """The parts of one large service.

    Attributes:
        count: number of parts, a power of two.
        content: content digest of the service. It is kept as well, so that a data server that becomes the leader of a
            large service need not hash all of it.
    """

    __slots__ = ("_finer", "_members", "_regrouped", "_sums", "content", "count")

    def __init__(self, count: int, records: Iterable[Publisher] = ()) -> None:
        self.count, self.content = count, 0
        self._members: dict[int, dict[str, None]] = {}
        self._sums: dict[str | None, dict[int, int]] = {}
        # Smaller parts that will replace these, and the number of parts whose records they have already.
        self._finer: PartedService | None = None
        self._regrouped = 0
        for record in records:
            self.move(record, sync_hash(record), True)

    def move(self, record: Publisher, value: int, is_there: bool) -> None:
        """A record is there now, or has gone; ``value`` is added to the digests."""
        self.content = with_change(self.content, None if is_there else record, record if is_there else None)
        number = self._place(record, value, is_there)
        if self._finer is not None and number < self._regrouped:
            self._finer._place(record, value, is_there)

    def _place(self, record: Publisher, value: int, is_there: bool) -> int:
        number = part_of(record.register_id, self.count)
        for session in (None, record.session):
            sums = self._sums.setdefault(session, {})
            _move(sums, number, value)
            if not sums:
                del self._sums[session]
        members = self._members.setdefault(number, {})
        if is_there:
            members[record.register_id] = None
            return number
        del members[record.register_id]
        if not members:
            del self._members[number]
        return number

    def divide(self, count: int) -> None:
        """Have ``count`` parts in the end; :meth:`regroup` does it piece by piece."""
        if count > (self._finer.count if self._finer is not None else self.count):
            self._finer, self._regrouped = PartedService(count), 0

    def regroup(self, records: Mapping[str, Publisher], most: int) -> None:
        """Put about ``most`` more records into their smaller parts, where the service gets some. ``records``: all that
        there are."""
        finer = self._finer
        if finer is None:
            return
        while self._regrouped < self.count and most > 0:
            members = self._members.get(self._regrouped, {})
            for register_id in members:
                finer._place(records[register_id], sync_hash(records[register_id]), True)
            self._regrouped += 1
            most -= len(members)
        if self._regrouped == self.count:
            self.count, self._members, self._sums = finer.count, finer._members, finer._sums
            self._finer = None

    def digests(self, session: str | None) -> dict[int, int]:
        """Digest by part of all records, or of those of one session process; without empty parts."""
        return self._sums.get(session, {})

    def members(self, count: int, number: int) -> list[str]:
        """The register ids in one part of ``count``, which is a power of two."""
        if count > self.count:
            inside = self._members.get(number & (self.count - 1), ())
            return [key for key in inside if crc32(key.encode()) & (count - 1) == number]
        return [key for part in range(number, self.count, count) for key in self._members.get(part, ())]


def coarser(digests: Mapping[int, int], count: int) -> dict[int, int]:
    """The digests of ``count`` parts, from those of more parts."""
    sums: dict[int, int] = {}
    for number, digest in digests.items():
        _move(sums, number & (count - 1), digest)
    return sums


class RunningDigests:
    """The digests of all services of one slot.

    Args:
        part_bytes: a service larger than this has parts of at most about so many bytes.

    Attributes:
        sizes: bytes of each service that was hashed as a whole and had more than one record.
        parted: the services with parts.
    """

    __slots__ = ("_part_bytes", "_sums", "parted", "sizes")

    def __init__(self, part_bytes: int) -> None:
        self._part_bytes = part_bytes
        self._sums: dict[str | None, dict[str, int]] = {}
        self.sizes: dict[str, int] = {}
        self.parted: dict[str, PartedService] = {}

    def of(self, session: str | None) -> Mapping[str, int]:
        """Digest by data info id: of all records, or of those of one session process."""
        return self._sums.get(session, {})

    def count(self, data_info_id: str, now: Mapping[str, Publisher]) -> None:
        """Hash all records of a service, ``now``: a small one that has changed, or one that gets parts."""
        if len(now) == 1 and self._count_one(data_info_id, *now.values()):
            return
        totals: dict[str | None, int] = {}
        size = whole = 0
        for record in now.values():
            value = sync_hash(record)
            totals[record.session] = totals.get(record.session, 0) + value
            whole += value
            size += size_of(record)
        for session in [key for key, sums in self._sums.items() if data_info_id in sums and key not in totals]:
            self._set(session, data_info_id, 0)
        for session, total in totals.items():
            self._set(session, data_info_id, total & _MASK)
        if now:
            self._set(None, data_info_id, whole & _MASK)
            self._divide(data_info_id, size, now)
        else:
            self.parted.pop(data_info_id, None)
            self.sizes.pop(data_info_id, None)

    def _count_one(self, data_info_id: str, record: Publisher) -> bool:
        """The shortest way for the most frequent case: the only record of a service replaces that of the same session
        process. False: it is not this case."""
        if data_info_id in self.parted or size_of(record) > self._part_bytes:
            return False
        whole, mine = self._sums.setdefault(None, {}), self._sums.setdefault(record.session, {})
        if whole.get(data_info_id) != mine.get(data_info_id):
            return False
        whole[data_info_id] = mine[data_info_id] = sync_hash(record)
        return True

    def move(self, data_info_id: str, before: Mapping[str, Publisher | None], now: Mapping[str, Publisher]) -> None:
        """Some records of a service, which was hashed before, have changed: ``before`` holds the changed register ids
        with their records before, ``now`` all records of the service."""
        parted = self.parted.get(data_info_id)
        size = self.sizes[data_info_id]
        moved: dict[str | None, int] = {None: 0}
        for register_id, old in before.items():
            new = now.get(register_id)
            if old is new:
                continue
            for record, sign in ((old, -1), (new, 1)):
                if record is not None:
                    value = sign * sync_hash(record)
                    if parted is not None:
                        parted.move(record, value, sign > 0)
                    moved[record.session] = moved.get(record.session, 0) + value
                    moved[None] += value
                    size += sign * size_of(record)
        for session, value in moved.items():
            self._set(session, data_info_id, (self.of(session).get(data_info_id, 0) + value) & _MASK)
        if now:
            self._divide(data_info_id, size, now)
        else:
            self.parted.pop(data_info_id, None)
            del self.sizes[data_info_id]

    def _set(self, session: str | None, data_info_id: str, digest: int) -> None:
        if digest:
            self._sums.setdefault(session, {})[data_info_id] = digest
        elif (sums := self._sums.get(session)) is not None:
            sums.pop(data_info_id, None)
            if not sums:
                del self._sums[session]

    def _divide(self, data_info_id: str, size: int, now: Mapping[str, Publisher]) -> None:
        """Keep the size of a service, and give one that has become too large for its parts more of them."""
        parted = self.parted.get(data_info_id)
        enough = count = parted.count if parted is not None else 1
        while size > enough * self._part_bytes:
            enough *= FANOUT
        if parted is not None:
            parted.divide(enough)
            parted.regroup(now, REGROUPED_AT_ONCE)
        elif enough > count:
            self.parted[data_info_id] = PartedService(enough, now.values())
        self.sizes[data_info_id] = size

    def with_parts(self, data_info_id: str, count: int, now: Mapping[str, Publisher]) -> PartedService:
        """The parts of a service, of which there are at least ``count`` soon; at once where it had none. Its changes
        must have been moved before."""
        parted = self.parted.get(data_info_id)
        if parted is None:
            parted = self.parted[data_info_id] = PartedService(count, now.values())
            self.sizes.setdefault(data_info_id, sum(map(size_of, now.values())))
        elif parted.count < count:
            parted.divide(count)
            parted.regroup(now, REGROUPED_AT_ONCE)
        return parted


def led_digest(slots: Iterable[tuple[int, int]]) -> int:
    """A digest of slots with their leader epochs, in ascending order of the slots; never 0."""
    digest = 0
    for slot, leader_epoch in slots:
        digest = crc32(_LED.pack(slot, leader_epoch), digest)
    return digest or 1
