"""The records of one slot, by service (original: ``PublisherGroup``). Pure: time is an argument.

A data server keeps one store for each slot that it holds, a session server one for each slot with records of its
clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum

from slotreeve.model.datum import sync_digest
from slotreeve.model.publisher import Publisher


class Stored(IntEnum):
    """What became of a record."""

    IGNORED = 0
    """It is not newer than what is there."""
    SILENTLY = 1
    """It replaced an older one, but subscribers see no difference."""
    CHANGED = 2
    """Subscribers see a difference."""


_IGNORED, _SILENTLY, _CHANGED = Stored


class SlotStore:
    """Live records by data info id and register id, and tombstones by register id.

    Invariant: for one register id at most one of live record and tombstone exists, and it is the greatest in
    (version, incarnation) ever stored here, until purged or compacted (I10).
    """

    __slots__ = ("services", "tombstones")

    def __init__(self) -> None:
        self.services: dict[str, dict[str, Publisher]] = {}
        self.tombstones: dict[str, tuple[Publisher, float]] = {}

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
        return _CHANGED if old is None or old.data != record.data or old.zone != record.zone else _SILENTLY

    def find(self, record: Publisher) -> Publisher | None:
        """The live record of the same registration, if any."""
        service = self.services.get(record.data_info_id)
        return service.get(record.register_id) if service is not None else None

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
        service = {record.register_id: record for record in records}
        for register_id in service:
            self.tombstones.pop(register_id, None)
        if service:
            self.services[data_info_id] = service
        else:
            self.services.pop(data_info_id, None)

    def _drop(self, record: Publisher) -> bool:
        service = self.services[record.data_info_id]
        del service[record.register_id]
        if not service:
            del self.services[record.data_info_id]
        return True

    def compact(self, before: float) -> None:
        """Forget the tombstones stored earlier than ``before``."""
        self.tombstones = {k: v for k, v in self.tombstones.items() if v[1] >= before}

    def records(self) -> Iterator[Publisher]:
        """Every live record."""
        for service in self.services.values():
            yield from service.values()

    def digests(self, session: str | None = None) -> dict[str, int]:
        """Sync digest by data info id: of all live records, or of those of one session process (without the services
        in which it has none)."""
        result = {}
        for data_info_id, service in self.services.items():
            records: Iterable[Publisher] = service.values()
            if session is not None:
                records = [record for record in records if record.session == session]
                if not records:
                    continue
            result[data_info_id] = sync_digest(records)
        return result

    def difference(self, theirs: Mapping[str, int], limit: int) -> tuple[dict[str, list[Publisher]], bool]:
        """The services whose digest differs from ``theirs``, each with all its records (none: it is empty here), and
        whether these are all such services. The list ends with the service that brings its weight to ``limit``."""
        different: dict[str, list[Publisher]] = {}
        weight = 0
        for data_info_id, service in self.services.items():
            if theirs.get(data_info_id) == sync_digest(service.values()):
                continue
            if weight >= limit:
                return different, False
            different[data_info_id] = list(service.values())
            weight += sum(record.weight for record in service.values())
        for data_info_id in theirs.keys() - self.services.keys():
            different[data_info_id] = []
        return different, True
