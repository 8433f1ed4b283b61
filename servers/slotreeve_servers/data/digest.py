"""A slot leader's comparison with the sessions, which are the source of truth (original: ``SlotDiffSyncer``).

One comparison of each led slot with each session must succeed under a leader epoch before the slot serves reads;
afterwards the same exchange, every ``repair_seconds``, repairs what should never differ.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable

from slotreeve.clock import Clock
from slotreeve.errors import TransportError
from slotreeve.model.publisher import Publisher
from slotreeve.ports import Connection, Message
from slotreeve_protocol.slot_messages import Access, Compare, Compared, SlotDifference, SlotDigests, SlotWrite

from slotreeve_servers.data.slots import HeldSlot

log = logging.getLogger("slotreeve.digest")

SERVICES_PER_REQUEST = 4_000
SLOTS_PER_REQUEST = 64
RETRY_SECONDS = 0.1


class SessionComparison:
    """The comparisons with one connected session, one request in flight at a time.

    ``store(slot, write)`` stores what differed; ``left(slot, gone, records)`` takes what the session no longer has;
    ``compared(slot, process_id)`` says that a slot is done. ``counters``: services that differed, before the slot
    served (``takeover_differences``) and after (``session_repairs``).
    """

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        timeout_seconds: float,
        held: Callable[[int], HeldSlot | None],
        store: Callable[[HeldSlot, SlotWrite], None],
        left: Callable[[HeldSlot, list[Publisher], list[Publisher]], None],
        compared: Callable[[HeldSlot, str], None],
        counters: Counter[str],
    ) -> None:
        self._connection, self._clock, self._timeout = connection, clock, timeout_seconds
        self._held, self._store, self._left, self._compared = held, store, left, compared
        self._counters = counters
        self._queue: dict[int, None] = {}
        self._busy = False

    def add(self, slots: Iterable[int]) -> None:
        """Compare these slots, soon."""
        self._queue.update(dict.fromkeys(slots))
        self._next()

    def _next(self) -> None:
        if self._busy or not self._queue or self._connection.closed:
            return
        process = self._connection.peer.process_id
        asked: list[SlotDigests] = []
        services = 0
        while self._queue and len(asked) < SLOTS_PER_REQUEST and services < SERVICES_PER_REQUEST:
            number = next(iter(self._queue))
            del self._queue[number]
            slot = self._held(number)
            if slot is not None and slot.leads:
                digests = slot.store.digests(process)
                services += len(digests)
                asked.append(SlotDigests(number, slot.slot.leader_epoch, digests))
        if not asked:
            self._next()
            return
        self._busy = True
        try:
            self._connection.request(Compare(asked), lambda reply, _: self._answered(asked, reply), self._timeout)
        except TransportError as error:
            log.warning("comparison with %s not sent: %s", self._connection.peer.node, error)
            self._retry(asked)

    def _answered(self, asked: list[SlotDigests], reply: Message | None) -> None:
        if not isinstance(reply, Compared):
            self._retry(asked)
            return
        self._busy = False
        process = self._connection.peer.process_id
        for request, difference in zip(asked, reply.differences, strict=False):
            slot = self._held(request.slot)
            if slot is None or not slot.leads or slot.slot.leader_epoch != request.leader_epoch:
                continue
            if difference.records:
                self._apply(slot, difference, process)
            if difference.complete and difference.access is Access.ACCEPT:
                self._compared(slot, process)
            else:
                self._queue[request.slot] = None
        self._next()

    def _apply(self, slot: HeldSlot, difference: SlotDifference, process: str) -> None:
        """Take the session's records; remove those of its process that it no longer has.

        Safe although writes go on: they come over the same connection, so all that the session had sent before
        its answer is already stored here, and all it sends later is stored after.
        """
        records = [record for service in difference.records.values() for record in service]
        left = []
        for data_info_id, theirs in difference.records.items():
            kept = {record.register_id for record in theirs}
            for register_id, ours in slot.store.services.get(data_info_id, {}).items():
                if ours.session == process and register_id not in kept:
                    left.append(ours)
        self._counters["session_repairs" if slot.serving else "takeover_differences"] += len(difference.records)
        self._store(slot, SlotWrite(slot.slot.id, slot.slot.leader_epoch, records, [], []))
        if left:
            self._left(slot, [], left)

    def _retry(self, asked: list[SlotDigests]) -> None:
        self._queue.update(dict.fromkeys(request.slot for request in asked))

        def again() -> None:
            self._busy = False
            self._next()

        self._busy = True
        self._clock.call_later(RETRY_SECONDS, again)
