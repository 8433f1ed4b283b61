"""What clients want of leases, on its way to the slot leaders. A session server keeps nothing of a lease.

A request for many leases goes out as one message to each slot leader concerned. What a leader did not carry out is
asked again, of the slot's leader of that moment, up to four seconds: to register, renew or end a lease twice is as
once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from slotreeve.errors import Backpressure, ModelError, RegistrationError
from slotreeve.model.rights import Right
from slotreeve.ports import Message
from slotreeve_protocol.lease_messages import (
    MOST_TAKEN,
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
from slotreeve_protocol.leases import check_lease, check_lease_id
from slotreeve_protocol.slot_messages import Access

from slotreeve_servers.node.outbox import Outbox, Peer, Request, TurnEnd
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.clients.permits import Permit, permit_of
from slotreeve_servers.session.records.leader_waits import LeaderWaits
from slotreeve_servers.session.records.lookups import Lookups, WaitingLookup
from slotreeve_servers.session.records.reads import ASK_SECONDS, GIVE_UP_SECONDS
from slotreeve_servers.session.records.routes import Routes

MOST_OPEN = 10_000
"""So many requests may be open; more are refused."""

LEASES_A_REQUEST = 10
"""So many leases count as one more request. A client that registers very many, one message after the other, stays
within the limit: a leader registers some 50,000 a second."""
MOST_IN_FLIGHT = 2_000
"""So many leases may be on their way to one leader, and one message with more: the leader carries a message out in one
go, and what it has to store waits behind all that are there."""

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
        open: messages to slot leaders without an answer, and slots that wait for a leader.
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
        # A leader is asked for the holders of keys in turn.
        self._turns = Lookups(outbox, MOST_IN_FLIGHT, first_parts=0)
        self._open = 0
        self._open_of: Counter[Peer] = Counter()
        self._waits = LeaderWaits[tuple[OpenLeases, int]](
            outbox, lambda slot: routes.leader_of(slot) is not None, self._go_on, self._give_up
        )
        self._to_try: dict[OpenLeases, list[int]] = {}
        self._try_soon = TurnEnd(outbox, self._try_again)

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
        leases = OpenLeases(request, slots, self._outbox.now() + GIVE_UP_SECONDS, open=1)
        self._try(leases, slots)
        leases.open -= 1  # not before: leaders that take nothing answer at once
        self._end_if_over(leases)

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
                for lease_id in lease_ids:
                    check_lease_id(lease_id)
                (batch.renewed if isinstance(message, RenewLeases) else batch.ended)[data_info_id] = lease_ids
        return slots

    def _try(self, leases: OpenLeases, numbers: Iterable[int]) -> None:
        """Send what concerns these slots to the leaders that are known; the rest waits for one."""
        messages: dict[Peer, list[SlotLeases]] = {}
        for number in numbers:
            leader, batch = self._routes.leader_of(number), leases.slots[number]
            if leader is None:
                self._wait(leases, number)
            else:
                peer, epoch = leader
                messages.setdefault(peer, []).append(
                    SlotLeases(number, epoch, batch.registered, batch.renewed, batch.ended)
                )
        leases.open += len(messages)
        for peer, batches in messages.items():
            message, answered = KeepLeases(batches), partial(self._answered, leases, peer, {b.slot for b in batches})
            weight, client = max(1, sum(map(_leases_in, batches))), leases.request.peer
            self._turns.ask(peer, WaitingLookup(client, message, answered, ASK_SECONDS, leases.deadline, weight))

    def _answered(
        self, leases: OpenLeases, peer: Peer, asked: set[int], reply: Message | None, error: Exception | None
    ) -> None:
        why = str(error) if error is not None else f"{peer.node} answered with a {type(reply).__name__}"
        if isinstance(reply, LeasesKept):
            why = f"{peer.node} is not sure to lead the slot, or its followers lack something"
            for answer in reply.answers:
                is_kept = answer.access is Access.ACCEPT or answer.access is Access.MIGRATING
                if is_kept and answer.slot in asked:
                    self._waits.served(answer.slot)
                    asked.discard(answer.slot)
                    del leases.slots[answer.slot]
                    for name, lease_ids in answer.unknown.items():
                        leases.unknown.setdefault(name, []).extend(lease_ids)
        if self._outbox.silent_for(leases.request.peer) != math.inf:  # nobody is asked for a client that has gone
            for number in asked:
                self._wait(leases, number, why)
        leases.open -= 1
        self._end_if_over(leases)

    def _wait(self, leases: OpenLeases, number: int, refusal: str = "") -> None:
        """Let one slot's part wait for a leader that carries it out."""
        leases.open += 1
        self._waits.add(number, (leases, number), leases.deadline, refusal)

    def _go_on(self, part: tuple[OpenLeases, int]) -> None:
        leases, number = part
        self._to_try.setdefault(leases, []).append(number)
        self._try_soon.soon()

    def _try_again(self) -> None:
        """Ask again for what waits no more, each leader with one message for each request; but for no client that has
        gone: it may have asked elsewhere for something else since."""
        to_try, self._to_try = self._to_try, {}
        for leases, numbers in to_try.items():
            if self._outbox.silent_for(leases.request.peer) != math.inf:
                self._try(leases, numbers)
            leases.open -= len(numbers)
            self._end_if_over(leases)

    def _give_up(self, part: tuple[OpenLeases, int], refusal: str) -> None:
        leases, number = part
        leases.why = refusal or f"slot {number} has no leader that can be reached"
        leases.open -= 1
        self._end_if_over(leases)

    def _end_if_over(self, leases: OpenLeases) -> None:
        """Answer where nothing is open any more."""
        if leases.open:
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


def _leases_in(batch: SlotLeases) -> int:
    return len(batch.registered) + sum(map(len, batch.renewed.values())) + sum(map(len, batch.ended.values()))


def _ids_of(registered: Iterable[LeaseTerms]) -> LeaseIds:
    found: LeaseIds = {}
    for terms in registered:
        found.setdefault(terms.data_info_id, []).append(terms.lease_id)
    return found
