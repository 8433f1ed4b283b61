"""Which session servers have an interest in which services (original: the subscriber side of
``DataChangeEventCenter``)."""

from __future__ import annotations

from slotreeve_protocol.slot_messages import Access, SlotAnswer, SlotInterest

from slotreeve_servers.data.announcing.changes import Changes
from slotreeve_servers.data.slots.slots import HeldSlot, HeldSlots
from slotreeve_servers.node.outbox import Peer


class SessionInterests:
    """What a session server watches and is to be sent is noted on the slot (:class:`TrackedService`), and goes with
    it."""

    def __init__(self, slots: HeldSlots, changes: Changes) -> None:
        self._slots, self._changes = slots, changes

    def declare(self, peer: Peer, interest: SlotInterest) -> SlotAnswer:
        """A session server begins or ends its interest in services of one slot. Each service that it begins with is
        announced to it: now, or once the slot serves and was compared with it."""
        slot, answer = self._slots.get(interest.slot), self._slots.answer(interest.slot, interest.leader_epoch)
        if slot is not None and answer.access in {Access.ACCEPT, Access.MIGRATING}:
            watched = slot.watched.setdefault(peer, {})
            for known in interest.wanted:
                service = slot.track(known.data_info_id)
                ready = slot.serving and peer.process_id in slot.compared
                service.sessions[peer] = known
                watched[known.data_info_id] = None
                if ready:
                    self._changes.announce(slot, known.data_info_id, peer, known)
            for data_info_id in interest.unwanted:
                watched.pop(data_info_id, None)
                self._end(slot, peer, data_info_id)
        return answer

    def announce(self, slot: HeldSlot, processes: set[str]) -> None:
        """Send these session processes the services of a serving slot that they wait for."""
        for data_info_id, service in slot.tracked.items():
            for peer, known in service.sessions.items():
                if known is not None and peer.process_id in processes:
                    self._changes.announce(slot, data_info_id, peer, known)

    def closed(self, peer: Peer) -> None:
        """The connection to a session server has ended."""
        for slot in self._slots.led():
            for data_info_id in slot.watched.pop(peer, ()):
                self._end(slot, peer, data_info_id)

    @staticmethod
    def _end(slot: HeldSlot, peer: Peer, data_info_id: str) -> None:
        service = slot.tracked.get(data_info_id)
        if service is not None:
            service.sessions.pop(peer, None)
            if not service.sessions:
                del slot.tracked[data_info_id]
