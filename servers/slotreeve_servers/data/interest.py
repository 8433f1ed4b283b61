"""Which session servers want to hear of which services (original: the subscriber side of ``DataChangeEventCenter``)."""

from __future__ import annotations

from slotreeve.ports import Connection
from slotreeve_protocol.slot_messages import Access, SlotAnswer, SlotInterest

from slotreeve_servers.data.changes import Changes
from slotreeve_servers.data.slots import HeldSlot, HeldSlots


class SessionInterests:
    """Kept by connection; what a session server is to be told of is noted on the slot (:class:`Tracked`)."""

    def __init__(self, slots: HeldSlots, changes: Changes) -> None:
        self._slots, self._changes = slots, changes
        self._of: dict[Connection, dict[str, int]] = {}

    def declare(self, connection: Connection, interest: SlotInterest) -> SlotAnswer:
        """A session server begins or ceases to want services of one slot; each that it wants is told, once it can."""
        slot = self._slots.held.get(interest.slot)
        if slot is None:
            return SlotAnswer(interest.slot, Access.MOVED, 0)
        access = slot.access(interest.leader_epoch)
        if access is Access.ACCEPT or access is Access.MIGRATING:
            mine = self._of.setdefault(connection, {})
            for known in interest.wanted:
                service = slot.track(known.data_info_id)
                ready = slot.serving and connection.peer.process_id in slot.compared
                service.sessions[connection] = None if ready else known
                mine[known.data_info_id] = interest.slot
                if ready:
                    self._changes.announce(slot, known.data_info_id, connection, known)
            for data_info_id in interest.unwanted:
                if mine.pop(data_info_id, None) is not None:
                    self._lose(connection, data_info_id, interest.slot)
        return SlotAnswer(interest.slot, access, slot.slot.leader_epoch)

    def announce(self, slot: HeldSlot, processes: set[str]) -> None:
        """Tell these session servers what they want of a serving slot, where they wait for it."""
        for data_info_id, service in slot.tracked.items():
            for connection, known in service.sessions.items():
                if known is not None and connection.peer.process_id in processes:
                    self._changes.announce(slot, data_info_id, connection, known)
                    service.sessions[connection] = None

    def closed(self, connection: Connection) -> None:
        """The session server's connection ended."""
        for data_info_id, number in self._of.pop(connection, {}).items():
            self._lose(connection, data_info_id, number)

    def _lose(self, connection: Connection, data_info_id: str, number: int) -> None:
        slot = self._slots.held.get(number)
        service = slot.tracked.get(data_info_id) if slot is not None else None
        if slot is not None and service is not None:
            service.sessions.pop(connection, None)
            if not service.sessions:
                del slot.tracked[data_info_id]
