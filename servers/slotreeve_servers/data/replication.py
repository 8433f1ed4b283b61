"""Leader to follower: one digest exchange, then a stream (departure: the original's follower lags up to 180 s)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable

from slotreeve.clock import Clock
from slotreeve.errors import ConnectionLost, TransportError
from slotreeve.ports import Connection, Message
from slotreeve_protocol.slot_messages import Access, Compared, Follow, Replicate, SlotDifference, SlotDigests, SlotWrite

from slotreeve_servers.data.slots import HeldSlot

log = logging.getLogger("slotreeve.replication")

WEIGHT_PER_ANSWER = 2_000
SLOTS_PER_REQUEST = 64
RETRY_SECONDS = 0.1
TIMEOUT_SECONDS = 2.0


class Streams:
    """The leader's side: what each follower is still to be sent in this turn of the event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[Connection, list[SlotWrite]] = {}
        self.records = 0

    def send(self, slot: HeldSlot, write: SlotWrite) -> None:
        """Pass on to the followers in sync what was just stored."""
        for connection in slot.streams:
            batches = self._waiting.get(connection)
            if batches is None:
                if not self._waiting:
                    self._clock.call_soon(self._flush)
                self._waiting[connection] = [write]
            else:
                batches.append(write)

    def answer(self, held: Callable[[int], HeldSlot | None], connection: Connection, follow: Follow) -> Compared:
        """Answer a follower; a slot whose answer is complete is streamed to it from here on.

        Invariant: between answer and registration nothing is stored, so that answer and stream leave no gap.
        """
        self._flush()
        differences = []
        for asked in follow.slots:
            slot = held(asked.slot)
            access = slot.access(asked.leader_epoch) if slot is not None else Access.MOVED
            epoch = slot.slot.leader_epoch if slot is not None else 0
            if slot is None or access not in (Access.ACCEPT, Access.MIGRATING):
                differences.append(SlotDifference(asked.slot, access, epoch, False, {}))
                continue
            records, complete = slot.store.difference(asked.digests, WEIGHT_PER_ANSWER)
            if complete:
                slot.streams.add(connection)
            differences.append(SlotDifference(asked.slot, access, epoch, complete, records))
        return Compared(differences)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for connection, batches in waiting.items():
            try:
                connection.send(Replicate(batches))
                self.records += sum(len(batch.records) for batch in batches)
            except ConnectionLost:
                pass  # its closed event is on its way; the follower asks again
            except TransportError as error:
                log.warning("follower %s does not keep up: %s", connection.peer.node, error)
                connection.close("it does not read its stream; it may come back and ask anew")


class FollowedLeader:
    """The follower's side towards one leader: asks until every slot it follows there is in sync.

    ``counters``: services that differed, before the slot was in sync (``services_copied``) and after
    (``follower_repairs``).
    """

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        held: Callable[[int], HeldSlot | None],
        synced: Callable[[], None],
        counters: Counter[str],
    ) -> None:
        self._connection, self._clock = connection, clock
        self._held, self._synced, self._counters = held, synced, counters
        self._queue: dict[int, None] = {}
        self._busy = False

    def add(self, slots: Iterable[int]) -> None:
        """Ask to follow these slots."""
        self._queue.update(dict.fromkeys(slots))
        self._next()

    def _mine(self, number: int) -> HeldSlot | None:
        slot = self._held(number)
        follows = slot is not None and not slot.leads and slot.slot.leader == self._connection.peer.node
        return slot if follows else None

    def _next(self) -> None:
        if self._busy or self._connection.closed:
            return
        asked: list[SlotDigests] = []
        while self._queue and len(asked) < SLOTS_PER_REQUEST:
            number = next(iter(self._queue))
            del self._queue[number]
            slot = self._mine(number)
            if slot is not None:
                asked.append(SlotDigests(number, slot.slot.leader_epoch, slot.store.digests()))
        if not asked:
            return
        self._busy = True
        try:
            self._connection.request(Follow(asked), lambda reply, _: self._answered(asked, reply), TIMEOUT_SECONDS)
        except TransportError as error:
            log.warning("cannot ask %s to follow: %s", self._connection.peer.node, error)
            self._later(asked)

    def _answered(self, asked: list[SlotDigests], reply: Message | None) -> None:
        if not isinstance(reply, Compared):
            self._later(asked)
            return
        refused: list[SlotDigests] = []
        for request, difference in zip(asked, reply.differences, strict=False):
            slot = self._mine(request.slot)
            if slot is None or slot.slot.leader_epoch != request.leader_epoch:
                continue
            for data_info_id, records in difference.records.items():
                slot.store.replace(data_info_id, records)
            self._counters["follower_repairs" if slot.synced else "services_copied"] += len(difference.records)
            if difference.complete:
                slot.synced = True
            elif difference.access in (Access.ACCEPT, Access.MIGRATING):
                self._queue[request.slot] = None
            else:
                refused.append(request)  # the leader's table is older or newer than ours
        self._synced()
        if refused:
            self._later(refused)
        else:
            self._busy = False
            self._next()

    def _later(self, asked: list[SlotDigests]) -> None:
        self._queue.update(dict.fromkeys(request.slot for request in asked))

        def again() -> None:
            self._busy = False
            self._next()

        self._busy = True
        self._clock.call_later(RETRY_SECONDS, again)
