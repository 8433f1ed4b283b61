"""How a data server learns that clients are lost: session servers report them, or are gone themselves."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Iterator

from slotreeve.model.nodes import Node
from slotreeve.model.publisher import Publisher
from slotreeve_protocol.leases import LEASE_OWNER
from slotreeve_protocol.slot_messages import Presence, SlotWrite

from slotreeve_servers.data.endings.ending import LostRecord
from slotreeve_servers.data.endings.ending_rounds import SlotWriter
from slotreeve_servers.data.endings.endings import Endings
from slotreeve_servers.data.endings.sessions import LINK_SILENCE_SECONDS, SessionServers
from slotreeve_servers.data.slots.slots import HeldSlot, HeldSlots
from slotreeve_servers.node.outbox import Outbox, Peer

log = logging.getLogger("slotreeve.data")


class LostClients:
    """Finds the registrations of lost clients in the led slots, and hands them to the endings."""

    def __init__(
        self,
        outbox: Outbox,
        slots: HeldSlots,
        writer: SlotWriter,
        sessions: SessionServers,
        endings: Endings,
    ) -> None:
        self._outbox, self._slots, self._writer = outbox, slots, writer
        self._sessions, self._endings = sessions, endings
        # By session process: the number of the connection that tells who arrives there.
        self._telling: dict[str, int] = {}
        self._to_search: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._searching = ""  # the process for which a slot is searched now, in parts; none while it is empty

    # --- what session servers report ---------------------------------------------------------------------------------

    def reported(self, slot: HeldSlot, records: list[Publisher]) -> None:
        """A session server has lost the clients of these records; one of release 0.1 sends their tombstones.

        A leader that does not serve the slot yet takes what it does not have: the client may be on its way to another
        session server. If it serves, that is over; and so is what is newer here.
        """
        news = [record for record in records if not record.is_tombstone and slot.store.is_news(record)]
        if news and not slot.serving:
            self._writer.store(slot, SlotWrite(slot.slot.id, slot.slot.leader_epoch, news, [], []))
        lost: list[LostRecord] = []
        for record in records:
            held = slot.store.find(record)
            if held is not None and held.session == record.session and not held.newer_than(record):
                lost.append(LostRecord(slot, held, is_reported=True))
            else:
                self._endings.over.add(record.session, record)
        self._endings.lost(lost)

    def told(self, peer: Peer, message: Presence) -> None:
        """A session server tells which clients arrive there, and which do no more.

        A connection first brings every client that arrives, and later what changes. What an older one still brings does
        not count. One that brings nothing changes nothing: it may be an attempt that the session server has given up.
        """
        if peer.process_id not in self._sessions.members:
            # It may end before any view names it, and no view would show then that nobody arrives there any more.
            self._sessions.suspect((peer.process_id,))
        number, presence = self._sessions.number(peer), self._endings.presence
        telling = self._telling.get(peer.process_id, 0)
        if number < telling:
            return
        former: list[str] = []
        if number > telling:
            self._telling[peer.process_id] = number
            former = presence.drop(peer.process_id)
        presence.arrive(peer.process_id, message.arriving)
        presence.arrived(peer.process_id, message.arrived)
        for client in message.left:
            presence.left(client, self._outbox.attended())
        self._endings.presence_changed((*former, *message.arriving, *message.arrived))

    # --- session processes that are gone -----------------------------------------------------------------------------

    def is_linked(self, process_id: str) -> bool:
        """Whether messages of a session process still arrive."""
        peer = self._sessions.newest(process_id)
        return peer is not None and self._outbox.silent_for(peer) < LINK_SILENCE_SECONDS

    @property
    def gone(self) -> set[str]:
        """The session processes that are gone, as far as this server knows."""
        return self._sessions.gone

    def view_changed(self, sessions: Iterable[Node]) -> None:
        """A newer view has these session servers."""
        for process_id in self._sessions.view_changed(sessions):
            self._endings.process_is_back(process_id)
        self.look()

    def adopt(self, slot: HeldSlot) -> None:
        """This server serves the slot from now on: it may hold records of session processes that are no members."""
        owners = {record.session for record in slot.store.records()} - {LEASE_OWNER}
        strangers = sorted(owners.difference(self._sessions.members))
        self._sessions.suspect(strangers)
        for process_id in strangers:
            if self._sessions.is_gone(process_id):
                self._to_search[process_id, slot.slot.id] = None
                self._outbox.pace(self._search)

    def look(self) -> None:
        """Look which session processes are gone, and which of those are back.

        The connections of a process that is gone are closed. If it was only frozen, it connects again and is compared
        with: its clients may never have noticed anything, and then nobody else sends what ends here meanwhile.
        """
        gone, back = self._sessions.look(self.is_linked)
        for process_id in back:
            self._endings.process_is_back(process_id)
        for process_id in gone:
            log.warning(
                "session process %s is gone; its clients have %g s to return", process_id, self._endings.grace_seconds
            )
            self._endings.process_is_gone(process_id)
            self._telling.pop(process_id, None)
            self._to_search.update(((process_id, slot.slot.id), None) for slot in self._slots.led())
            self._outbox.pace(self._search)
            for peer in self._sessions.connections:
                if peer.process_id == process_id:
                    self._outbox.close(peer, "this session process is gone as far as the data servers know")
        searched = {self._searching, *(process_id for process_id, _ in self._to_search)}
        self._sessions.forget(self.gone.difference(searched, self._endings.gone_processes))

    def _search(self) -> Iterator[None]:
        """Search the slots for records of session processes that are gone."""
        while self._to_search:
            (process_id, number), _ = self._to_search.popitem(last=False)
            slot = self._slots.get(number)
            if slot is None or not slot.leads:
                continue
            self._searching = process_id
            for record in _records_of(slot, process_id):
                if not self._slots.has(slot) or not self._sessions.is_gone(process_id):
                    break
                self._endings.lost((LostRecord(slot, record, gone=process_id),))
                yield
            self._searching = ""


def _records_of(slot: HeldSlot, process_id: str) -> Iterator[Publisher]:
    for name in slot.store.services_of(process_id):
        yield from [one for one in slot.store.services.get(name, {}).values() if one.session == process_id]
