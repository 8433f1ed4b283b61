"""Bugs that show where much fails at once, or again and again. See ``planted_bugs``."""

from __future__ import annotations

import math

from slotreeve.errors import TransportError
from slotreeve.model.slots import SlotTable
from slotreeve.ports import Connection, Message
from slotreeve_client.dialler import Dialler
from slotreeve_protocol.lease_messages import KeepLeases
from slotreeve_protocol.leases import LEASE_OWNER
from slotreeve_protocol.meta_messages import View
from slotreeve_servers.data.core import DataCore
from slotreeve_servers.data.endings.barrier import Barrier
from slotreeve_servers.data.endings.lease_keeper import LeaseKeeper
from slotreeve_servers.data.endings.lost_clients import LostClients
from slotreeve_servers.data.slots.slots import HeldSlot
from slotreeve_servers.node.membership import Membership
from slotreeve_servers.node.outbox import Peer, Request

from tests.simulation.planting import Patch, bug, replaced


@bug("a mark whose link died counts as answered", "flapping", 80300003)
def _dead_links_answer() -> Patch:
    def ask_one(self: Barrier, process_id: str, peer: Peer) -> None:
        def replied(_reply: Message | None, _error: Exception | None) -> None:
            self._asked.discard(process_id)
            self._answered.add(process_id)
            if not self._asked and self._is_complete():
                self._end_when_read()

        if self._outbox.ask(peer, self._mark, replied, math.inf):
            self._asked.add(process_id)

    return replaced(Barrier, "_ask_one", ask_one)


@bug("a client that connects does not tell for how long it may pause", "flapping")
def _no_pause_in_hellos() -> Patch:
    async def attempt(self: Dialler, address: str) -> Connection | None:
        seconds = self._reconnect.attempt_seconds
        try:
            connection = await self._transport.connect(address, self._hello, self._handler, seconds)
        except TransportError as error:
            self._reconnect.failed(address, error)
            return None
        return connection if connection is self._arrived else None

    return replaced(Dialler, "attempt", attempt)


@bug("a new leader does not search for the records of session processes that it knows to be gone", "zones")
def _no_search_at_takeover() -> Patch:
    def adopt(self: LostClients, slot: HeldSlot) -> None:
        owners = {record.session for record in slot.store.records()} - {LEASE_OWNER}
        self._sessions.suspect(sorted(owners.difference(self._sessions.members)))

    return replaced(LostClients, "adopt", adopt)


@bug("a process that was started again leads what the former one of its name led", "restarts")
def _leads_as_the_former_one() -> Patch:
    def table_of(self: DataCore, view: View) -> SlotTable:
        return view.table

    return replaced(DataCore, "_table_of", table_of)


@bug("a leader that the meta leader has not confirmed of late renews leases", "parted")
def _unconfirmed_renew() -> Patch:
    original = LeaseKeeper.keep

    def keep(self: LeaseKeeper, peer: Peer, message: KeepLeases, request: Request) -> None:
        with replaced(Membership, "has_lease", property(lambda _self: True)):
            original(self, peer, message, request)

    return replaced(LeaseKeeper, "keep", keep)
