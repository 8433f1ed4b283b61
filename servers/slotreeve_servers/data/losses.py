"""How a data server learns that clients are lost: session servers report them, or are gone themselves."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from slotreeve.model.publisher import Publisher
from slotreeve_protocol.leases import LEASE_OWNER
from slotreeve_protocol.slot_messages import Claims

from slotreeve_servers.data.departures import Departures
from slotreeve_servers.data.gone_sessions import GoneSessions
from slotreeve_servers.data.held_back import LostRecord
from slotreeve_servers.data.sessions import LINK_SILENCE_SECONDS, SessionServers
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.data.slots import HeldSlot, HeldSlots
from slotreeve_servers.node.outbox import Outbox, Peer, TurnEnd

log = logging.getLogger("slotreeve.data")

SEARCHED_AT_ONCE = 2_000
"""So many records of a slot are searched in a turn: one large service holds up no others."""


class SlotSearch(NamedTuple):
    """The records of one slot, of which those of a session process that is gone are looked for."""

    process_id: str
    slot: HeldSlot
    left: Iterator[Publisher]


class ClientLosses:
    """Finds the registrations of lost clients in the led slots, and hands them to the departures.

    The records of a session process that is gone are searched one slot at a time, and a large slot in pieces, because
    there may be very many.
    """

    def __init__(
        self,
        outbox: Outbox,
        slots: HeldSlots,
        sessions: SessionServers,
        departures: Departures,
        rules: DataSettings,
    ) -> None:
        self._outbox, self._slots, self._sessions = outbox, slots, sessions
        self._departures, self._rules = departures, rules
        self._gone = GoneSessions()
        # By session process: the number of the connection that brings its claims.
        self._claiming: dict[str, int] = {}
        self._to_search: deque[tuple[str, int]] = deque()
        self._searching: SlotSearch | None = None
        self._search = TurnEnd(outbox, self._search_next)

    def rules_changed(self, rules: DataSettings) -> None:
        """The operator has changed the rules."""
        self._rules = rules

    # --- what session servers report ---------------------------------------------------------------------------------

    def reported(self, slot: HeldSlot, tombstones: list[Publisher]) -> None:
        """A session server has lost the clients of these registrations."""
        entries = []
        for tombstone in tombstones:
            held = slot.store.find(tombstone)
            if held is not None and held.session == tombstone.session and not held.newer_than(tombstone):
                entries.append(LostRecord(slot, held, leaves_tombstone=True))
        self._departures.lost(entries)

    def linked(self, peer: Peer) -> None:
        """A session server has connected. From now on nothing is removed because its process was gone: the comparison
        that follows would miss it."""
        if self._gone.since(peer.process_id) is not None:
            self.look()

    def claimed(self, peer: Peer, message: Claims) -> None:
        """A session server begins and ends claims of clients.

        A connection first brings every claim, and later what begins and ends. What an older one still brings does not
        count. One that brings nothing changes nothing: it may be an attempt that the session server has given up.
        """
        if not self._sessions.is_member(peer.process_id):
            # It may end before any view names it, and no view would show then that its claims have ended with it.
            self._gone.suspect((peer.process_id,))
        number = self._sessions.number(peer)
        claiming = self._claiming.get(peer.process_id, 0)
        if number < claiming:
            return
        former: list[str] = []
        if number > claiming:
            self._claiming[peer.process_id] = number
            former = self._departures.claims.drop(peer.process_id)
        self._departures.claims.begin(peer.process_id, message.begun)
        self._departures.claims.end(peer.process_id, message.ended)
        self._departures.claims_changed((*former, *message.begun, *message.ended))

    # --- session processes that are gone -----------------------------------------------------------------------------

    def is_linked(self, process_id: str) -> bool:
        """Whether messages of a session process still arrive."""
        peer = self._sessions.newest(process_id)
        return peer is not None and self._outbox.silent_for(peer) < LINK_SILENCE_SECONDS

    @property
    def gone(self) -> set[str]:
        """The session processes that are gone, as far as this server knows."""
        return self._gone.processes

    def view_changed(self, before: set[str], alive: set[str]) -> None:
        """The members of the view changed."""
        for process_id in self._gone.view_changed(before, alive):
            self._departures.process_is_back(process_id)
        self.look()

    def adopt(self, slot: HeldSlot) -> None:
        """This server serves the slot from now on: it may hold records of session processes that are no members."""
        owners = {record.session for record in slot.store.records()} - {LEASE_OWNER}
        for process_id in sorted(owners - set(self._sessions.members)):
            self._gone.suspect((process_id,))
            if self._gone.since(process_id) is not None:
                self._to_search.append((process_id, slot.slot.id))
                self._search.soon()

    def look(self) -> None:
        """Look which session processes are gone, and which of those are back.

        The connections of a process that is gone are closed. If it was only frozen, it connects again and is compared
        with: its clients may never have noticed anything, and then nobody else sends what is removed here meanwhile.
        """
        now, grace = self._outbox.attended(), self._rules.session_grace_seconds
        gone, back = self._gone.look(self.is_linked, now)
        for process_id in back:
            self._departures.process_is_back(process_id)
        for process_id in gone:
            log.warning("session process %s is gone; its clients have %g s to return", process_id, grace)
            self._departures.process_is_gone(process_id)
            self._claiming.pop(process_id, None)
            for peer in self._sessions.connections_of(process_id):
                self._outbox.close(peer, "this session process is gone as far as the data servers know")
            self._to_search.extend((process_id, slot.slot.id) for slot in self._slots.led())
            self._search.soon()
        self._gone.forget(now - grace - self._rules.brake_hold_seconds)

    def _search_next(self) -> None:
        """Search a part of one slot for records of a session process that is gone, and the next one in the next
        turn."""
        search = self._searching if self._searching is not None else self._next_search()
        if search is None:
            return
        process_id, slot, left = search
        part = list(islice(left, SEARCHED_AT_ONCE))
        is_wanted = self._slots.get(slot.slot.id) is slot and slot.leads and self._gone.since(process_id) is not None
        if is_wanted:
            found = [record for record in part if record.session == process_id]
            self._departures.lost(LostRecord(slot, record, leaves_tombstone=False, gone=process_id) for record in found)
        self._searching = search if is_wanted and len(part) == SEARCHED_AT_ONCE else None
        self._search.soon()

    def _next_search(self) -> SlotSearch | None:
        while self._to_search:
            process_id, number = self._to_search.popleft()
            slot = self._slots.get(number)
            if slot is not None and slot.leads:
                return SlotSearch(process_id, slot, iter(list(slot.store.records())))
        return None
