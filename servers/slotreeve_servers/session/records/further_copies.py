"""The records of lost clients, which their session server keeps until the slots' leaders need them no more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from slotreeve.model.publisher import Publisher

from slotreeve_servers.node.outbox import Outbox
from slotreeve_servers.node.records import SlotStore
from slotreeve_servers.session.records.writes import Writes


class FurtherCopies:
    """A further copy of what lost clients published (docs/endings.md): all copies at data servers may die, and a leader
    without one serve, before the client has sent everything again to another session server.

    Args:
        stores: the records of this server by slot. What is over is purged there.
    """

    def __init__(
        self, outbox: Outbox, slot_of: Callable[[str], int], stores: Mapping[int, SlotStore], writes: Writes
    ) -> None:
        self._outbox, self._slot_of, self._stores, self._writes = outbox, slot_of, stores, writes
        # By slot and register id, in the order of their losses, each with its time.
        self._lost: dict[int, dict[str, tuple[Publisher, float]]] = {}
        self._to_report: dict[int, None] = {}

    def keep(self, slot: int, record: Publisher) -> None:
        """The client of this record is lost: report it to the leader of its slot."""
        lost = self._lost.setdefault(slot, {})
        lost.pop(record.register_id, None)
        lost[record.register_id] = record, self._outbox.now()
        self._writes.submit_lost(slot, record)

    def report_again(self, slots: Iterable[int]) -> None:
        """These slots have another leader or link: it may not know which clients are lost, and what it has said of them
        may not have arrived."""
        self._to_report.update((slot, None) for slot in slots if self._lost.get(slot))
        if self._to_report:
            self._outbox.pace(self._report)

    def _report(self) -> Iterator[None]:
        """There may be very many, and others must not wait."""
        while self._to_report:
            slot, _ = self._to_report.popitem()
            for record, _ in list(self._lost[slot].values()):
                if self._has(slot, record):
                    self._writes.submit_lost(slot, record)
                yield

    def over(self, tombstones: Iterable[Publisher]) -> None:
        """The slots' leaders need these records no more: they have ended, or newer ones are stored."""
        for tombstone in tombstones:
            slot = self._slot_of(tombstone.data_info_id)
            lost = self._lost.get(slot, {})
            if tombstone.register_id in lost and not lost[tombstone.register_id][0].newer_than(tombstone):
                self._drop(slot, tombstone.register_id)

    def compact(self, before: float) -> None:
        """Drop what was lost earlier than ``before``. A leader that holds it back goes on to do so without this copy.
        One of release 0.1 does not say what is over."""
        for slot, lost in self._lost.items():
            while lost and next(iter(lost.values()))[1] < before:
                self._drop(slot, next(iter(lost)))

    def _drop(self, slot: int, register_id: str) -> None:
        record, _ = self._lost[slot].pop(register_id)
        if self._has(slot, record):
            self._stores[slot].purge(record.data_info_id, register_id)

    def _has(self, slot: int, record: Publisher) -> bool:
        """Whether the record is there still: its client may have sent a newer one over another connection."""
        held = self._stores[slot].find(record)
        return held is not None and not held.newer_than(record)
