"""The leader's side of replication: each follower and learner is streamed what is stored (departure: the original's
follower lags up to 180 s). The stream begins with the first question of a follower, so that what it has copied stays
equal while it copies the rest."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from msgspec import structs
from slotreeve_protocol.meta_messages import View
from slotreeve_protocol.slot_messages import (
    Access,
    Compared,
    Follow,
    Replicate,
    SlotDifference,
    SlotDigests,
    SlotWrite,
)

from slotreeve_servers.data.slots.slots import HeldSlot, HeldSlots
from slotreeve_servers.node.deltas import delta_parts, messages_of, size_of
from slotreeve_servers.node.newer_view import NewerView
from slotreeve_servers.node.outbox import Outbox, Peer, Retry, TurnEnd
from slotreeve_servers.node.records import START, StoreDifference

PURGED_BYTES = 128
"""A bound of the ids of one purged record."""
ROOM_SECONDS = 0.05
"""Where the connection to a follower has no room for further tombstones, they wait so long."""


class Streams:
    """The writes of a turn for each follower, sent when the turn ends.

    Attributes:
        records: records sent since the start.
        begun: is called with a slot where another holder has everything; set by the core. ``anew``: is called with a
            slot and a holder that begins to copy it.
    """

    def __init__(self, outbox: Outbox, slots: HeldSlots, newer_view: NewerView) -> None:
        self._outbox, self._slots, self._newer_view = outbox, slots, newer_view
        self._waiting: dict[Peer, list[SlotWrite]] = {}
        self._tombstones: dict[Peer, deque[list[SlotWrite]]] = {}
        self._processes: dict[str, str] = {}
        self._newest: dict[tuple[str, str], Peer] = {}
        self._flush = TurnEnd(outbox, self.flush)
        self._look_for_room = Retry(outbox, ROOM_SECONDS, self._send_tombstones)
        self.records = 0
        self.begun: Callable[[HeldSlot], None] = lambda slot: None
        self.anew: Callable[[HeldSlot, Peer], None] = lambda slot, peer: None

    def is_through(self, peer: Peer) -> bool:
        """Whether nothing waits for room in the connection to this peer."""
        return peer not in self._tombstones

    def view_changed(self, view: View) -> None:
        """End the streams to those that hold a slot no more: another server does, or another process of the name. A
        server that is no member, and holds the slot by a table that is protected, is streamed to."""
        self._processes = {node.name: node.process_id for node in view.data}
        for slot in self._slots.led():
            for streamed in (slot.streams, slot.copying):
                for peer in [peer for peer in streamed if not self._is_holder(peer, slot)]:
                    del streamed[peer]

    def opened(self, peer: Peer) -> Peer | None:
        """A data server has connected. Returns its connection before, which the caller closes: nothing is streamed over
        that one any more, also where a request still comes over it. Most often the other end has given it up. Where it
        has not, because an older attempt to connect was answered late, it connects again and asks for the streams."""
        older = self._newest.get(_process(peer))
        if older is not None:
            self.closed(older)
        self._newest[_process(peer)] = peer
        return older

    def _is_holder(self, peer: Peer, slot: HeldSlot) -> bool:
        is_member = self._processes.get(peer.node, peer.process_id) == peer.process_id
        return is_member and peer.node in slot.slot.holders[1:] and self._newest.get(_process(peer), peer) is peer

    def send(self, slot: HeldSlot, write: SlotWrite) -> None:
        """Pass what was just stored on to all that are streamed to."""
        for peer in (*slot.streams, *slot.copying):
            writes = self._waiting.get(peer)
            if writes is None:
                self._waiting[peer] = [write]
                self._flush.soon()
            else:
                writes.append(write)

    def answer(self, peer: Peer, follow: Follow) -> Compared:
        """Answer a follower. A slot is streamed to it from its first question on, and it has all with the complete
        answer. A question that goes on, although the stream has ended meanwhile, is answered from the start.

        Invariant: nothing is stored between answer and stream, so that they leave no gap.
        """
        self.flush()
        answers, left = [], self._outbox.part_bytes
        for asked in follow.slots:
            answer, size = self._difference(peer, asked, left)
            answers.append(answer)
            left -= size
        return Compared(answers)

    def _difference(self, peer: Peer, asked: SlotDigests, left: int) -> tuple[SlotDifference, int]:
        """The answer for one slot, and its cost in bytes. Without bytes left it is empty and incomplete."""
        slot = self._slots.get(asked.slot)
        if slot is None:
            return SlotDifference(asked.slot, Access.MOVED, 0, False, {}), 0
        access, epoch = slot.access(asked.leader_epoch), slot.slot.leader_epoch
        if not self._is_holder(peer, slot) or asked.since > self._slots.epoch:
            # It has a newer table. Were a stream begun now, an older table that arrives here yet would end it. The
            # meta leader may not reach this server any more: then nobody else gives it that table.
            self._newer_view.ask(peer)
            return SlotDifference(asked.slot, Access.MOVED, epoch, False, {}), 0
        if access is not Access.ACCEPT and access is not Access.MIGRATING:
            return SlotDifference(asked.slot, access, epoch, False, {}), 0
        if slot.streams.get(peer, slot.copying.get(peer)) != asked.since:
            slot.streams.pop(peer, None)
            slot.copying[peer] = asked.since
            self.anew(slot, peer)
            asked = structs.replace(asked, after=START)
        found = slot.store.difference(asked, left) if left > 0 else StoreDifference(complete=False, upto=asked.after)
        if found.complete and peer in slot.copying:
            del slot.copying[peer]
            slot.streams[peer] = asked.since
            self._send_all_tombstones(slot, peer)
            self.begun(slot)
        head, parts = (asked.slot, access, epoch, found.complete, found.records), found.parts
        return SlotDifference(*head, parts, found.upto, is_streamed=True), found.cost

    def _send_all_tombstones(self, slot: HeldSlot, peer: Peer) -> None:
        """Send the tombstones, which no digest contains. Without them a follower that leads later would take an ended
        registration from a session server that still has it.

        There may be more of them than the queue to the follower holds, so they go out as far as there is room. What is
        stored meanwhile may overtake them: an older tombstone changes nothing (I10).
        """
        if tombstones := [tombstone for tombstone, _ in slot.store.tombstones.values()]:
            write = SlotWrite(slot.slot.id, slot.slot.leader_epoch, tombstones, [], [])
            limit = self._outbox.part_bytes
            self._tombstones.setdefault(peer, deque()).extend(messages_of(_parts(write, limit), limit))
            self._flush.soon()

    def _send_tombstones(self) -> None:
        for peer, messages in list(self._tombstones.items()):
            while messages and self._outbox.has_room(peer):
                self._send(peer, messages.popleft())
            if not messages:
                del self._tombstones[peer]
        if self._tombstones:
            self._look_for_room.later()

    def closed(self, peer: Peer) -> None:
        """The connection to a follower has ended."""
        if self._newest.get(_process(peer)) is peer:
            del self._newest[_process(peer)]
        self._waiting.pop(peer, None)
        self._tombstones.pop(peer, None)
        for slot in self._slots.led():
            slot.streams.pop(peer, None)
            slot.copying.pop(peer, None)

    def flush(self) -> None:
        """Send what waits for the end of the turn."""
        waiting, self._waiting = self._waiting, {}
        for peer, writes in waiting.items():
            limit = self._outbox.part_bytes
            for message in messages_of((part for write in writes for part in _parts(write, limit)), limit):
                self._send(peer, message)
        self._send_tombstones()

    def _send(self, peer: Peer, message: list[SlotWrite]) -> None:
        if self._outbox.send(peer, Replicate(message)):
            self.records += sum(len(write.records) for write in message)


def _process(peer: Peer) -> tuple[str, str]:
    """The process at the other end: its name is proven where there are keys, its id is what it says."""
    return peer.node, peer.process_id


def _parts(write: SlotWrite, limit: int) -> Iterator[tuple[SlotWrite, int]]:
    """The parts of a write, each with a bound of its size in bytes."""
    size = sum(map(size_of, write.records)) + sum(map(size_of, write.gone))
    size += sum(len(name) + len(key) + 10 for name, key in write.purged)
    if size <= limit:
        yield write, size
        return
    head = write.slot, write.leader_epoch
    for part in delta_parts(write.records, (), limit):
        yield SlotWrite(*head, part.changed, [], []), part.size
    for part in delta_parts(write.gone, (), limit):
        yield SlotWrite(*head, [], part.changed, []), part.size
    count = 1 + limit // PURGED_BYTES
    for start in range(0, len(write.purged), count):
        yield SlotWrite(*head, [], [], write.purged[start : start + count]), limit
