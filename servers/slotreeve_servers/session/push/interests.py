"""The services that this session server watches at the slot leaders (original: ``SessionInterests``)."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator

from slotreeve.ports import Message
from slotreeve_protocol.client_messages import PushReceipt, Scope, Want
from slotreeve_protocol.datum_copy import DatumCopy, Fit
from slotreeve_protocol.slot_messages import Access, Answers, Changed, DatumChange, DeclareInterest, Known, SlotInterest

from slotreeve_servers.node.deltas import LONGEST_LETTER
from slotreeve_servers.node.outbox import Peer, Retry, TurnEnd
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.push.push import PushGroup, PushRules
from slotreeve_servers.session.records.routes import Routes

log = logging.getLogger("slotreeve.interests")

SERVICES_PER_REQUEST = 2_000
_KNOWN_BYTES = 20
RETRY_SECONDS = 0.05


class WatchedService:
    """One service with subscribers here: the copy of it, and a group of subscribers for each scope."""

    __slots__ = ("copy", "data_info_id", "groups", "is_declared", "slot")

    def __init__(self, data_info_id: str, slot: int, zone: str) -> None:
        self.data_info_id, self.slot = data_info_id, slot
        self.copy = DatumCopy(zone)
        self.groups: dict[Scope, PushGroup] = {}
        self.is_declared = False


class Interests:
    """All services with subscribers here. Each is declared to its slot's leader, again whenever that changes.

    Attributes:
        services: the watched services by data info id.
        gaps: change events that could not be applied since the start; 0 in a quiet cluster.
    """

    def __init__(self, routes: Routes, rules: PushRules) -> None:
        self._outbox, self._routes, self._rules = rules.outbox, routes, rules
        self.services: dict[str, WatchedService] = {}
        self._by_slot: dict[int, dict[str, WatchedService]] = {}
        self._undeclared: dict[int, dict[str, None]] = {}
        self._unwanted: dict[int, dict[str, None]] = {}
        self._flush = TurnEnd(rules.outbox, self._declare_waiting)
        self._retry = Retry(rules.outbox, RETRY_SECONDS, self._flush.soon)
        self.gaps = 0

    # --- subscribers -------------------------------------------------------------------------------------------------

    def subscribe(self, client: ConnectedClient, want: Want, slot: int) -> None:
        """Push a service to ``client`` from now on."""
        data_info_id = want.data_info_id
        service = self.services.get(data_info_id)
        if service is None:
            service = self.services[data_info_id] = WatchedService(data_info_id, slot, self._rules.zone)
            self._by_slot.setdefault(slot, {})[data_info_id] = service
            self._unwanted.get(slot, {}).pop(data_info_id, None)
            self._declare(service)
        group = service.groups.get(want.scope)
        if group is None:
            group = service.groups[want.scope] = PushGroup(data_info_id, want.scope, service.copy, self._rules)
        group.subscribe(client, want.version, want.digest)
        client.watched[data_info_id] = None

    def unsubscribe(self, client: ConnectedClient, data_info_id: str, scopes: Iterable[Scope] = tuple(Scope)) -> None:
        """No longer push a service to ``client`` (under these scopes)."""
        service = self.services.get(data_info_id)
        if service is None:
            return
        for scope in scopes:
            group = service.groups.get(scope)
            if group is not None:
                group.unsubscribe(client)
                if not group.subscribers:
                    del service.groups[scope]
        if not any(client in group.subscribers for group in service.groups.values()):
            client.watched.pop(data_info_id, None)
        if not service.groups:
            del self.services[data_info_id]
            del self._by_slot[service.slot][data_info_id]
            self._undeclared.get(service.slot, {}).pop(data_info_id, None)
            if service.is_declared:  # else no leader knows of it
                self._unwanted.setdefault(service.slot, {})[data_info_id] = None
                self._flush.soon()

    def forget(self, client: ConnectedClient) -> None:
        """The connection of ``client`` has ended: end its subscriptions. What is pushed to it until then is dropped."""
        self._rules.due.forget(client)
        self._outbox.pace(self._forget, client, is_patient=True)

    def _forget(self, client: ConnectedClient) -> Iterator[None]:
        while client.watched:
            data_info_id, _ = client.watched.popitem()
            self.unsubscribe(client, data_info_id)
            yield

    def begin_anew(self) -> None:
        """Versions are counted anew: end all subscriptions at once. No copy outlives that."""
        for data_info_id, service in list(self.services.items()):
            for client in {client: None for group in service.groups.values() for client in group.subscribers}:
                self.unsubscribe(client, data_info_id)

    def acknowledged(self, client: ConnectedClient, receipt: PushReceipt, kept_seconds: float | None = None) -> None:
        """A receipt of ``client`` has arrived; see :meth:`PushGroup.acknowledged`."""
        service = self.services.get(receipt.data_info_id)
        group = service.groups.get(receipt.scope) if service is not None else None
        if group is not None:
            group.acknowledged(client, receipt, kept_seconds)

    # --- change events -----------------------------------------------------------------------------------------------

    def received(self, peer: Peer, message: Changed) -> None:
        """A slot leader announces changes."""
        now = self._outbox.now()
        for change in message.changes:
            self.changed(change, now)

    def changed(self, change: DatumChange, now: float) -> None:
        """Apply one change to the copy of its service, and push it; ask for the whole service where it does not fit."""
        service = self.services.get(change.data_info_id)
        if service is None:
            return
        fit = service.copy.fit(change)
        if fit is Fit.STALE:
            return
        if fit is Fit.PART:
            service.copy.gather(change)
            return
        step = service.copy.apply(change) if fit is Fit.NEXT else None
        if step is not None:
            born = now - change.waited_us / 1_000_000
            for group in service.groups.values():
                group.note(step, born)
            return
        self.gaps += 1
        log.warning("gap in the changes of %s before version %d", change.data_info_id, change.version)
        service.copy.forget_version()
        self._declare(service)

    # --- declaring ---------------------------------------------------------------------------------------------------

    @property
    def slots(self) -> list[int]:
        """The slots of all watched services, sorted."""
        return sorted(self._by_slot)

    def led_anew(self, slots: Iterable[int]) -> None:
        """These slots have another leader, or a new link to it, which knows of no interest: declare all of them."""
        anew = list(slots)
        for slot in anew:
            self._unwanted.pop(slot, None)
        self.declare_slots(anew)

    def declare_slots(self, slots: Iterable[int]) -> None:
        """Declare all interest in these slots again."""
        for slot in slots:
            for service in self._by_slot.get(slot, {}).values():
                self._declare(service)

    def _declare(self, service: WatchedService) -> None:
        self._undeclared.setdefault(service.slot, {})[service.data_info_id] = None
        self._flush.soon()

    def _declare_waiting(self) -> None:
        """Send the declarations whose slots have a leader that is linked; those of some slots in the next turn, where
        there are very many."""
        by_leader: dict[Peer, list[SlotInterest]] = {}
        count = 0
        for slot in list(self._undeclared | self._unwanted):
            if count >= SERVICES_PER_REQUEST:
                self._flush.soon()
                break
            leader = self._routes.leader_of(slot)
            if leader is None:
                continue
            peer, epoch = leader
            interest = SlotInterest(slot, epoch, [], list(self._unwanted.pop(slot, ())))
            by_leader.setdefault(peer, []).append(interest)
            for name in self._undeclared.pop(slot, ()):
                service = self.services[name]
                service.is_declared = True
                interest.wanted.append(Known(name, service.copy.version, service.copy.digest))
            count += len(interest.wanted)
        for peer, interests in by_leader.items():
            for part in parts_of(interests, self._outbox.part_bytes):
                self._ask(peer, part)

    def _ask(self, peer: Peer, interests: list[SlotInterest]) -> None:
        def answered(reply: Message | None, error: Exception | None) -> None:
            answers = reply.answers if isinstance(reply, Answers) else []
            refused = {a.slot for a in answers if a.access not in (Access.ACCEPT, Access.MIGRATING)}
            if not answers:
                refused = {interest.slot for interest in interests}
            self._again(interest for interest in interests if interest.slot in refused)

        if not self._outbox.ask(peer, DeclareInterest(interests), answered, math.inf):
            self._again(interests)

    def _again(self, interests: Iterable[SlotInterest]) -> None:
        """These were not declared: declare them with the next table or link, or after a pause."""
        for interest in interests:
            for known in interest.wanted:
                if known.data_info_id in self.services:
                    self._undeclared.setdefault(interest.slot, {})[known.data_info_id] = None
            for data_info_id in interest.unwanted:
                if data_info_id not in self.services:
                    self._unwanted.setdefault(interest.slot, {})[data_info_id] = None
            self._retry.later()


def parts_of(interests: Iterable[SlotInterest], limit: int) -> Iterator[list[SlotInterest]]:
    """Cut into messages of a bounded number of services, and of about ``limit`` bytes: names may be long."""
    part: list[SlotInterest] = []
    count = size = 0
    for whole in interests:
        interest: SlotInterest | None = None
        names: list[Known | str] = [*whole.wanted, *whole.unwanted]
        for known in names:
            if interest is None:
                interest = SlotInterest(whole.slot, whole.leader_epoch, [], [])
                part.append(interest)
            if isinstance(known, str):
                interest.unwanted.append(known)
                size += LONGEST_LETTER * len(known)
            else:
                interest.wanted.append(known)
                size += _KNOWN_BYTES + LONGEST_LETTER * len(known.data_info_id)
            count += 1
            if count >= SERVICES_PER_REQUEST or size >= limit:
                yield part
                part, count, size, interest = [], 0, 0, None
    if part:
        yield part
