"""Lists of all services on behalf of clients, put together from the slot leaders."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import partial

from slotreeve.errors import RequestTimeout
from slotreeve.model.data_info import MAX_LENGTH
from slotreeve.model.rights import Right
from slotreeve.model.text import check_text
from slotreeve.ports import Message, SlotFunction
from slotreeve_protocol.client_messages import ListedUpTo, ListServices, Services
from slotreeve_protocol.general_messages import Failed

from slotreeve_servers.node.digests import led_digest
from slotreeve_servers.node.outbox import Outbox, Peer, Request
from slotreeve_servers.session.clients.permits import Permit, permit_of
from slotreeve_servers.session.records.leader_waits import EVERY_SLOT, LeaderWaits
from slotreeve_servers.session.records.lookups import Lookups, WaitingLookup
from slotreeve_servers.session.records.reads import ASK_SECONDS, GIVE_UP_SECONDS
from slotreeve_servers.session.records.routes import Routes

MOST_OPEN_LISTS = 1
"""So many lists of one leader may be without an answer: it goes through all of its services for each, however few of
them are asked for, and what it shall store waits as long."""
PAGE_PAUSE_SECONDS = 0.02
"""Pause before the next page where a client may read nothing of one: its one question must not cost many at once."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """One page of the list for one request, until a deadline on the server's clock, of what its caller may see."""

    asked: ListServices
    request: Request
    deadline: float
    permit: Permit | None


class Listings:
    """Answers requests for the list of services. A list is put together from answers in which the leader of each slot
    lists it once; while there is none, the request waits, up to four seconds. So no service is missing only because its
    leader has died (I7)."""

    def __init__(self, outbox: Outbox, routes: Routes, slots: SlotFunction, lookups: Lookups) -> None:
        self._outbox, self._routes, self._slots, self._lookups = outbox, routes, slots, lookups
        self._waits = LeaderWaits[_Wish](outbox, lambda _: routes.led() is not None, self._try, self._fail)

    def answer(self, peer: Peer, asked: ListServices, request: Request) -> None:
        """Ask every slot leader; the reply is Services, or Failed.

        Raises:
            ModelError: the prefix, or the name to go on from, is longer than any.
        """
        check_text("the prefix", asked.prefix, MAX_LENGTH)
        if asked.after is not None:
            check_text("the name to go on from", asked.after.name, MAX_LENGTH)
        permit = permit_of(peer.proven)
        self._try(_Wish(asked, request, self._outbox.now() + GIVE_UP_SECONDS, permit))

    def _try(self, wish: _Wish) -> None:
        led = self._routes.led()
        if led is None:
            self._waits.add(EVERY_SLOT, wish, wish.deadline)
            return
        if not led:
            self._outbox.reply(wish.request, Services({}))
            return
        answers: list[Services] | None = []

        def answered(peer: Peer, reply: Message | None, error: Exception | None) -> None:
            nonlocal answers
            if answers is None or self._outbox.silent_for(wish.request.peer) == math.inf:
                return  # another leader has not listed its slots, or who has asked has gone
            why = ""
            if not isinstance(reply, Services):
                why = f"{peer.node} did not list its services: {error or reply}"
            elif reply.led not in (0, led_digest(led[peer])):
                why = f"{peer.node} serves other slots than those that it leads by the table"
            else:
                answers.append(reply)
                if len(answers) < len(led):
                    return
                if self._routes.led() == led:
                    self._waits.served(EVERY_SLOT)
                    self._answer(wish, self._together(answers))
                    return
                why = "a slot has another leader now"
            answers = None
            self._waits.add(EVERY_SLOT, wish, wish.deadline, why)

        for peer in led:
            lookup = WaitingLookup(wish.request.peer, wish.asked, partial(answered, peer), ASK_SECONDS, wish.deadline)
            self._lookups.ask(peer, lookup)

    def _answer(self, wish: _Wish, services: Services) -> None:
        """Answer with what the client may read. A page ends with the name of a service: also that is one that it may
        read. A page without any is not answered, but the next one asked for."""
        permit, upto = wish.permit, services.upto
        if permit is not None:
            seen = {name: count for name, count in services.counts.items() if permit.allows(Right.READ, name)}
            if upto is not None and not seen:
                asked = ListServices(wish.asked.prefix, upto)
                deadline = self._outbox.now() + PAGE_PAUSE_SECONDS + GIVE_UP_SECONDS
                self._outbox.after(
                    PAGE_PAUSE_SECONDS, partial(self._try, replace(wish, asked=asked, deadline=deadline))
                )
                return
            if upto is not None:
                last = max(seen, key=self._position)
                upto = ListedUpTo(self._slots.slot_of(last), last)
            services = Services(seen, upto)
        self._outbox.reply(wish.request, services)

    def _fail(self, wish: _Wish, why: str) -> None:
        why = why or "a slot has no leader that can be reached"
        self._outbox.reply(wish.request, Failed(RequestTimeout.code, f"the services cannot be listed: {why}"))

    def _together(self, answers: list[Services]) -> Services:
        """The page of all data servers ends where the first of their pages ends."""
        ends = [(answer.upto.slot, answer.upto.name) for answer in answers if answer.upto is not None]
        counts: dict[str, int] = {}
        if not ends:
            for answer in answers:
                counts |= answer.counts
            return Services(counts)
        end = min(ends)
        for answer in answers:
            names = list(answer.counts)
            for name in names[: bisect_right(names, end, key=self._position)]:
                counts[name] = answer.counts[name]
        return Services(counts, ListedUpTo(*end))

    def _position(self, name: str) -> tuple[int, str]:
        return self._slots.slot_of(name), name
