"""The registrations whose client is lost, and which of them may be removed now. Pure: time is an argument.

See docs/decisions/0010-a-brake-on-mass-expiry.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple, TypeVar

from slotreeve.model.publisher import Publisher

from slotreeve_servers.data.brake import Brake, ServiceTallies
from slotreeve_servers.data.claims import ClaimedClients, client_of
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.data.slots import HeldSlot, HeldSlots

FEW_CLIENTS = 8
"""Where living session servers lose more clients than this within the grace, each of these has the grace to return: a
proxy or a switch has failed rather than all of them."""
RETURNING = 3
"""Once one client of a session process that is gone is back, the others have the grace so many times."""
LOOKED_AT_ONCE = 5_000
"""A look pauses after so many registrations, so that those of one large client hold up no others."""


class LostRecord(NamedTuple):
    """One registration of a lost client.

    Attributes:
        record: as it was when its client was lost. A newer one in the slot shows that the client came back.
        leaves_tombstone: its session server lives, and reported it.
        gone: id of its session process, where that is gone; else empty.
        until: it stays until then, in attended seconds, because a session server did not say what it has on its way,
            or is gone.
    """

    slot: HeldSlot
    record: Publisher
    leaves_tombstone: bool
    gone: str = ""
    until: float = 0.0

    @property
    def key(self) -> tuple[int, str]:
        """Slot and register id."""
        return self.slot.slot.id, self.record.register_id


class _LostClient:
    """The registrations of one lost client by slot and register id, and since when they are held back. ``gone``: the
    session processes that they name as gone; empty ones too."""

    __slots__ = ("gone", "is_claimed", "records", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        self.is_claimed = False
        self.gone: set[str] = set()
        self.records: dict[tuple[int, str], LostRecord] = {}


class HeldBack:
    """Holds lost registrations, and releases them on evidence.

    Attributes:
        braked: registrations that only the brake held back at the last look.
        overdue: registrations released since the start because the longest time was over, against the brake.
    """

    def __init__(self, rules: DataSettings, slots: HeldSlots, claims: ClaimedClients, brake: Brake) -> None:
        self._grace = rules.session_grace_seconds
        self._slots, self._claims, self._brake = slots, claims, brake
        self._clients: dict[str, _LostClient] = {}
        self._last_return: dict[str, float] = {}
        self._nothing_before = 0.0
        self._lost_at: dict[str, float] = {}
        # Whether registrations in slots that this server leads no more may be among them.
        self._has_lost_slots = False
        # No registration is due before this time, so that a look until then costs nothing.
        self._next_due = -math.inf
        self.braked = 0
        self.overdue = 0

    def rules_changed(self, rules: DataSettings) -> None:
        """The operator has changed the rules, or the limits of the brake, or has frozen or thawed it: the next look
        goes by them."""
        self._grace = rules.session_grace_seconds
        self._next_due = -math.inf

    @property
    def clients(self) -> int:
        """Number of clients with lost registrations."""
        return len(self._clients)

    def __len__(self) -> int:
        """Number of lost registrations that were not released yet."""
        return sum(len(client.records) for client in self._clients.values())

    def hold(self, lost: Iterable[LostRecord], now: float) -> int:
        """Take lost registrations; those that are held already stay as they are. One that was sent again meanwhile, or
        has ended, is not lost, and one in a slot that this server has lost concerns its next leader. Returns how many
        are new."""
        added = 0
        for entry in lost:
            if self._slots.get(entry.slot.slot.id) is not entry.slot:
                continue  # this server may lead the slot again, and hold the same registration in its new copy
            found = entry.slot.store.find(entry.record)
            if found != entry.record:
                if found is not None:
                    self._has_returned(entry, now)
                continue
            name = client_of(entry.record.register_id)
            client = self._clients.get(name)
            if client is None:
                client = self._clients[name] = _LostClient(now)
                self._lost_at.pop(name, None)
                self._lost_at[name] = now
            key = entry.key
            held = client.records.get(key)
            if held is None or held.slot is not entry.slot:
                client.records[key] = entry
                client.gone.add(entry.gone)
                added += held is None
                self._next_due = -math.inf
        return added

    def stored(self, slot: HeldSlot, records: Iterable[Publisher], now: float) -> None:
        """These records were stored: where one of them was held, its client has sent it again."""
        for record in records:
            client = self._clients.get(client_of(record.register_id))
            if client is None:
                continue
            key = (slot.slot.id, record.register_id)
            entry = client.records.get(key)
            if entry is not None and slot.store.find(entry.record) != entry.record:
                del client.records[key]
                self._has_returned(entry, now)
                if not client.records:
                    del self._clients[client_of(record.register_id)]

    def claims_changed(self, clients: Iterable[str], now: float) -> None:
        """Claims of these clients began or ended."""
        for name in clients:
            client = self._clients.get(name)
            if client is not None:
                self._follow_claim(name, client, now)

    def postpone(self, entry: LostRecord, now: float) -> bool:
        """Hold a released registration again if its client has turned out to be one of many, and had no grace yet.
        Returns whether it is held."""
        name = client_of(entry.record.register_id)
        since = self._lost_at.get(name, -math.inf)
        if entry.gone or now >= since + self._grace or not self._are_many(now):
            return False
        client = self._clients.setdefault(name, _LostClient(since))
        client.records[entry.key] = entry
        client.gone.add(entry.gone)
        self._next_due = -math.inf
        return True

    def lost_lately(self, now: float) -> int:
        """Number of clients that were lost within twice the grace."""
        while self._lost_at and next(iter(self._lost_at.values())) <= now - 2 * self._grace:
            del self._lost_at[next(iter(self._lost_at))]
        return len(self._lost_at)

    def _are_many(self, now: float) -> bool:
        """Whether so many clients were lost of late that they probably lost a connection only, and come back. A loss
        counts for twice the grace, so that the last ones have all of it."""
        return self.lost_lately(now) > FEW_CLIENTS

    def _many_until(self, now: float) -> float:
        """Until when they are many, if no more are lost."""
        if not self._are_many(now):
            return -math.inf
        ninth_newest = next(islice(reversed(self._lost_at.values()), FEW_CLIENTS, None))
        return ninth_newest + 2 * self._grace

    def stay(self, clients: Iterable[str], until: float) -> None:
        """What living session servers have lost of these clients stays until then."""
        for name in clients:
            client = self._clients.get(name)
            if client is not None:
                for key, entry in client.records.items():
                    if not entry.gone:
                        client.records[key] = entry._replace(until=max(entry.until, until))

    def process_is_back(self, process_id: str) -> None:
        """A session process that was gone is a member again: its clients are not lost."""
        self._next_due = -math.inf
        for client in self._clients.values():
            client.records = {key: entry for key, entry in client.records.items() if entry.gone != process_id}

    def table_changed(self) -> None:
        """This server may lead other slots: the next look forgets the registrations in slots that it lost. Their next
        leader learns of these clients itself."""
        self._has_lost_slots = True

    def wait(self, now: float) -> None:
        """Nothing can be learned of any client now: release nothing before the grace is over."""
        self._nothing_before = now + self._grace

    def look(self, registrations: Callable[[], int], now: float) -> Iterator[list[LostRecord]]:
        """Release what may be removed now. ``registrations`` counts all that this server leads; it is called where the
        share matters.

        The look pauses after every :data:`LOOKED_AT_ONCE` registrations: it yields what is released, or an empty list.
        A registration whose client comes back during a pause is not released any more.
        """
        if self._has_lost_slots:
            self._has_lost_slots = False
            yield from self._forget_lost_slots()
        if now < max(self._nothing_before, self._next_due):
            return
        for name, client in self._clients.items():
            self._follow_claim(name, client, now)
        free: list[_Held] = []
        for held in _paced(self._due(now)):
            if held is None:
                yield []
            elif self._is_ready(*held, now):
                free.append(held)
        released: list[_Held] = []
        if free:
            found, free, tallies = free, [], ServiceTallies()
            for held in _paced(found):
                if held is None:
                    yield []
                elif self._is_due(held[1].gone, held[0].since, now):
                    free.append(held)
                    tallies.add(held[1].record)
            few = self._brake.allows_server(tallies.total, registrations, now)
            leaving = ServiceTallies()
            services: dict[str, bool] = {}
            for held in _paced(free):
                if held is None:
                    yield []
                elif self._may_leave(*held, tallies, few, services, now):
                    released.append(held)
                    leaving.add(held[1].record)
            self._brake.release(leaving, now)
        self.braked = len(free) - len(released)
        for start in range(0, len(released), LOOKED_AT_ONCE):
            part = released[start : start + LOOKED_AT_ONCE]
            yield [entry for client, entry in part if self._release(client, entry, now)]
        for name in [name for name, client in self._clients.items() if not client.records]:
            del self._clients[name]
        until = self._many_until(now)
        self._next_due = min((self._first_due(client, until) for client in self._clients.values()), default=math.inf)

    def _forget_lost_slots(self) -> Iterator[list[LostRecord]]:
        """Hold no registration in a slot that this server leads no more. Pauses as :meth:`look` does."""
        held = [(name, key) for name, client in self._clients.items() for key in client.records]
        for one in _paced(held):
            if one is None:
                yield []
                continue
            name, key = one
            client = self._clients.get(name)
            entry = client.records.get(key) if client is not None else None
            if client is not None and entry is not None and self._slots.get(entry.slot.slot.id) is not entry.slot:
                del client.records[key]
                if not client.records:
                    del self._clients[name]

    def _follow_claim(self, name: str, client: _LostClient, now: float) -> None:
        """Note whether the client is connected to a session process again."""
        is_claimed = self._claims.has(name)
        if is_claimed is not client.is_claimed:
            client.is_claimed = is_claimed
            for entry in client.records.values():
                self._has_returned(entry, now)

    def _has_returned(self, entry: LostRecord, now: float) -> None:
        """The client of this registration is back: the others of its session process have the whole grace again."""
        if entry.gone:
            self._last_return[entry.gone] = now

    def _due(self, now: float) -> Iterator[_Held]:
        """The registrations whose time has come. Which those are is settled first: one of them that turns out to have
        been sent again puts none of the others off before all are looked at."""
        clients = [(c, {gone for gone in c.gone if self._is_due(gone, c.since, now)}) for c in self._clients.values()]
        for client, due in clients:
            if due and not client.is_claimed:
                for entry in list(client.records.values()):
                    if now >= entry.until and entry.gone in due:
                        yield client, entry

    def _is_ready(self, client: _LostClient, entry: LostRecord, now: float) -> bool:
        """Whether a registration is still there. One that was sent again or has ended, or is in a slot that this server
        does not lead any more, is dropped."""
        if self._slots.get(entry.slot.slot.id) is not entry.slot:
            client.records.pop(entry.key, None)
            return False
        found = entry.slot.store.find(entry.record)
        if found != entry.record:
            client.records.pop(entry.key, None)
            if found is not None:
                self._has_returned(entry, now)
            return False
        return True

    def _release(self, client: _LostClient, entry: LostRecord, now: float) -> bool:
        """Hold a registration no longer, unless its client came back since the look began."""
        is_held = client.records.get(entry.key) is entry and not client.is_claimed
        if not is_held or not self._is_due(entry.gone, client.since, now):
            return False
        del client.records[entry.key]
        return True

    def _is_due(self, gone: str, since: float, now: float) -> bool:
        """Whether the time has come: the clients of a session process that is gone have the grace. Once one of them is
        back, the others live too, and are late: they have longer, counted again from each that comes back. Those that a
        living session server has lost have the grace where they are many."""
        if not gone:
            return now >= since + self._grace or not self._are_many(now)
        return now >= self._due_at(gone, since)

    def _first_due(self, client: _LostClient, are_many_until: float) -> float:
        """A time before which no registration of this client is due, whatever else happens: clients that come back, or
        are lost too, only put it off."""
        alone = min(client.since + self._grace, are_many_until)
        return min((self._due_at(gone, client.since) if gone else alone for gone in client.gone), default=-math.inf)

    def _due_at(self, gone: str, since: float) -> float:
        """When the registrations of a session process that is gone are due, as far as its clients have come back."""
        returned = self._last_return.get(gone)
        return since + self._grace if returned is None else max(since, returned) + RETURNING * self._grace

    def _may_leave(
        self,
        client: _LostClient,
        entry: LostRecord,
        tallies: ServiceTallies,
        few: bool,
        services: dict[str, bool],
        now: float,
    ) -> bool:
        """Whether the brake lets a registration leave, or its longest time is over. ``few``: as far as the whole server
        matters. ``services``: what is known of services already."""
        if self._brake.is_frozen:
            return False
        data_info_id = entry.record.data_info_id
        is_allowed = services.get(data_info_id)
        if is_allowed is None:
            size = len(entry.slot.store.services.get(data_info_id, ()))
            tally = tallies.services[data_info_id]
            is_allowed = few and self._brake.allows_service(data_info_id, tally, size, now)
            services[data_info_id] = is_allowed
        since = max(client.since, self._last_return.get(entry.gone, 0.0))
        if not is_allowed and self._brake.has_held_longest(since, now):
            self.overdue += 1
            return True
        return is_allowed


_Held = tuple[_LostClient, LostRecord]
_T = TypeVar("_T")


def _paced(entries: Iterable[_T]) -> Iterator[_T | None]:
    """The entries, with None where it is time for a pause."""
    for number, entry in enumerate(entries, start=1):
        yield entry
        if number % LOOKED_AT_ONCE == 0:
            yield None
