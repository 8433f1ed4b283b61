"""Which session servers have an interest in which services (original: the subscriber side of
``DataChangeEventCenter``)."""

from __future__ import annotations

from slotreeve_protocol.slot_messages import Access, SlotAnswer, SlotInterest

from slotreeve_servers.data.announcing.changes import Changes
from slotreeve_servers.data.slots.slots import HeldSlot, HeldSlots
from slotreeve_servers.node.outbox import Peer


class SessionInterests:
    """Interests by peer. What a session server is to be sent is noted on the slot (:class:`TrackedService`)."""

    def __init__(self, slots: HeldSlots, changes: Changes) -> None:
        self._slots, self._changes = slots, changes
        self._slot_of: dict[Peer, dict[str, int]] = {}

    def declare(self, peer: Peer, interest: SlotInterest) -> SlotAnswer:
        """A session server begins or ends its interest in services of one slot. Each service that it begins with is
        announced to it: now, or once the slot serves and was compared with it."""
        slot, answer = self._slots.get(interest.slot), self._slots.answer(interest.slot, interest.leader_epoch)
        if slot is not None and answer.access in {Access.ACCEPT, Access.MIGRATING}:
            slot_of = self._slot_of.setdefault(peer, {})
            for known in interest.wanted:
                service = slot.track(known.data_info_id)
                ready = slot.serving and peer.process_id in slot.compared
                service.sessions[peer] = known
                slot_of[known.data_info_id] = interest.slot
                if ready:
                    self._changes.announce(slot, known.data_info_id, peer, known)
            for data_info_id in interest.unwanted:
                if slot_of.pop(data_info_id, None) is not None:
                    self._end(peer, data_info_id, interest.slot)
        return answer

    def announce(self, slot: HeldSlot, processes: set[str]) -> None:
        """Send these session processes the services of a serving slot that they wait for."""
        for data_info_id, service in slot.tracked.items():
            for peer, known in service.sessions.items():
                if known is not None and peer.process_id in processes:
                    self._changes.announce(slot, data_info_id, peer, known)

    def closed(self, peer: Peer) -> None:
        """The connection to a session server has ended."""
        for data_info_id, number in self._slot_of.pop(peer, {}).items():
            self._end(peer, data_info_id, number)

    def _end(self, peer: Peer, data_info_id: str, number: int) -> None:
        slot = self._slots.get(number)
        service = slot.tracked.get(data_info_id) if slot is not None else None
        if slot is not None and service is not None:
            service.sessions.pop(peer, None)
            if not service.sessions:
                del slot.tracked[data_info_id]
