"""What clients want of leases, on its way to the slot leaders. A session server keeps nothing of a lease.

A request for many leases goes out as one message to each slot leader concerned. What a leader did not carry out is
asked again, of the slot's leader of that moment, up to four seconds: to register, renew or end a lease twice is as
once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from slotreeve.errors import Backpressure, ModelError, RegistrationError
from slotreeve.model.rights import Right
from slotreeve.ports import Message
from slotreeve_protocol.lease_messages import (
    EndLeases,
    KeepLeases,
    LeaseIds,
    LeasesKept,
    LeasesKnown,
    LeaseTerms,
    RegisterLeases,
    RenewLeases,
    SlotLeases,
)
from slotreeve_protocol.leases import check_lease
from slotreeve_protocol.slot_messages import Access

from slotreeve_servers.node.outbox import Outbox, Peer, Request
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.clients.permits import Permit, permit_of
from slotreeve_servers.session.records.routes import Routes

RETRY_SECONDS = 0.05
GIVE_UP_SECONDS = 4.0
ASK_SECONDS = 2.0
MOST_OPEN = 10_000
"""So many requests may be open; more are refused."""

LEASES_A_REQUEST = 10
"""So many leases count as one more request. A client that registers very many, one message after the other, stays
within the limit: a leader registers some 50,000 a second."""
MOST_TAKEN = 21_000
"""Most leases in one request. Ours has 5,000; clients of version 0.1.0 sent as many as 4 MiB hold."""

LeaseRequest = RegisterLeases | RenewLeases | EndLeases


def weight_of(message: LeaseRequest) -> int:
    """As many requests as this one counts for."""
    return 1 + number_of(message) // LEASES_A_REQUEST


def number_of(message: LeaseRequest) -> int:
    """Number of leases that it concerns. A service without any is work as well, and counts as one."""
    if isinstance(message, RegisterLeases):
        return len(message.leases)
    return sum(max(1, len(ids)) for ids in message.leases.values())


@dataclass(eq=False, slots=True)
class OpenLeases:
    """One request of a client.

    Attributes:
        slots: what is not carried out yet, by slot; the leader epochs in it mean nothing.
        open: messages to slot leaders without an answer.
        unknown: the leases that do not exist.
        why: why the last part was not carried out.
    """

    request: Request
    slots: dict[int, SlotLeases]
    deadline: float
    open: int = 0
    unknown: LeaseIds = field(default_factory=dict)
    why: str = ""


class LeaseRequests:
    """Answers the requests of clients about leases.

    Args:
        slot_of: the slot of a data info id; it raises ModelError where the id cannot be one.
        clients: the connected clients.
    """

    def __init__(
        self,
        outbox: Outbox,
        routes: Routes,
        slot_of: Callable[[str], int],
        clients: Mapping[Peer, ConnectedClient],
    ) -> None:
        self._outbox, self._routes, self._slot_of, self._clients = outbox, routes, slot_of, clients
        self._open = 0
        self._open_of: Counter[Peer] = Counter()

    def answer(self, peer: Peer, message: LeaseRequest, request: Request) -> None:
        """Bring the request to the slot leaders; the reply is LeasesKnown, or Failed.

        Raises:
            ModelError: one of the leases cannot be good, or they are too many; nothing was done.
            Backpressure: too many requests are open.
            RegistrationError: an operator has switched the client off.
            Forbidden: the client may not register one of the services; nothing was done.
        """
        client = self._clients.get(peer)
        if client is not None and client.is_off:
            raise RegistrationError(f"an operator has switched {peer.node} off; it may keep no leases")
        if number_of(message) > MOST_TAKEN:
            raise ModelError(f"a request for {number_of(message)} leases; send at most {MOST_TAKEN} in each")
        if self._open + self._open_of[peer] >= MOST_OPEN:  # nobody alone takes more than half of them
            own = self._open_of[peer]
            raise Backpressure(f"{self._open} requests about leases are open, {own} of this client; send later")
        slots = self._by_slot(message, permit_of(peer.proven))
        self._open += 1
        self._open_of[peer] += 1
        self._try(OpenLeases(request, slots, self._outbox.now() + GIVE_UP_SECONDS))

    def _by_slot(self, message: LeaseRequest, permit: Permit | None) -> dict[int, SlotLeases]:
        slots: dict[int, SlotLeases] = {}

        def at(data_info_id: str) -> SlotLeases:
            if permit is not None:
                permit.check(Right.REGISTER, data_info_id)
            number = self._slot_of(data_info_id)
            return slots.setdefault(number, SlotLeases(number, 0, [], {}, {}))

        if isinstance(message, RegisterLeases):
            for terms in message.leases:
                check_lease(terms.lease_id, terms.ttl_ms / 1000, terms.data, terms.zone)
                at(terms.data_info_id).registered.append(terms)
        else:
            for data_info_id, lease_ids in message.leases.items():
                batch = at(data_info_id)
                (batch.renewed if isinstance(message, RenewLeases) else batch.ended)[data_info_id] = lease_ids
        return slots

    def _try(self, leases: OpenLeases) -> None:
        """Send what is left to the leaders that are known, and look again once all have answered."""
        messages: dict[Peer, list[SlotLeases]] = {}
        for number, batch in leases.slots.items():
            leader = self._routes.leader_of(number)
            if leader is None:
                leases.why = f"slot {number} has no leader that can be reached"
            else:
                peer, epoch = leader
                messages.setdefault(peer, []).append(
                    SlotLeases(number, epoch, batch.registered, batch.renewed, batch.ended)
                )
        for peer, batches in messages.items():
            if self._outbox.ask(peer, KeepLeases(batches), partial(self._answered, leases, peer), ASK_SECONDS):
                leases.open += 1
            else:
                leases.why = f"{peer.node} takes no requests now"
        if not leases.open:
            self._go_on(leases)

    def _answered(self, leases: OpenLeases, peer: Peer, reply: Message | None, error: Exception | None) -> None:
        leases.open -= 1
        if isinstance(reply, LeasesKept):
            for answer in reply.answers:
                if answer.access is Access.ACCEPT or answer.access is Access.MIGRATING:
                    leases.slots.pop(answer.slot, None)
                    for name, lease_ids in answer.unknown.items():
                        leases.unknown.setdefault(name, []).extend(lease_ids)
                else:
                    leases.why = f"{peer.node} is not sure to lead slot {answer.slot}, or its followers lack something"
        else:
            leases.why = str(error) if error is not None else f"{peer.node} answered with a {type(reply).__name__}"
        if not leases.open:
            self._go_on(leases)

    def _go_on(self, leases: OpenLeases) -> None:
        if leases.slots and self._outbox.now() < leases.deadline:
            self._outbox.after(RETRY_SECONDS, partial(self._try, leases))
            return
        self._open -= 1
        self._open_of[leases.request.peer] -= 1
        if not self._open_of[leases.request.peer]:
            del self._open_of[leases.request.peer]
        unanswered: LeaseIds = {}
        for batch in leases.slots.values():
            unanswered |= _ids_of(batch.registered) | batch.renewed | batch.ended
        reason = leases.why if unanswered else ""
        self._outbox.reply(leases.request, LeasesKnown(leases.unknown, unanswered, reason))


def _ids_of(registered: Iterable[LeaseTerms]) -> LeaseIds:
    found: LeaseIds = {}
    for terms in registered:
        found.setdefault(terms.data_info_id, []).append(terms.lease_id)
    return found
