"""The follower's side of replication: one digest exchange with the slot's leader, then its stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from slotreeve.ports import Message
from slotreeve_events.changed_services import HeldRecords
from slotreeve_events.history import ServerHistory
from slotreeve_protocol.meta_messages import GetNewerView
from slotreeve_protocol.slot_messages import (
    Access,
    Answers,
    Confirm,
    Follow,
    Replicate,
    SlotAnswer,
    SlotDifference,
    SlotDigests,
    SlotEpoch,
)

from slotreeve_servers.data.replication.comparison import DigestExchange, Progress, services_in
from slotreeve_servers.data.slots.slots import HeldSlot, HeldSlots
from slotreeve_servers.node.dispatch import Handlers
from slotreeve_servers.node.newer_view import NewerView
from slotreeve_servers.node.outbox import Outbox, Peer

MOST_REMEMBERED = 100
"""Processes whose end is remembered."""


class SlotFollowing:
    """The follower's side of the exchange with one leader.

    ``counters`` counts services that differed: ``services_copied`` before the slot was in sync, ``follower_repairs``
    after.
    """

    def __init__(
        self,
        leader: str,
        slots: HeldSlots,
        is_synced: Callable[[], None],
        counters: Counter[str],
        now: Callable[[], float],
    ) -> None:
        self._leader, self._slots, self._is_synced, self._counters = leader, slots, is_synced, counters
        self._now = now

    def _followed(self, number: int) -> HeldSlot | None:
        slot = self._slots.get(number)
        return slot if slot is not None and not slot.leads and slot.slot.leader == self._leader else None

    def digests(self, number: int) -> SlotDigests | None:
        """What this server holds of a slot that it follows."""
        slot = self._followed(number)
        if slot is None:
            return None
        return SlotDigests(number, slot.slot.leader_epoch, *slot.store.digests(), since=slot.since)

    def request(self, slots: list[SlotDigests]) -> Message:
        """Ask the leader where this server differs, and for the stream from now on."""
        return Follow(slots)

    def take(self, asked: SlotDigests, difference: SlotDifference) -> Progress:
        """Copy what differs; in sync once the leader's answer was complete."""
        slot = self._followed(asked.slot)
        if slot is None or (slot.slot.leader_epoch, slot.since) != (asked.leader_epoch, asked.since):
            return Progress.DONE  # the question was about a copy that is no more
        slot.is_streamed |= difference.is_streamed or difference.complete
        for data_info_id, records in difference.records.items():
            slot.store.replace(data_info_id, records)
        for part in difference.parts:
            slot.store.replace_part(part)
        self._counters["follower_repairs" if slot.synced else "services_copied"] += services_in(difference)
        if difference.complete:
            if not slot.synced:
                slot.caught_up(self._now())
                self._is_synced()
            return Progress.DONE
        if difference.is_streamed:
            return Progress.ON  # not from the start: others may change more than one answer holds between two questions
        if difference.access is Access.ACCEPT or difference.access is Access.MIGRATING:
            return Progress.AGAIN
        return Progress.LATER


class FollowedLeaders:
    """The links to the leaders of followed slots, and what comes over them.

    Args:
        is_synced: is called each time that one of the slots has come to be in sync.
    """

    def __init__(
        self,
        outbox: Outbox,
        slots: HeldSlots,
        is_synced: Callable[[], None],
        counters: Counter[str],
        newer_view: NewerView,
        history: ServerHistory | None = None,
    ) -> None:
        self._outbox, self._slots, self._is_synced, self._counters = outbox, slots, is_synced, counters
        self._newer_view, self._history = newer_view, history
        self._exchanges: dict[Peer, DigestExchange] = {}
        self._ended: dict[str, float] = {}
        self.handlers = Handlers(
            {Replicate: self._on_replicate}, {Confirm: self._on_confirm, GetNewerView: newer_view.answer}
        )

    def opened(self, peer: Peer) -> None:
        """A leader is connected: ask it for every slot that this server follows there."""
        side = SlotFollowing(peer.node, self._slots, self._is_synced, self._counters, self._outbox.now)
        exchange = self._exchanges[peer] = DigestExchange(self._outbox, peer, side)
        exchange.add(slot.slot.id for slot in self._slots.followed(peer.node))

    def closed(self, peer: Peer, reason: str) -> None:
        """The connection to a leader has ended, and its streams with it."""
        self._exchanges.pop(peer).stop()
        self._ended.pop(peer.process_id, None)  # the newest end is the last one
        self._ended[peer.process_id] = self._outbox.now() - (peer.silence_at_close or 0.0)
        while len(self._ended) > MOST_REMEMBERED:
            del self._ended[next(iter(self._ended))]
        if self._history is not None:
            self._history.lapse(self._slots.complete_of([slot.slot.id for slot in self._slots.followed(peer.node)]))
        self._slots.leader_lost(peer.node)

    def last_sign(self, process_id: str) -> float | None:
        """When this server had the last sign of life of a process that led slots which it followed, in seconds on its
        clock: the end of the connection, or the last packet; None: it was not connected to it."""
        for peer in self._exchanges:
            if peer.process_id == process_id:
                return self._outbox.now() - self._outbox.silent_for(peer)
        return self._ended.get(process_id)

    def follow(self, slots: Iterable[HeldSlot]) -> None:
        """Ask the connected leaders for these slots."""
        rows = [slot.slot for slot in slots]
        for peer, exchange in self._exchanges.items():
            exchange.add(row.id for row in rows if row.leader == peer.node)

    def compare(self, numbers: Iterable[int]) -> None:
        """Compare these slots again, where they are followed."""
        for exchange in self._exchanges.values():
            exchange.repair(numbers)

    def _on_replicate(self, peer: Peer, message: Replicate) -> None:
        now = self._outbox.now()
        for write in message.batches:
            slot = self._slots.get(write.slot)
            if slot is not None and slot.is_streamed and slot.slot.leader_epoch == write.leader_epoch:
                if self._history is not None and slot.synced:
                    # The history of a leader that dies is at its followers, then.
                    epoch, since = slot.slot.leader_epoch, slot.synced_since
                    self._history.writing(HeldRecords(slot.store.services, epoch, False, since, slot=write.slot), write)
                slot.apply(write, now)

    def _on_confirm(self, peer: Peer, message: Confirm) -> Message:
        """What the leader streamed before this message was handled before it."""
        self._newer_view.heard(peer, message.revision)
        is_current = message.table_epoch <= self._slots.epoch
        answers = [self._confirmation(peer, asked, is_current) for asked in message.slots]
        return Answers(answers, self._newer_view.revision)

    def _confirmation(self, peer: Peer, asked: SlotEpoch, is_current: bool) -> SlotAnswer:
        slot = self._slots.get(asked.slot)
        if slot is None or slot.leads or slot.slot.leader != peer.node or not slot.synced:
            return SlotAnswer(asked.slot, Access.MOVED, 0)
        is_same = is_current and slot.slot.leader_epoch == asked.leader_epoch
        return SlotAnswer(asked.slot, Access.ACCEPT if is_same else Access.MISMATCH, slot.slot.leader_epoch)
