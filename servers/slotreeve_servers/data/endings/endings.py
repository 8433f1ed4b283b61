"""When a registration ends: nobody vouches for it any more, and that is known for sure (docs/endings.md).

One timing wheel, one deadline, one barrier and one brake, for what clients publish and for leases.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator

from slotreeve.model.publisher import Publisher
from slotreeve_events.log import EventLog

from slotreeve_servers.data.endings.brake import Brake
from slotreeve_servers.data.endings.ending import (
    ARRIVING,
    ASKED,
    BRAKED,
    TRANSITIONS,
    WAITING,
    Ending,
    EndingEvent,
    HeldLease,
    LostRecord,
)
from slotreeve_servers.data.endings.ending_rounds import EndingRounds, LeaseRules, SlotWriter
from slotreeve_servers.data.endings.over import OverRecords
from slotreeve_servers.data.endings.presence import FEW_CLIENTS, ClientPresence
from slotreeve_servers.data.endings.sessions import LINK_SILENCE_SECONDS, SessionServers
from slotreeve_servers.data.endings.timing_wheel import TimingWheel
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.data.slots.slots import HeldSlot, HeldSlots
from slotreeve_servers.node.outbox import Outbox

RETURNING = 3
"""Once one client of a session process that is gone is back, the others have the grace so many times."""


class Endings:
    """All registrations in led slots that may end.

    Args:
        events: the event log, which records what expired with its session server; None where there is none.

    Attributes:
        presence: what session servers say of clients.
        leases: what is known of leases; the keeper of them sets it.
        count: number of leases. ``held``: number of registrations of clients that are lost or have left.
        rounds: the last steps. ``over``: what session servers are told to be over.
    """

    def __init__(
        self,
        outbox: Outbox,
        slots: HeldSlots,
        writer: SlotWriter,
        sessions: SessionServers,
        rules: DataSettings,
        brake: Brake,
        events: EventLog | None = None,
    ) -> None:
        self._outbox, self._slots, self._sessions = outbox, slots, sessions
        self._rules, self._brake = rules, brake
        self.presence = ClientPresence()
        self.leases: LeaseRules
        # By data info id and register id; one for each session process that has the registration.
        self._held: dict[HeldSlot, dict[tuple[str, str], tuple[Ending, ...]]] = {}
        self._by_client: dict[str, dict[LostRecord, None]] = {}
        # What may end because its session process is gone, by that process.
        self._by_process: dict[str, dict[LostRecord, None]] = {}
        self._last_return: dict[str, float] = {}
        self._nothing_before = -math.inf
        # What is followed in parts: clients that arrive or have arrived, processes that are back, slots that serve from
        # now on or that others lead.
        self._changed: OrderedDict[str, None] = OrderedDict()
        self._back: set[str] = set()
        self._slots_changed: deque[HeldSlot] = deque()
        self._wheel = TimingWheel[Ending](outbox.attended())
        self.over = OverRecords(outbox, sessions)
        self.rounds = EndingRounds(self, outbox, slots, writer, sessions, brake, events)
        self.count = self.held = 0

    def rules_changed(self, rules: DataSettings) -> None:
        """The operator has changed the rules, or has frozen or thawed the brake: the next look goes by them."""
        self._rules = rules
        self.rounds.look_soon()

    @property
    def grace_seconds(self) -> float:
        """``data.session_grace_seconds``."""
        return self._rules.session_grace_seconds

    # --- what is known of registrations ------------------------------------------------------------------------------

    def said(self, slot: HeldSlot, tombstones: Iterable[Publisher]) -> None:
        """The clients of these tombstones left, and said so."""
        for tombstone in tombstones:
            found, known = slot.store.find(tombstone), self._at(slot, tombstone)
            if found is not None and found.newer_than(tombstone):
                continue  # what its client has sent later does not end
            if known is not None:
                is_older = known.record.newer_than(tombstone)
                if is_older or (known.said and not tombstone.newer_than(known.record)):
                    continue
                self.move(known, EndingEvent.SENT_AGAIN)
            self.watch(LostRecord(slot, tombstone, said=True))

    def lost(self, entries: Iterable[LostRecord]) -> int:
        """The clients of these registrations are lost as far as is known. One that was sent again meanwhile, or has
        ended, is not, and one in a slot that this server has lost concerns its next leader. Returns how many were not
        known to be lost before."""
        added = 0
        for entry in entries:
            if not self._slots.has(entry.slot):
                continue
            found = entry.slot.store.find(entry.record)
            if found != entry.record:
                if found is not None:
                    self._has_returned(entry)
                continue
            known = self._at(entry.slot, entry.record)
            if known is None:
                if entry.client not in self._by_client:
                    self.presence.left(entry.client, self._outbox.attended())
                added += 1
            elif known.gone and not entry.gone:
                self.move(known, EndingEvent.SENT_AGAIN)  # its session process is back, and has lost it itself
            else:
                known.is_reported |= entry.is_reported
                continue
            self.watch(entry)
        return added

    def watch(self, ending: Ending) -> None:
        """Nobody vouches for this registration any more, or a lease begins."""
        held = self._held.setdefault(ending.slot, {})
        held[ending.key] = *held.get(ending.key, ()), ending
        if isinstance(ending, LostRecord):
            ending.since = self._outbox.attended()
            self.held += 1
            ending.slot.leaving += ending.said
            self._by_client.setdefault(ending.client, {})[ending] = None
            if ending.gone:
                self._by_process.setdefault(ending.gone, {})[ending] = None
        else:
            self.count += 1
        self.move(ending, EndingEvent.LOST)
        if isinstance(ending, LostRecord) and not ending.said and self.presence.is_arriving(ending.client):
            self._has_returned(ending)
            self.move(ending, EndingEvent.ARRIVES)

    def of(self, slot: HeldSlot, data_info_id: str, register_id: str) -> tuple[Ending, ...]:
        """What may end of one registration: its lease, or what each session process has of it."""
        return self._held.get(slot, {}).get((data_info_id, register_id), ())

    def _at(self, slot: HeldSlot, record: Publisher) -> LostRecord | None:
        for ending in self.of(slot, record.data_info_id, record.register_id):
            if isinstance(ending, LostRecord) and ending.session == record.session:
                return ending
        return None

    def put_off(self, ending: Ending) -> None:
        """A lease has another deadline. One that is asked about, or held, is found not to be due any more."""
        if ending.state is WAITING:
            self._wait(ending)

    def stored(self, slot: HeldSlot, records: Iterable[Publisher]) -> None:
        """These records were stored in a led slot: where one of them was lost, its client has sent it again."""
        if not self.held or slot not in self._held:
            return
        for record in records:
            for ending in self.of(slot, record.data_info_id, record.register_id):
                if isinstance(ending, LostRecord) and record.newer_than(ending.record):
                    self._has_returned(ending)
                    self.move(ending, EndingEvent.SENT_AGAIN)

    def presence_changed(self, clients: Iterable[str]) -> None:
        """These clients may have begun or ceased to arrive."""
        self._changed.update(dict.fromkeys(clients))
        self._outbox.pace(self._follow_presence)

    def _follow_presence(self) -> Iterator[None]:
        while self._changed:
            client, _ = self._changed.popitem(last=False)
            for ending in list(self._by_client.get(client, ())):
                if ending.is_open and not ending.said:
                    self._has_returned(ending)  # also where it has arrived within one turn
                    is_arriving = self.presence.is_arriving(client)
                    if is_arriving is not (ending.state is ARRIVING):
                        self.move(ending, EndingEvent.ARRIVES if is_arriving else EndingEvent.ARRIVED)
                yield

    def process_is_gone(self, process_id: str) -> None:
        """A session process is gone. A client that was sending everything again to it has the grace for what it has
        elsewhere, as for what it has there; also in slots that this server leads only later."""
        if process_id in self._back:
            for _ in self._forget_back():
                pass  # what is left of its former absence counts no more
        self.presence_changed(self.presence.process_is_gone(process_id, self._outbox.attended(), self.grace_seconds))

    @property
    def gone_processes(self) -> Collection[str]:
        """The session processes that are gone, as far as something of theirs may still end because of that."""
        return self._by_process.keys()

    def process_is_back(self, process_id: str) -> None:
        """A session process that was gone is a member or linked again: its clients are not lost."""
        self._back.add(process_id)
        self._outbox.pace(self._forget_back)

    def _forget_back(self) -> Iterator[None]:
        while self._back:
            process_id = next(iter(self._back))
            while process_id in self._back and process_id in self._by_process:
                self.move(next(iter(self._by_process[process_id])), EndingEvent.SENT_AGAIN)
                yield  # meanwhile it may be gone once more, which drops what is left of its former absence
            self._back.discard(process_id)
            self._last_return.pop(process_id, None)

    def table_changed(self) -> None:
        """The slots that this server leads are others: what it holds of former ones concerns their next leaders."""
        self._slots_changed.extend([slot for slot in self._held if not self._slots.has(slot)])
        self._outbox.pace(self._follow_slots)

    def slot_serves(self, slot: HeldSlot) -> None:
        """The slot serves from now on: what is lost in it has a deadline."""
        slot.served_since = self._outbox.attended()
        if slot in self._held:
            self._slots_changed.append(slot)
            self._outbox.pace(self._follow_slots)

    def _follow_slots(self) -> Iterator[None]:
        while self._slots_changed:
            slot = self._slots_changed.popleft()
            for ending in [each for same in self._held.get(slot, {}).values() for each in same]:
                if ending.state is WAITING and self._slots.has(slot):
                    self._wait(ending)
                elif ending.is_open and not self._slots.has(slot):
                    self.move(ending, EndingEvent.SENT_AGAIN)
                yield

    def _has_returned(self, ending: LostRecord) -> None:
        """The client of this registration is back: the others of its session process most probably live too."""
        if ending.gone:
            self._last_return[ending.gone] = self._outbox.attended()

    # --- the one deadline --------------------------------------------------------------------------------------------

    def deadline(self, ending: Ending) -> float:
        """When a registration may end, as far as is known now, in attended seconds."""
        if ending.said:
            return -math.inf
        if not ending.slot.serving:  # what is not known yet may vouch for it
            return math.inf
        if isinstance(ending, HeldLease):
            return max(ending.until, self.leases.regained_at + ending.ttl, self._nothing_before)
        assert isinstance(ending, LostRecord)
        if ending.gone in self._back or self.presence.is_arriving(ending.client):
            return math.inf
        grace, until = self.grace_seconds, ending.since
        returned = self._last_return.get(ending.gone)
        if returned is not None:
            until = max(until, returned) + RETURNING * grace
        elif ending.gone or self.presence.lately(self._outbox.attended(), grace) > FEW_CLIENTS:
            until += grace
        return max(until, ending.not_before, self.presence.awaited_until(ending.client), self._nothing_before)

    def held_since(self, ending: Ending) -> float:
        """Since when the longest time of the brake counts, in attended seconds: the last that was heard of a
        registration; not before its slot serves, because nothing ends before."""
        if isinstance(ending, LostRecord):
            return max(ending.since, ending.slot.served_since, self._last_return.get(ending.gone, -math.inf))
        return max(self.deadline(ending), ending.slot.served_since)

    # --- from state to state -----------------------------------------------------------------------------------------

    def move(self, ending: Ending, event: EndingEvent) -> None:
        """Something has happened to a registration."""
        before, ending.state = ending.state, TRANSITIONS[ending.state, event]
        if before is WAITING:
            self._wheel.drop(ending)
        elif before is ASKED or before is BRAKED:
            self.rounds.left(ending)
        if ending.state is WAITING:
            self._wait(ending)
        elif ending.state is ASKED or ending.state is BRAKED:
            self.rounds.came(ending)
        elif ending.state is not ARRIVING:
            self._forget(ending)

    def _wait(self, ending: Ending) -> None:
        now, at = self._outbox.attended(), self.deadline(ending)
        if at <= now:
            self.move(ending, EndingEvent.DUE)
        else:  # a deadline that nobody knows is over soon: its client arrives, its process is back, or its slot serves
            self._wheel.add(ending, at if at < math.inf else now + self.grace_seconds)

    def _forget(self, ending: Ending) -> None:
        held = self._held[ending.slot]
        held[ending.key] = tuple([each for each in held[ending.key] if each is not ending])
        if not held[ending.key]:
            del held[ending.key]
        if not held:
            del self._held[ending.slot]
        if not isinstance(ending, LostRecord):
            self.count -= 1
            return
        self.held -= 1
        ending.slot.leaving -= ending.said
        self._drop(self._by_client, ending.client, ending)
        if ending.gone:
            self._drop(self._by_process, ending.gone, ending)
        if ending.is_reported and self._slots.has(ending.slot):
            self.over.add(ending.session, ending.record)

    @staticmethod
    def _drop(index: dict[str, dict[LostRecord, None]], key: str, ending: LostRecord) -> None:
        del index[key][ending]
        if not index[key]:
            del index[key]

    def look(self) -> None:
        """Find what is due, and end what may end: of the braked, after a while that grows with their number."""
        self.hear()
        self.presence.lately(self._outbox.attended(), self.grace_seconds)  # forgets who left long ago
        if not self._by_client:
            self._last_return.clear()
        self._outbox.pace(self._find_due)
        self.rounds.look()

    def _find_due(self) -> Iterator[None]:
        while (ending := self._wheel.due(self._outbox.attended())) is not None:
            self._wait(ending)
            yield

    def hear(self) -> None:
        """A data server that no session server is linked to is cut off itself, and nobody reads there: nothing ends,
        and all have the grace once one is linked again."""
        if not any(self._outbox.silent_for(peer) < LINK_SILENCE_SECONDS for peer in self._sessions.connections):
            self._nothing_before = self._outbox.attended() + self.grace_seconds

    # --- for people --------------------------------------------------------------------------------------------------

    def counters(self) -> dict[str, int]:
        """Clients that were lost of late, registrations of lost clients that may end, those that ended after the
        longest time, and clients that arrive."""
        return {
            "clients_lost": self.presence.lately(self._outbox.attended(), self.grace_seconds),
            "endings_held": self.held,
            "endings_overdue": self._brake.overdue[LostRecord],
            "clients_arriving": self.presence.arriving,
            "leases": self.count,
            "leases_expired": self.rounds.expired,
            "leases_held": sum(number for (kind, _), number in self._brake.held.items() if kind is HeldLease),
            "leases_overdue": self._brake.overdue[HeldLease],
        }
