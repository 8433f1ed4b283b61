"""Bugs in the further copies of lost clients' records. See ``planted_bugs``."""

from __future__ import annotations

from collections.abc import Iterable

from slotreeve.model.publisher import Publisher
from slotreeve_servers.data.endings.lost_clients import LostClients
from slotreeve_servers.data.slots.slots import HeldSlot
from slotreeve_servers.session.records.further_copies import FurtherCopies

from tests.simulation.planting import Patch, bug, replaced


@bug("a session server forgets what a client published as soon as it has lost the client", "further", 3)
def _forgotten_when_lost() -> Patch:
    def keep(self: FurtherCopies, slot: int, record: Publisher) -> None:
        self._writes.submit_lost(slot, record.tombstone())
        self._stores[slot].purge(record.data_info_id, record.register_id)

    return replaced(FurtherCopies, "keep", keep)


@bug("a further copy is dropped as soon as the leader has heard of it, not when the record has ended", "further", 33)
def _over_when_reported() -> Patch:
    original = LostClients.reported

    def reported(self: LostClients, slot: HeldSlot, records: list[Publisher]) -> None:
        original(self, slot, records)
        for record in records:
            self._endings.over.add(record.session, record)

    return replaced(LostClients, "reported", reported)


@bug("a later leader is not told which clients are lost", "further", 6)
def _reported_once() -> Patch:
    def report_again(self: FurtherCopies, slots: Iterable[int]) -> None:
        pass

    return replaced(FurtherCopies, "report_again", report_again)


@bug("a leader that serves its slot takes further copies, although they may have ended", "further")
def _taken_while_serving() -> Patch:
    original = LostClients.reported

    def reported(self: LostClients, slot: HeldSlot, records: list[Publisher]) -> None:
        serving, slot.serving = slot.serving, False
        original(self, slot, records)
        slot.serving = serving

    return replaced(LostClients, "reported", reported)
