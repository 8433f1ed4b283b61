"""Comparisons: one exchange of digests, for a slot leader with a session server and for a follower with its leader;
and the leader's side of it (original: ``SlotDiffSyncer``).

The asking side sends digests of what it holds; the other side answers with the services that differ. A session server
is the source of truth for its clients' records. One comparison of each led slot with each session server must succeed
under a leader epoch before the slot serves reads. Afterwards the same exchange, every ``data.repair_seconds``, repairs
what should never differ.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Iterable
from enum import Enum, auto
from typing import Protocol

from msgspec import structs
from slotreeve.ports import Message
from slotreeve_protocol.slot_messages import (
    Access,
    Compare,
    Compared,
    ComparedUpTo,
    SlotDifference,
    SlotDigests,
    SlotWrite,
)

from slotreeve_servers.data.endings.ending import LostRecord
from slotreeve_servers.data.endings.endings import Endings
from slotreeve_servers.data.slots.slots import HeldSlot, HeldSlots
from slotreeve_servers.node.outbox import Outbox, Peer

SERVICES_PER_REQUEST = 4_000
"""Services and parts of services."""
SLOTS_PER_REQUEST = 64
RETRY_SECONDS = 0.1


class Progress(Enum):
    """What becomes of a slot after an answer."""

    DONE = auto()
    """It is compared, or this server has nothing to compare any more."""
    AGAIN = auto()
    """The answer was not complete: it is asked again at once, from the start."""
    ON = auto()
    """The answer was not complete: it is asked again at once for what comes after this answer."""
    LATER = auto()
    """The other side has another table: it is asked again after :data:`RETRY_SECONDS`."""


class Side(Protocol):
    """What is compared, and what is done with an answer."""

    def digests(self, number: int) -> SlotDigests | None:
        """What this server holds of a slot; None where there is nothing to compare (any more)."""

    def request(self, slots: list[SlotDigests]) -> Message:
        """The request that the other side answers with Compared."""

    def take(self, asked: SlotDigests, difference: SlotDifference) -> Progress:
        """Apply the answer for one slot."""


def services_in(difference: SlotDifference) -> int:
    """Number of services that differ according to one answer."""
    return len(difference.records) + len({part.data_info_id for part in difference.parts})


class DigestExchange:
    """The comparisons with one peer: slots wait in a queue, and one request is in flight at a time. It is waited for as
    long as the connection lives: asking again would only be more work for a peer that is late.

    Repairs, for which nobody waits, come after the others, and do not set one back that has come some way."""

    def __init__(self, outbox: Outbox, peer: Peer, side: Side) -> None:
        self._outbox, self._peer, self._side = outbox, peer, side
        self._queue: OrderedDict[int, ComparedUpTo] = OrderedDict()
        self._repairs: OrderedDict[int, ComparedUpTo] = OrderedDict()
        self._taken_from = self._queue  # what is asked now comes from this queue
        self._asked: set[int] = set()
        self._is_busy = False
        self._is_stopped = False

    def add(self, slots: Iterable[int]) -> None:
        """Compare these slots soon, from the start: they are new here, or have another table."""
        self._queue.update(dict.fromkeys(slots, ComparedUpTo()))
        self._next()

    def repair(self, slots: Iterable[int]) -> None:
        """Compare these slots again when nothing else waits."""
        for number in slots:
            if number not in self._queue and number not in self._asked:
                self._repairs.setdefault(number, ComparedUpTo())
        self._next()

    def stop(self) -> None:
        """The connection has ended."""
        self._is_stopped = True

    def _next(self) -> None:
        if self._is_busy or self._is_stopped:
            return
        asked = self._take_from_queue()
        if not asked:
            return
        self._is_busy, self._asked = True, {digests.slot for digests in asked}

        def answered(reply: Message | None, error: Exception | None) -> None:
            if isinstance(reply, Compared):
                self._take(asked, reply)
            else:
                self._pause(asked)

        if not self._outbox.ask(self._peer, self._side.request(asked), answered, math.inf):
            self._pause(asked)

    def _take_from_queue(self) -> list[SlotDigests]:
        asked: list[SlotDigests] = []
        services = 0
        for queue in (self._queue, self._repairs):
            self._taken_from = queue
            while queue and len(asked) < SLOTS_PER_REQUEST and services < SERVICES_PER_REQUEST:
                number, after = queue.popitem(last=False)
                digests = self._side.digests(number)
                if digests is not None:
                    digests = structs.replace(digests, after=after)
                    services += len(digests.digests) + sum(len(parts.digests) for parts in digests.parts.values())
                    asked.append(digests)
            if asked:
                break
        return asked

    def _take(self, asked: list[SlotDigests], reply: Compared) -> None:
        later: list[SlotDigests] = []
        waiting: list[tuple[bool, int, ComparedUpTo]] = []
        self._asked = set()
        for request, difference in zip(asked, reply.differences, strict=False):
            progress = self._side.take(request, difference)
            if progress is Progress.LATER:
                later.append(request)
            elif progress is not Progress.DONE and request.slot not in self._queue:
                upto = difference.upto if progress is Progress.ON else ComparedUpTo()
                waiting.append((services_in(difference) > 0, request.slot, upto))
        # The answer had room for some of them: the others come first next time.
        for _, number, upto in sorted(waiting, key=lambda each: each[0]):
            self._taken_from[number] = upto
        if later:
            self._pause(later)
        else:
            self._is_busy = False
            self._next()

    def _pause(self, again: list[SlotDigests]) -> None:
        """Ask for nothing for a while, and then for these slots too."""
        self._asked = set()
        self._taken_from.update(dict.fromkeys((request.slot for request in again), ComparedUpTo()))
        self._outbox.after(RETRY_SECONDS, self._go_on)

    def _go_on(self) -> None:
        self._is_busy = False
        self._next()


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
        is_first = self._process_id not in slot.compared
        head, held = (number, slot.slot.leader_epoch), slot.store.digests(self._process_id)
        return SlotDigests(*head, *held, is_first=is_first, serves=slot.serving)

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

    def _repair(self, slot: HeldSlot, difference: SlotDifference) -> None:
        """Store the session process's records and tombstones; the clients of those that it no longer has are lost. A
        tombstone of the same version as a record is the word of its client that it leaves, which an earlier leader may
        have got.

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
            said = [each for each in theirs if each.is_tombstone and store.has(each) and not store.is_news(each)]
            self._endings.said(slot, said)
            left = [ours for ours in held if ours.session == self._process_id and ours.register_id not in kept]
            newly_lost = self._endings.lost([LostRecord(slot, record) for record in left])
            # A write that arrived after the digests were sent made a difference, and there is nothing to repair.
            repairs += newly_lost > 0 or any(store.is_news(record) for record in theirs)
            records += theirs
        self._counters["session_repairs" if slot.serving else "takeover_differences"] += repairs
        if records:
            head = slot.slot.id, slot.slot.leader_epoch
            self._leadership.store(slot, SlotWrite(*head, records, [], [], [], difference.waited_us))
