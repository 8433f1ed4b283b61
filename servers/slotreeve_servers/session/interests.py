"""What this session server wants to hear of from the slot leaders (original: ``SessionInterests``)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from slotreeve.clock import Clock
from slotreeve.errors import TransportError
from slotreeve.ports import Connection, Message
from slotreeve_events.log import EventLog
from slotreeve_protocol.client_messages import PushReceipt, Scope, Want
from slotreeve_protocol.slot_messages import Access, Answers, DatumChange, DeclareInterest, Known, SlotInterest

from slotreeve_servers.session.clients import ConnectedClient
from slotreeve_servers.session.datum import ChangeVerdict, DatumView
from slotreeve_servers.session.push import PushGroup
from slotreeve_servers.session.routes import Routes
from slotreeve_servers.session.settings import SessionSettings

log = logging.getLogger("slotreeve.interests")

SERVICES_PER_REQUEST = 2_000
RETRY_SECONDS = 0.05
TIMEOUT_SECONDS = 2.0


class WatchedService:
    """One service with subscribers here: the copy of it, and who is pushed what of it."""

    __slots__ = ("data_info_id", "groups", "slot", "view")

    def __init__(self, data_info_id: str, slot: int) -> None:
        self.data_info_id, self.slot = data_info_id, slot
        self.view = DatumView()
        self.groups: dict[Scope, PushGroup] = {}


class Interests:
    """All services with subscribers here. Each is declared to its slot's leader, again whenever that changes.

    ``gaps`` counts change events that could not be applied; 0 in a quiet cluster.
    """

    def __init__(
        self,
        routes: Routes,
        clock: Clock,
        rules: SessionSettings,
        zone: str,
        may_push: Callable[[ConnectedClient], bool],
        events: EventLog | None = None,
    ) -> None:
        self._routes, self._clock, self._rules, self._zone = routes, clock, rules, zone
        self._may_push, self._events = may_push, events
        self.services: dict[str, WatchedService] = {}
        self._by_slot: dict[int, dict[str, WatchedService]] = {}
        self._undeclared: dict[str, int] = {}
        self._unwanted: dict[str, int] = {}
        self._scheduled = False
        self._retrying = False
        self.gaps = 0

    # --- subscribers ---------------------------------------------------------------------------------------------

    def subscribe(self, client: ConnectedClient, want: Want, slot: int) -> None:
        """Push a service to ``client`` from now on."""
        data_info_id = want.data_info_id
        interest = self.services.get(data_info_id)
        if interest is None:
            interest = self.services[data_info_id] = WatchedService(data_info_id, slot)
            self._by_slot.setdefault(slot, {})[data_info_id] = interest
            self._unwanted.pop(data_info_id, None)
            self._declare(interest)
        group = interest.groups.get(want.scope)
        if group is None:
            group = interest.groups[want.scope] = PushGroup(
                data_info_id,
                want.scope,
                self._zone,
                interest.view,
                self._clock,
                self._rules,
                self._may_push,
                self._events,
            )
        group.subscribe(client, want.version, want.digest)
        client.wants.add(data_info_id)

    def unsubscribe(self, client: ConnectedClient, data_info_id: str, scopes: Iterable[Scope] = tuple(Scope)) -> None:
        """No longer push a service to ``client`` (under these scopes)."""
        interest = self.services.get(data_info_id)
        if interest is None:
            return
        for scope in scopes:
            group = interest.groups.get(scope)
            if group is not None:
                group.subscribers.pop(client, None)
                if not group.subscribers:
                    del interest.groups[scope]
        if not any(client in group.subscribers for group in interest.groups.values()):
            client.wants.discard(data_info_id)
        if not interest.groups:
            del self.services[data_info_id]
            del self._by_slot[interest.slot][data_info_id]
            self._undeclared.pop(data_info_id, None)
            self._unwanted[data_info_id] = interest.slot
            self._flush_soon()

    def acknowledged(self, client: ConnectedClient, receipt: PushReceipt) -> None:
        """``client`` has told a receipt."""
        interest = self.services.get(receipt.data_info_id)
        group = interest.groups.get(receipt.scope) if interest is not None else None
        if group is not None:
            group.acknowledged(client, receipt)

    def resume_pushing(self) -> None:
        """Pushing was stopped for some clients, and may go on."""
        for interest in self.services.values():
            for group in interest.groups.values():
                group.resume()

    # --- change events -------------------------------------------------------------------------------------------

    def changed(self, change: DatumChange) -> None:
        """A slot leader told of a change."""
        interest = self.services.get(change.data_info_id)
        if interest is None:
            return
        view = interest.view
        verdict = view.judge(change)
        if verdict is ChangeVerdict.STALE:
            return
        if verdict is ChangeVerdict.NEXT:
            touched = change.removed + [record.register_id for record in change.changed]
            before = {r: view.records[r] for r in touched if r in view.records}
            if change.from_version == 0:
                before = view.records
            step = view.apply(change)
            if step is not None:
                for group in interest.groups.values():
                    group.note(before, step)
                return
        self.gaps += 1
        log.warning("gap in the changes of %s before version %d", change.data_info_id, change.version)
        self._undeclared[change.data_info_id] = interest.slot
        view.version = 0
        self._flush_soon()

    # --- declaring -----------------------------------------------------------------------------------------------

    @property
    def slots(self) -> list[int]:
        """The slots of all watched services."""
        return sorted(self._by_slot)

    def declare_slots(self, slots: Iterable[int]) -> None:
        """These slots have another leader, or a new link to it: declare all interest in them anew."""
        for slot in slots:
            for interest in self._by_slot.get(slot, {}).values():
                self._declare(interest)

    def _declare(self, interest: WatchedService) -> None:
        self._undeclared[interest.data_info_id] = interest.slot
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._clock.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        parts: dict[Connection, dict[int, SlotInterest]] = {}
        for waiting, wanted in ((self._undeclared, True), (self._unwanted, False)):
            for data_info_id, slot in list(waiting.items()):
                leader = self._routes.leader_of(slot)
                if leader is None:
                    continue
                connection, epoch = leader
                slots = parts.setdefault(connection, {})
                entry = slots.get(slot)
                if entry is None:
                    entry = slots[slot] = SlotInterest(slot, epoch, [], [])
                if wanted:
                    view = self.services[data_info_id].view
                    entry.wanted.append(Known(data_info_id, view.version, view.digest))
                else:
                    entry.unwanted.append(data_info_id)
                del waiting[data_info_id]
        for connection, slots in parts.items():
            for interests in _parts(slots.values()):
                self._ask(connection, interests)

    def _ask(self, connection: Connection, interests: list[SlotInterest]) -> None:
        def answered(reply: Message | None, error: Exception | None) -> None:
            answers = reply.answers if isinstance(reply, Answers) else []
            refused = {a.slot for a in answers if a.access not in (Access.ACCEPT, Access.MIGRATING)}
            if not answers:
                refused = {interest.slot for interest in interests}
            for interest in interests:
                if interest.slot in refused:
                    self._again(interest)

        try:
            connection.request(DeclareInterest(interests), answered, TIMEOUT_SECONDS)
        except TransportError as error:
            log.warning("interest not declared to %s: %s", connection.peer.node, error)
            for interest in interests:
                self._again(interest)

    def _again(self, interest: SlotInterest) -> None:
        """Not declared: with the next table or link, or a little later."""
        for known in interest.wanted:
            if known.data_info_id in self.services:
                self._undeclared[known.data_info_id] = interest.slot
        if not self._retrying:
            self._retrying = True
            self._clock.call_later(RETRY_SECONDS, self._retry)

    def _retry(self) -> None:
        self._retrying = False
        self._flush_soon()


def _parts(interests: Iterable[SlotInterest]) -> Iterable[list[SlotInterest]]:
    """Cut into messages of a bounded number of services."""
    part: list[SlotInterest] = []
    count = 0
    for interest in interests:
        part.append(interest)
        count += len(interest.wanted) + len(interest.unwanted)
        if count >= SERVICES_PER_REQUEST:
            yield part
            part, count = [], 0
    if part:
        yield part
