"""Reads on behalf of clients, at the slot leaders."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from slotreeve.errors import RequestTimeout
from slotreeve.model.rights import Right
from slotreeve.ports import Message
from slotreeve_protocol.client_messages import Datum, Get
from slotreeve_protocol.general_messages import Failed
from slotreeve_protocol.slot_messages import Fetch

from slotreeve_servers.node.outbox import Outbox, Peer, Request
from slotreeve_servers.session.clients.permits import permit_of
from slotreeve_servers.session.records.leader_waits import LeaderWaits
from slotreeve_servers.session.records.lookups import Lookups, WaitingLookup
from slotreeve_servers.session.records.routes import Routes

GIVE_UP_SECONDS = 4.0
ASK_SECONDS = 2.0


@dataclass(slots=True, eq=False)
class Read:
    """One page of a service to be read for one request, until a deadline on the server's clock."""

    request: Request
    slot: int
    page: Get
    deadline: float


class Reads:
    """Answers the reads of clients. While a slot has no leader that serves, a read waits, up to four seconds (I7).

    Args:
        slot_of: the slot of a data info id; it raises ModelError where the id cannot be one.
    """

    def __init__(self, outbox: Outbox, routes: Routes, lookups: Lookups, slot_of: Callable[[str], int]) -> None:
        self._outbox, self._routes, self._lookups, self._slot_of = outbox, routes, lookups, slot_of
        self._waits = LeaderWaits[Read](outbox, self._is_led, self._try, self._fail)

    def get(self, peer: Peer, page: Get, request: Request) -> None:
        """Read one page of a service for a client; the reply is a Datum, or Failed.

        Raises:
            Forbidden: who asks may not see the service.
            ModelError: this cannot be a data info id.
        """
        permit = permit_of(peer.proven)
        if permit is not None:
            permit.check(Right.READ, page.data_info_id)
        slot = self._slot_of(page.data_info_id)
        self._try(Read(request, slot, page, self._outbox.now() + GIVE_UP_SECONDS))

    def _try(self, read: Read) -> None:
        leader = self._routes.leader_of(read.slot)

        def answered(reply: Message | None, error: Exception | None) -> None:
            if self._outbox.silent_for(read.request.peer) == math.inf:
                return  # who has asked has gone
            # A reply under an epoch that is no longer the slot's may be incomplete; the read is repeated (I7).
            if isinstance(reply, Datum) and self._routes.leader_of(read.slot) == leader:
                self._waits.served(read.slot)
                self._outbox.reply(read.request, reply)
            else:
                why = str(error) if error is not None else "its leader does not serve it yet"
                self._waits.add(read.slot, read, read.deadline, why)

        if leader is None:
            self._waits.add(read.slot, read, read.deadline)
            return
        peer, epoch = leader
        page = read.page
        fetch = Fetch(read.slot, epoch, page.data_info_id, page.start, page.version)
        self._lookups.ask(peer, WaitingLookup(read.request.peer, fetch, answered, ASK_SECONDS, read.deadline))

    def _is_led(self, slot: int) -> bool:
        return self._routes.leader_of(slot) is not None

    def _fail(self, read: Read, why: str) -> None:
        why = why or "it has no leader that can be reached"
        text = f"slot {read.slot} of {read.page.data_info_id} cannot be read: {why}"
        self._outbox.reply(read.request, Failed(RequestTimeout.code, text))
