"""Registrations whose clients have left according to one session server: they are removed once every session server was
asked.

A client that lost its session server connects to another one at once. Where the slot's leader is hard to reach
meanwhile, the departure that the old server reports and the replay that the new server sends wait side by side, and
then arrive in any order. Removed on arrival, a registration that lives would vanish for a moment. So the leader first
asks each session server to deliver what it has on its way: a registration that came back is newer then, and stays
(docs/decisions/0007-ask-every-session-server-before-removing.md). The
original removes at once.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from slotreeve.model.publisher import Publisher
from slotreeve.ports import Message
from slotreeve_events.log import EventLog
from slotreeve_protocol.general_messages import Done
from slotreeve_protocol.slot_messages import Deliver, SlotWrite

from slotreeve_servers.data.sessions import SessionServers
from slotreeve_servers.data.slots import HeldSlot, HeldSlots
from slotreeve_servers.node.outbox import Outbox, Peer

log = logging.getLogger("slotreeve.departures")

GATHER_SECONDS = 0.01
"""Departures that arrive within this time share one round."""
AGAIN_SECONDS = 0.05
"""A session server that is not connected, or did not answer, is asked again after this time."""


class SlotWriter(Protocol):
    """The core of the server that leads the slots."""

    def store(self, slot: HeldSlot, write: SlotWrite) -> None:
        """Store in a led slot, and pass on what changed."""


@dataclass(slots=True)
class Departure:
    """What is to be removed from one slot. ``gone``: tombstones; ``left``: records as they were, removed without a
    tombstone."""

    slot: HeldSlot
    gone: list[Publisher]
    left: list[Publisher]


@dataclass(eq=False, slots=True)
class Round:
    """Departures that are removed together, and the session processes that have not answered yet."""

    departures: list[Departure]
    slots: list[int]
    unanswered: set[str]
    ends_at: float
    asked: set[str]


class Departures:
    """Round after round: gather departures, ask every session server, remove.

    Args:
        events: the event log, which records what expired with its session server; None where there is none.
        patience_seconds: a round does not take longer than this, whichever session servers have not answered.
    """

    def __init__(
        self,
        outbox: Outbox,
        slots: HeldSlots,
        writer: SlotWriter,
        sessions: SessionServers,
        events: EventLog | None,
        patience_seconds: float,
    ) -> None:
        self._outbox, self._slots, self._writer, self._sessions = outbox, slots, writer, sessions
        self._events, self._patience = events, patience_seconds
        self._gathered: list[Departure] = []
        self._round: Round | None = None

    def add(self, slot: HeldSlot, gone: list[Publisher], left: list[Publisher]) -> None:
        """These depart from ``slot``: at once where it does not serve, because it is not read there."""
        departure = Departure(slot, gone, left)
        if not slot.serving:
            self._remove(departure)
            return
        slot.departing += 1
        if not self._gathered and self._round is None:
            self._outbox.after(GATHER_SECONDS, self._begin)
        self._gathered.append(departure)

    def _begin(self) -> None:
        departures, self._gathered = self._gathered, []
        slots = sorted({departure.slot.slot.id for departure in departures})
        unanswered = set(self._sessions.connected_members())
        self._round = Round(departures, slots, unanswered, self._outbox.now() + self._patience, set())
        self._ask(self._round)

    def _ask(self, current: Round) -> None:
        """Ask each session server that has not answered; end the round where all have, or its time is over."""
        if current is not self._round:
            return
        sessions = self._sessions.connected_members()
        current.unanswered &= sessions.keys()
        if not current.unanswered or self._outbox.now() >= current.ends_at:
            self._end(current)
            return
        for process_id in sorted(current.unanswered - current.asked):
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
                current.unanswered.discard(process_id)
                if not current.unanswered:
                    self._end(current)

        if self._outbox.ask(peer, Deliver(current.slots), answered, self._patience):
            current.asked.add(process_id)

    def _end(self, current: Round) -> None:
        self._round = None
        for departure in current.departures:
            departure.slot.departing -= 1
            self._remove(departure)
        if self._gathered:
            self._begin()

    def _remove(self, departure: Departure) -> None:
        slot = departure.slot
        if self._slots.get(slot.slot.id) is not slot:
            return  # its next leader compares with every session server first, and so finds what left
        left = [record for record in departure.left if slot.store.find(record) == record]
        if departure.gone or left:
            purged = [(record.data_info_id, record.register_id) for record in left]
            self._writer.store(slot, SlotWrite(slot.slot.id, slot.slot.leader_epoch, [], departure.gone, purged))
        if self._events is not None:
            for record in left:
                # A session server that lives writes this down itself.
                if not self._sessions.is_member(record.session):
                    self._events.expired(record)
