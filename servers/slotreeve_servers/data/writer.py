"""Storing in a held slot, and passing on what changed: to followers as a stream, to session servers as changes."""

from __future__ import annotations

from slotreeve_protocol.slot_messages import SlotWrite

from slotreeve_servers.data.changes import Changes
from slotreeve_servers.data.slots import HeldSlot
from slotreeve_servers.data.streams import Streams
from slotreeve_servers.node.outbox import Outbox


class SlotWriter:
    """The one way by which records of led slots change."""

    def __init__(self, outbox: Outbox, streams: Streams, changes: Changes) -> None:
        self._outbox, self._streams, self._changes = outbox, streams, changes

    def store(self, slot: HeldSlot, write: SlotWrite) -> None:
        """Store ``write``; the followers and the interested session servers get it when this turn ends."""
        touched = slot.apply(write, self._outbox.now())
        if slot.streams:
            self._streams.send(slot, write)
        if touched:
            self._changes.changed(slot, touched)
