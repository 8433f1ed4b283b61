"""The leader's side of replication: each follower in sync is streamed what is stored (departure: the original's
follower lags up to 180 s)."""

from __future__ import annotations

from slotreeve_protocol.slot_messages import (
    Access,
    Compared,
    Follow,
    Replicate,
    SlotDifference,
    SlotDigests,
    SlotWrite,
)

from slotreeve_servers.data.slots import HeldSlot, HeldSlots
from slotreeve_servers.node.outbox import Outbox, Peer, TurnEnd

WEIGHT_PER_ANSWER = 2_000


class Streams:
    """The writes of a turn for each follower, sent when the turn ends.

    Attributes:
        records: records sent since the start.
    """

    def __init__(self, outbox: Outbox, slots: HeldSlots) -> None:
        self._outbox, self._slots = outbox, slots
        self._waiting: dict[Peer, list[SlotWrite]] = {}
        self._flush = TurnEnd(outbox, self._send_all)
        self.records = 0

    def send(self, slot: HeldSlot, write: SlotWrite) -> None:
        """Pass what was just stored on to the followers in sync."""
        for peer in slot.streams:
            writes = self._waiting.get(peer)
            if writes is None:
                self._waiting[peer] = [write]
                self._flush.soon()
            else:
                writes.append(write)

    def answer(self, peer: Peer, follow: Follow) -> Compared:
        """Answer a follower. A slot whose answer is complete is streamed to it from here on.

        Invariant: nothing is stored between answer and stream, so that they leave no gap.
        """
        self._send_all()
        return Compared([self._difference(peer, asked) for asked in follow.slots])

    def _difference(self, peer: Peer, asked: SlotDigests) -> SlotDifference:
        slot = self._slots.get(asked.slot)
        if slot is None:
            return SlotDifference(asked.slot, Access.MOVED, 0, False, {})
        access, epoch = slot.access(asked.leader_epoch), slot.slot.leader_epoch
        if access is not Access.ACCEPT and access is not Access.MIGRATING:
            return SlotDifference(asked.slot, access, epoch, False, {})
        records, complete = slot.store.difference(asked.digests, WEIGHT_PER_ANSWER)
        if complete:
            slot.streams[peer] = None
        return SlotDifference(asked.slot, access, epoch, complete, records)

    def closed(self, peer: Peer) -> None:
        """The connection to a follower has ended."""
        self._waiting.pop(peer, None)
        for slot in self._slots.led():
            slot.streams.pop(peer, None)

    def _send_all(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for peer, writes in waiting.items():
            if self._outbox.send(peer, Replicate(writes)):
                self.records += sum(len(write.records) for write in writes)
