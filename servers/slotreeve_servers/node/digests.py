"""The sync digests of one slot's records, kept as sums that each change moves, so that a comparison costs what changed.
Pure.

A large service is divided into parts by a hash of the register id, so that a comparison finds the part that differs and
not only the service (the buckets of a hash tree of two levels; Merkle 1987, and Dynamo, section 4.7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar
from zlib import crc32

from slotreeve.model.datum import sync_digest
from slotreeve.model.publisher import Publisher

from slotreeve_servers.node.deltas import size_of

FANOUT = 16
"""A service that has become too large for its parts gets so many times as many. It is hashed again then; the factor is
large, so that this is rare."""
_MASK = (1 << 64) - 1

Key = TypeVar("Key", str, int)


def _move(sums: dict[Key, int], key: Key, value: int) -> None:
    """Add ``value`` to one of several sums. A sum of 0 is left out: it is of no record, but for a chance of 2^-64."""
    total = (sums.get(key, 0) + value) & _MASK
    if total:
        sums[key] = total
    else:
        sums.pop(key, None)


class PartedService:
    """The parts of one large service.

    Attributes:
        count: number of parts, a power of two.
    """

    __slots__ = ("_members", "_sums", "count")

    def __init__(self, count: int, records: Iterable[Publisher] = ()) -> None:
        self.count = count
        self._members: dict[int, dict[str, None]] = {}
        self._sums: dict[str | None, dict[int, int]] = {}
        for record in records:
            self.add(record, sync_digest((record,)))

    def add(self, record: Publisher, value: int) -> None:
        """A record with this digest is there."""
        number = self._move(record, value)
        self._members.setdefault(number, {})[record.register_id] = None

    def remove(self, record: Publisher, value: int) -> None:
        """A record with this digest has gone."""
        number = self._move(record, -value)
        members = self._members[number]
        del members[record.register_id]
        if not members:
            del self._members[number]

    def _move(self, record: Publisher, value: int) -> int:
        number = crc32(record.register_id.encode()) & (self.count - 1)
        for session in (None, record.session):
            sums = self._sums.setdefault(session, {})
            _move(sums, number, value)
            if not sums:
                del self._sums[session]
        return number

    def digests(self, session: str | None) -> dict[int, int]:
        """Digest by part of all records, or of those of one session process; without empty parts."""
        return self._sums.get(session, {})

    def members(self, count: int, number: int) -> list[str]:
        """The register ids in one part of ``count``, which is at most as many as there are."""
        return [key for part in range(number, self.count, count) for key in self._members.get(part, ())]


class RunningDigests:
    """The digests of all services of one slot.

    Args:
        part_bytes: a service larger than this has parts of at most about so many bytes.

    Attributes:
        sizes: bytes of each service that is not empty.
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

    def move(self, data_info_id: str, before: Mapping[str, Publisher | None], now: Mapping[str, Publisher]) -> None:
        """A service changed: ``before`` holds the changed register ids with their records before, ``now`` all records
        of the service."""
        parted = self.parted.get(data_info_id)
        size = self.sizes.get(data_info_id, 0)
        for register_id, old in before.items():
            new = now.get(register_id)
            if old is new:
                continue
            if old is not None:
                value = self._move(old, -1)
                size -= size_of(old)
                if parted is not None:
                    parted.remove(old, value)
            if new is not None:
                value = self._move(new, 1)
                size += size_of(new)
                if parted is not None:
                    parted.add(new, value)
        if not now:
            self.sizes.pop(data_info_id, None)
            self.parted.pop(data_info_id, None)
            return
        self.sizes[data_info_id] = size
        count = parted.count if parted is not None else 1
        if size > count * self._part_bytes:
            while size > count * self._part_bytes:
                count *= FANOUT
            self.parted[data_info_id] = PartedService(count, now.values())

    def _move(self, record: Publisher, sign: int) -> int:
        value = sync_digest((record,))
        for session in (None, record.session):
            sums = self._sums.setdefault(session, {})
            _move(sums, record.data_info_id, sign * value)
            if not sums:
                del self._sums[session]
        return value

    def with_parts(self, data_info_id: str, count: int, now: Mapping[str, Publisher]) -> PartedService:
        """The parts of a service, of which there are at least ``count`` from now on. Its changes must have been moved
        before."""
        parted = self.parted.get(data_info_id)
        if parted is None or parted.count < count:
            parted = self.parted[data_info_id] = PartedService(count, now.values())
        return parted
