"""Removing the registrations of clients that have left.

A client that closed its connection in order, or whose registrations are on their way from elsewhere: two servers report
about one client, and their messages arrive in any order. So the leader first asks each session server to deliver what
it has on its way: a registration that came back is newer then, and stays
(docs/decisions/0007-ask-every-session-server-before-removing.md). Where no client said that it leaves, the removal also
waits for the evidence of :mod:`slotreeve_servers.data.held_back`. The original removes at once.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from slotreeve.model.publisher import Publisher
from slotreeve.ports import Message
from slotreeve_events.history import NO_REASONS
from slotreeve_events.log import EventLog
from slotreeve_protocol.general_messages import Done
from slotreeve_protocol.slot_messages import Deliver, SlotWrite

from slotreeve_servers.data.brake import Brake
from slotreeve_servers.data.claims import ClaimedClients
from slotreeve_servers.data.held_back import HeldBack, LostRecord
from slotreeve_servers.data.sessions import LINK_SILENCE_SECONDS, SessionServers
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.data.slots import HeldSlot, HeldSlots
from slotreeve_servers.node.outbox import Outbox, Peer, TurnEnd

log = logging.getLogger("slotreeve.departures")

GATHER_SECONDS = 0.01
"""Departures that arrive within this time share one round."""
AGAIN_SECONDS = 0.05
"""A session server that is not connected, or did not answer, is asked again after this time."""
LOOK_RECORDS = 10_000
"""Where more registrations than this are held back, they are looked at only by the timer."""
REMOVED_AT_ONCE = 1_000
"""So many registrations are removed in a turn: one large client holds up no others."""
BRAKED_PER_SECOND = 20_000
"""The more registrations the brake holds back, the longer the timer pauses before it looks at all of them again."""


class SlotWriter(Protocol):
    """The core of the server that leads the slots."""

    def store(self, slot: HeldSlot, write: SlotWrite, reasons: Mapping[str, str] = NO_REASONS) -> None:
        """Store in a led slot, and pass on what changed. ``reasons``: why registrations end, by register id."""


@dataclass(slots=True)
class Departure:
    """What is to be removed from one slot. ``gone``: tombstones of clients that said so. ``lost``: registrations of
    lost clients."""

    slot: HeldSlot
    gone: list[Publisher] = field(default_factory=list)
    lost: list[LostRecord] = field(default_factory=list)

    def take(self, most: int) -> Departure:
        """Take off at most so many registrations."""
        part = Departure(self.slot, self.gone[:most], self.lost[: max(0, most - len(self.gone))])
        del self.gone[: len(part.gone)], self.lost[: len(part.lost)]
        return part

    def __len__(self) -> int:
        """Number of registrations."""
        return len(self.gone) + len(self.lost)


@dataclass(eq=False, slots=True)
class Round:
    """Departures that are removed together.

    Attributes:
        sessions: the session processes at which clients may have been at any time in this round.
        asked: those that have been asked and may still answer.
        answered: those that have delivered what they had on their way.
        is_incomplete: one of them never answered, so that a client may be waiting to be let in there.
    """

    departures: list[Departure]
    slots: list[int]
    ends_at: float
    sessions: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    is_incomplete: bool = False


class Departures:
    """Round after round: gather departures, ask every session server, remove.

    A round takes at most ``data.session_grace_seconds``, whichever session servers have not answered. One with lost
    clients does not end sooner by an old view: such a client may have come back at a session server that has joined
    since.

    Args:
        events: the event log, which records what expired with its session server; None where there is none.

    Attributes:
        claims: the clients that send everything again elsewhere.
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
        self._outbox, self._slots, self._writer, self._sessions = outbox, slots, writer, sessions
        self._rules, self._brake, self._events = rules, brake, events
        self.claims = ClaimedClients()
        self._held = HeldBack(rules, slots, self.claims, brake)
        self._gathered: list[Departure] = []
        self._round: Round | None = None
        self._was_held = False
        self._next_look = 0.0
        self._look_soon = TurnEnd(outbox, self.look)
        self._looking: Iterator[list[LostRecord]] | None = None
        self._look_again = False
        self._look_on = TurnEnd(outbox, self._look_at_some)
        self._leaving: deque[Departure] = deque()
        self._remove_more = TurnEnd(outbox, self._remove_some)

    def rules_changed(self, rules: DataSettings) -> None:
        """The operator has changed the rules, or has frozen or thawed the brake. What is held back is looked at by
        them."""
        self._rules = rules
        self._held.rules_changed(rules)

    def said(self, slot: HeldSlot, gone: list[Publisher]) -> None:
        """The clients of these tombstones left, and said so."""
        self._depart(Departure(slot, gone=gone))

    def lost(self, entries: Iterable[LostRecord]) -> int:
        """The clients of these registrations, all in one slot, are lost as far as is known. Returns how many
        registrations were not known to be lost before."""
        entries = list(entries)
        added = self._held.hold(entries, self._outbox.attended())
        waits = all(entry.gone for entry in entries)  # for the grace: the timer looks in time
        if added and not waits and len(self._held) <= LOOK_RECORDS:
            self._look_soon.soon()
        return added

    def claims_changed(self, clients: Iterable[str]) -> None:
        """Claims of these clients began or ended."""
        self._held.claims_changed(clients, self._outbox.attended())

    def process_is_gone(self, process_id: str) -> None:
        """A session process is gone. A client that was sending everything again to it has the grace for what it has
        elsewhere, as for what it has there."""
        clients, now = self.claims.drop(process_id), self._outbox.attended()
        self._held.claims_changed(clients, now)
        self._held.stay(clients, now + self._rules.session_grace_seconds)

    def process_is_back(self, process_id: str) -> None:
        """A session process that was gone is a member or linked again: its clients are not lost."""
        self._held.process_is_back(process_id)
        asked = self._round.departures if self._round is not None else ()
        for departure in (*self._gathered, *asked, *self._leaving):
            departure.lost = [entry for entry in departure.lost if entry.gone != process_id]

    def table_changed(self) -> None:
        """The slots that this server leads are others: what it holds back of former ones concerns it no more."""
        if self._held.clients:
            self._held.table_changed()
            self._look_soon.soon()

    def stored(self, slot: HeldSlot, records: list[Publisher]) -> None:
        """These records were stored in a led slot."""
        if self._held.clients:
            self._held.stored(slot, records, self._outbox.attended())

    def look_by_timer(self) -> None:
        """:meth:`look`, unless very many are held back and were looked at shortly before."""
        if self._outbox.attended() >= self._next_look:
            self.look()
            self._next_look = self._outbox.attended() + self._held.braked / BRAKED_PER_SECOND

    def look(self) -> None:
        """Begin to remove the lost registrations for which there is evidence enough.

        A data server that no session server is linked to is cut off itself, and nobody reads there: it removes nothing,
        and the clients have the grace once a session server is linked again.
        """
        if self._looking is not None:
            self._look_again = True
            return
        self._looking = self._held.look(self._slots.registrations, self._outbox.attended())
        self._look_at_some()

    def _look_at_some(self) -> None:
        """Go on with the look; it pauses where it has looked at many registrations."""
        assert self._looking is not None
        if not any(self._outbox.silent_for(peer) < LINK_SILENCE_SECONDS for peer in self._sessions.connections):
            self._held.wait(self._outbox.attended())
            self._looking, self._look_again = None, False
            return
        released = next(self._looking, None)
        if released is None:
            self._looking = None
            self._report()
            if self._look_again:
                self._look_again = False
                self._look_soon.soon()
            return
        departures: dict[int, Departure] = {}
        for entry in released:
            departures.setdefault(entry.slot.slot.id, Departure(entry.slot)).lost.append(entry)
        for departure in departures.values():
            self._depart(departure)
        self._look_on.soon()

    def counters(self) -> dict[str, int]:
        """Clients that were lost of late, registrations of lost clients that are held back, those removed after the
        longest time, and claims."""
        return {
            "clients_lost": self._held.lost_lately(self._outbox.attended()),
            "departures_held": len(self._held),
            "departures_overdue": self._held.overdue,
            "clients_claimed": len(self.claims),
        }

    def _report(self) -> None:
        """Log when the brake begins and ends to hold registrations back."""
        if self._brake.is_frozen:
            return  # who ordered that knows it
        braked = self._held.braked
        if bool(braked) is self._was_held:
            return
        self._was_held = bool(braked)
        if braked:
            log.error(
                "ALARM: %d registrations of lost clients are held back, because so many are lost at once "
                "(data.brake_share); each for %g s at most (data.brake_hold_seconds)",
                braked,
                self._brake.limits.hold_seconds,
            )
        else:
            log.warning("no registration of a lost client is held back any more")

    def _depart(self, departure: Departure) -> None:
        departure.slot.departing += 1
        if not self._gathered and self._round is None:
            self._outbox.after(GATHER_SECONDS, self._begin)
        self._gathered.append(departure)

    def _begin(self) -> None:
        departures, self._gathered = self._gathered, []
        slots = sorted({departure.slot.slot.id for departure in departures})
        self._round = Round(departures, slots, self._outbox.attended() + self._rules.session_grace_seconds)
        self._ask(self._round)

    def _ask(self, current: Round) -> None:
        """Ask each session server that has not answered; end the round where all have, or its time is over."""
        if current is not self._round:
            return
        sessions = self._sessions.with_clients()
        is_over = self._outbox.attended() >= current.ends_at
        current.sessions |= sessions.keys()
        unanswered = sessions.keys() - current.answered
        if (is_over and unanswered) or not current.sessions - current.answered <= sessions.keys():
            current.is_incomplete = True
        if is_over or self._is_complete(current):
            self._end_when_read(current)
            return
        for process_id in sorted(unanswered - current.asked):
            peer = sessions[process_id]
            if peer is not None:
                self._ask_one(current, process_id, peer)
        self._outbox.after(AGAIN_SECONDS, partial(self._ask, current))

    def _ask_one(self, current: Round, process_id: str, peer: Peer) -> None:
        def answered(reply: Message | None, error: Exception | None) -> None:
            if current is not self._round:
                return
            current.asked.discard(process_id)
            if isinstance(reply, Done):
                current.answered.add(process_id)
                # The last one asked looks at all of them: once a round, however many session servers there are.
                if not current.asked and self._is_complete(current):
                    self._end_when_read(current)

        if self._outbox.ask(peer, Deliver(current.slots), answered, math.inf):
            current.asked.add(process_id)

    def _is_complete(self, current: Round) -> bool:
        """Whether every session process has answered; for lost clients by a view that is not old."""
        if not current.answered.issuperset(self._sessions.with_clients()):
            return False
        are_lost = any(departure.lost for departure in current.departures)
        return not are_lost or self._sessions.is_current(self._outbox.now())

    def _end_when_read(self, current: Round) -> None:
        """End the round after what has arrived: a session server may have sent the registrations of a client that
        came back after it had answered."""
        self._outbox.when_read(partial(self._end, current))

    def _end(self, current: Round) -> None:
        if current is not self._round:
            return
        self._round = None
        if current.is_incomplete:
            for departure in current.departures:
                self._postpone(departure)
        self._leaving.extend(current.departures)
        self._remove_some()
        if self._gathered:
            self._begin()

    def _remove_some(self) -> None:
        """Remove the next departures, the rest in the next turn."""
        left = REMOVED_AT_ONCE
        while self._leaving and left > 0:
            departure = self._leaving[0]
            part = departure.take(left)
            left -= len(part)
            if not len(departure):
                departure.slot.departing -= 1
                self._leaving.popleft()
            self._remove(part)
        if self._leaving:
            self._remove_more.soon()

    def _postpone(self, departure: Departure) -> None:
        """A session server was frozen or is gone: a lost client may have tried to connect to it, and comes back only
        now. It has the grace, once."""
        until = self._outbox.attended() + self._rules.session_grace_seconds
        again = [entry._replace(until=until) for entry in departure.lost if not entry.until]
        self._held.hold(again, self._outbox.attended())
        departure.lost = [entry for entry in departure.lost if entry.until]

    def _remove(self, departure: Departure) -> None:
        slot = departure.slot
        if self._slots.get(slot.slot.id) is not slot:
            return  # its next leader compares with every session server first, and so finds what left
        lost = []
        for entry in departure.lost:
            if slot.store.find(entry.record) != entry.record:
                continue  # it was sent again meanwhile
            now = self._outbox.attended()
            if self._brake.is_frozen or self.claims.protects(entry.record):
                self._held.hold((entry,), now)
            elif not self._held.postpone(entry, now):
                lost.append(entry)
        gone = [*departure.gone, *(entry.record.tombstone() for entry in lost if entry.leaves_tombstone)]
        purged = [(e.record.data_info_id, e.record.register_id) for e in lost if not e.leaves_tombstone]
        if gone or purged:
            reasons = {entry.record.register_id: _why(entry) for entry in lost}
            self._writer.store(slot, SlotWrite(slot.slot.id, slot.slot.leader_epoch, [], gone, purged), reasons)
        if self._events is not None:
            for entry in lost:
                # A session server that lives writes this down itself.
                if not self._sessions.is_member(entry.record.session):
                    self._events.expired(entry.record)


def _why(entry: LostRecord) -> str:
    """Why a registration ends, for people."""
    if entry.gone:
        return f"its session server is gone (process {entry.gone}), and its client did not come back"
    return "its client was lost: it did not come back after its connection had ended, or was silent for too long"
