"""A slot of a data server, with the modules around it, for tests."""

from __future__ import annotations

from collections.abc import Mapping

from slotreeve.model.nodes import Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_events.history import NO_REASONS
from slotreeve_protocol.meta_messages import LeaseGranted, View
from slotreeve_protocol.slot_messages import (
    Changed,
    SlotWrite,
)
from slotreeve_servers.data.announcing.changes import Changes
from slotreeve_servers.data.announcing.interest import SessionInterests
from slotreeve_servers.data.replication.streams import Streams
from slotreeve_servers.data.slots.slots import HeldSlot, HeldSlots
from slotreeve_servers.node.membership import Holdings, Membership
from slotreeve_servers.node.newer_view import NewerView
from slotreeve_servers.node.outbox import Peer

from tests.servers.core_scenes import node
from tests.servers.recording_outbox import RecordingOutbox, a_peer

SESSION_1, SESSION_2 = a_peer("session-1", Role.SESSION), a_peer("session-2", Role.SESSION)


def record(register_id: str, version: int = 1, session: str = "session-1@1", service: str = "s") -> Publisher:
    return Publisher(register_id, service, version, 1, session, "", (b"x",))


class Scene:
    """One data server that leads slot 0 and serves it."""

    def __init__(self) -> None:
        self.outbox = RecordingOutbox()
        self.slots = HeldSlots("data-1")
        self.slots.apply(SlotTable(1, (Slot(0, "data-1", 1, ("data-2",)),)))
        self.slot.serve()
        self.changes = Changes(self.outbox)
        self.membership = Membership(self.outbox, node("data-1"), 1.0, self)
        self.streams = Streams(self.outbox, self.slots, NewerView(self.outbox, self.membership))
        self.streams.view_changed(View(1, 1, SlotTable(1, ()), [node("data-1"), node("data-2")], []))
        self.interests = SessionInterests(self.slots, self.changes)

    def view_changed(self, old: View, view: View) -> None:
        """As the core does."""
        self.slots.apply(view.table)
        self.streams.view_changed(view)

    def holdings(self) -> Holdings:
        """As the core does."""
        return Holdings(self.slots.unsettled())

    def lease_granted(self, leader: Peer, granted: LeaseGranted) -> None:
        """Nothing here needs it."""

    @property
    def slot(self) -> HeldSlot:
        return self.slots.held[0]

    def store(self, slot: HeldSlot, write: SlotWrite, reasons: Mapping[str, str] = NO_REASONS) -> None:
        """As the core does."""
        touched = slot.apply(write, self.outbox.now())
        self.streams.send(slot, write)
        self.changes.changed(slot, touched)

    def put(self, *records: Publisher) -> None:
        self.store(self.slot, SlotWrite(0, 1, list(records), [], []))

    def changed(self) -> list[tuple[str, int, list[str], list[str]]]:
        self.outbox.end_turn()
        found = []
        for effect in self.outbox.take("sent"):
            if isinstance(effect.what, Changed):
                for change in effect.what.changes:
                    names = [r.register_id for r in change.changed]
                    found.append((str(effect.peer), change.from_version, names, change.removed))
        return found
