"""The records of lost clients, which their session server keeps until the slots' leaders need them no more."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping

from slotreeve.model.publisher import Publisher

from slotreeve_servers.node.outbox import Outbox
from slotreeve_servers.node.records import SlotStore, StoreDifference
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
        # By slot, then by data info id and register id, in the order of their losses, each with its time.
        self._lost: dict[int, OrderedDict[tuple[str, str], tuple[Publisher, float]]] = {}
        self._to_report: dict[int, None] = {}
        self._before = 0.0

    def keep(self, slot: int, record: Publisher) -> None:
        """The client of this record is lost: report it to the leader of its slot."""
        key, at = (record.data_info_id, record.register_id), self._outbox.now()
        lost = self._lost.setdefault(slot, OrderedDict())
        lost[key] = record, at
        lost.move_to_end(key)
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
            slot = next(iter(self._to_report))
            del self._to_report[slot]
            for record, _ in list(self._lost[slot].values()):
                if self._stores[slot].has(record):
                    self._writes.submit_lost(slot, record)
                yield

    def leave_out(self, slot: int, found: StoreDifference) -> None:
        """Take them out of an answer to a comparison: what a leader that serves the slot does not have of them is over.
        A leader that does not serve it yet, and was compared with before, gets them by the report."""
        lost = self._lost.get(slot)
        if not lost:
            return
        for records in (*found.records.values(), *(part.records for part in found.parts)):
            records[:] = [one for one in records if not self._is_lost(lost, one)]

    @staticmethod
    def _is_lost(lost: Mapping[tuple[str, str], tuple[Publisher, float]], record: Publisher) -> bool:
        copy = lost.get((record.data_info_id, record.register_id))
        return copy is not None and not record.newer_than(copy[0])

    def over(self, tombstones: Iterable[Publisher], leads: Callable[[int], bool]) -> None:
        """A leader needs these records no more: they have ended, or newer ones are stored.

        Args:
            leads: whether it leads a slot still. Its word may have crossed the report to a later leader, which was
                compared with already, and may never have heard of the end.
        """
        for tombstone in tombstones:
            slot, key = self._slot_of(tombstone.data_info_id), (tombstone.data_info_id, tombstone.register_id)
            lost = self._lost.get(slot)
            if lost is not None and leads(slot) and key in lost and not lost[key][0].newer_than(tombstone):
                record, _ = lost.pop(key)
                self._purge(slot, record)

    def compact(self, before: float) -> None:
        """Drop what was lost earlier than ``before``. A leader that holds it back goes on to do so without this copy.
        A leader of release 0.1 does not say what is over."""
        self._before = before
        self._outbox.pace(self._compact)

    def _compact(self) -> Iterator[None]:
        for slot, lost in list(self._lost.items()):
            while lost and next(iter(lost.values()))[1] < self._before:
                _, (record, _) = lost.popitem(last=False)
                self._purge(slot, record)
                yield

    def _purge(self, slot: int, record: Publisher) -> None:
        """A newer one stays: the client has sent it over another connection."""
        if self._stores[slot].has(record):
            self._stores[slot].purge(record.data_info_id, record.register_id)
