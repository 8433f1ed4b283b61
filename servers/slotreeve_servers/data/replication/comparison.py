"""A slot leader's comparison with a session server, which is the source of truth for its clients' records (original:
``SlotDiffSyncer``).

One comparison of each led slot with each session server must succeed under a leader epoch before the slot serves reads.
Afterwards the same exchange, every ``data.repair_seconds``, repairs what should never differ.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from msgspec import structs
from slotreeve.model.publisher import Publisher
from slotreeve.ports import Message
from slotreeve_protocol.slot_messages import Access, Compare, SlotDifference, SlotDigests, SlotWrite

from slotreeve_servers.data.endings.ending import LostRecord
from slotreeve_servers.data.endings.endings import Endings
from slotreeve_servers.data.replication.exchange import Progress
from slotreeve_servers.data.slots.slots import HeldSlot, HeldSlots


class SlotLeadership(Protocol):
    """The core of the server that leads the slots."""

    def store(self, slot: HeldSlot, write: SlotWrite) -> None:
        """Store in a led slot, and pass on what changed."""

    def compared(self, slot: HeldSlot, process_id: str) -> None:
        """``slot`` holds all that the session process has for it."""

    def waited(self, slot: HeldSlot, waited_us: int) -> None:
        """Something for the slot has waited for so long at the session process, in microseconds."""


class SessionComparison:
    """The leader's side of the exchange with one session process.

    ``counters`` counts services that differed: ``takeover_differences`` before the slot served, ``session_repairs``
    after.
    """

    def __init__(
        self,
        process_id: str,
        slots: HeldSlots,
        endings: Endings,
        leadership: SlotLeadership,
        counters: Counter[str],
    ) -> None:
        self._process_id, self._slots = process_id, slots
        self._endings, self._leadership, self._counters = endings, leadership, counters

    def digests(self, number: int) -> SlotDigests | None:
        """What this server holds of the session process's records in a slot that it leads."""
        slot = self._slots.get(number)
        if slot is None or not slot.leads:
            return None
        digests = SlotDigests(number, slot.slot.leader_epoch, *slot.store.digests(self._process_id))
        return digests if self._process_id in slot.compared else structs.replace(digests, is_first=True)

    def request(self, slots: list[SlotDigests]) -> Message:
        """Ask the session server where it differs."""
        return Compare(slots)

    def take(self, asked: SlotDigests, difference: SlotDifference) -> Progress:
        """Make the slot equal to the answer."""
        slot = self._slots.get(asked.slot)
        if slot is None or not slot.leads or slot.slot.leader_epoch != asked.leader_epoch:
            return Progress.DONE
        if difference.waited_us:
            self._leadership.waited(slot, difference.waited_us)
        if difference.records or difference.parts or difference.ended:
            self._repair(slot, difference)
        if difference.access is not Access.ACCEPT:
            return Progress.AGAIN
        if not difference.complete:
            return Progress.ON  # not from the start: what is newer here, or held back, would fill each answer
        self._leadership.compared(slot, self._process_id)
        return Progress.DONE

    def answered(self) -> None:
        """Nothing is left to do after an answer."""

    def _repair(self, slot: HeldSlot, difference: SlotDifference) -> None:
        """Store the session process's records and tombstones; the clients of those that it no longer has are lost.

        Safe although writes go on: they come over the same connection, so that all that the session server sent before
        its answer is already stored here, and all that it sends later is stored after it.
        """
        store = slot.store
        differing = [(list(store.services.get(name, {}).values()), new) for name, new in difference.records.items()]
        differing += [(store.part(p.data_info_id, p.count, p.number), p.records) for p in difference.parts]
        records = list(difference.ended)
        repairs = 0
        for held, theirs in differing:
            kept = {record.register_id for record in theirs}
            left = [ours for ours in held if ours.session == self._process_id and ours.register_id not in kept]
            newly_lost = self._endings.lost([LostRecord(slot, record, leaves_tombstone=False) for record in left])
            # A write that arrived after the digests were sent made a difference, and there is nothing to repair.
            repairs += newly_lost > 0 or any(_is_news(store.find(record), record) for record in theirs)
            records += theirs
        self._counters["session_repairs" if slot.serving else "takeover_differences"] += repairs
        if records:
            head = slot.slot.id, slot.slot.leader_epoch
            self._leadership.store(slot, SlotWrite(*head, records, [], [], [], difference.waited_us))


def _is_news(held: Publisher | None, theirs: Publisher) -> bool:
    return not theirs.is_tombstone if held is None else theirs.newer_than(held)
