"""The last steps of registrations that may end (docs/endings.md): session servers are asked for what they have on their
way, then the brake decides, and the rest ends."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from slotreeve.model.publisher import Publisher
from slotreeve_events.history import NO_REASONS
from slotreeve_events.log import EventLog
from slotreeve_protocol.slot_messages import SlotEpoch, SlotWrite

from slotreeve_servers.data.endings.barrier import Barrier
from slotreeve_servers.data.endings.brake import Brake
from slotreeve_servers.data.endings.ending import BRAKED, Ending, EndingEvent, HeldLease, LostRecord
from slotreeve_servers.data.endings.sessions import SessionServers
from slotreeve_servers.data.slots.slots import HeldSlot, HeldSlots
from slotreeve_servers.node.outbox import Outbox

if TYPE_CHECKING:
    from slotreeve_servers.data.endings.endings import Endings

GATHER_SECONDS = 0.01
"""Endings that are due within this time share one round of marks."""
ENDED_AT_ONCE = 200
"""So many end in one step: those of a slot are one write."""
BRAKED_PER_SECOND = 20_000
"""The more the brake holds, or wait for a confirmation, the longer it is until all of them are looked at again."""


class SlotWriter(Protocol):
    """The core of the server that leads the slots."""

    def store(self, slot: HeldSlot, write: SlotWrite, reasons: Mapping[str, str] = NO_REASONS) -> None:
        """Store in a led slot, and pass on what changed. ``reasons``: why registrations end, by register id."""


class LeaseRules(Protocol):
    """What only the keeper of leases knows of them.

    Attributes:
        regained_at: when the meta leader confirmed this server after a while in which it did not, in attended seconds.
            Nobody could renew anything meanwhile: each lease has its whole time from then on, as under a new leader.
    """

    regained_at: float

    def may_end(self, lease: HeldLease) -> bool:
        """Whether nobody can have acknowledged a renewal of a lease whose time is over."""

    def is_unheard(self, lease: HeldLease) -> bool:
        """Whether nobody is heard who renews leases, so that the one of this lease may be cut off as well."""


class EndingRounds:
    """The registrations that are asked about, and those that the brake holds.

    Args:
        events: the event log, which records what expired with its session server; None where there is none.

    Attributes:
        expired: leases that ended since the start because nobody renewed them.
    """

    def __init__(
        self,
        states: Endings,
        outbox: Outbox,
        slots: HeldSlots,
        writer: SlotWriter,
        sessions: SessionServers,
        brake: Brake,
        events: EventLog | None,
    ) -> None:
        self._states, self._outbox, self._slots, self._writer = states, outbox, slots, writer
        self._sessions, self._brake, self._events = sessions, brake, events
        self._barrier: Barrier | None = None
        self._gathered: dict[Ending, None] = {}
        self._asked: dict[Ending, None] = {}
        self._marks: bool | None = None
        self._ready: dict[Ending, None] = {}
        self._next_end = -math.inf
        self.expired = 0

    def came(self, ending: Ending) -> None:
        """A registration came into :attr:`EndingState.ASKED` or :attr:`EndingState.BRAKED`."""
        if ending.state is BRAKED:
            ending.held_since = self._states.held_since(ending)
            self._ready[ending] = None
            return
        if not self._gathered and not self.is_asking:
            self._outbox.after(GATHER_SECONDS, self._ask)
        self._gathered[ending] = None

    def left(self, ending: Ending) -> None:
        """It is in another state now."""
        for among in (self._gathered, self._asked, self._ready):
            among.pop(ending, None)

    def look(self) -> None:
        """Look at what the brake holds, after a while that grows with their number."""
        if self._ready and self._outbox.attended() >= self._next_end:
            self._outbox.pace(self._end)

    def look_soon(self) -> None:
        """The brake may let more end now."""
        self._next_end = -math.inf

    @property
    def is_asking(self) -> bool:
        """Whether session servers are asked for what they have on their way."""
        return self._barrier is not None

    # --- the marks ---------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        if self.is_asking or not self._gathered:
            return
        self._asked, self._gathered = self._gathered, {}
        rows = {ending.slot.slot.id: ending.slot.slot for ending in self._asked}
        lost = any(isinstance(ending, LostRecord) and not ending.said for ending in self._asked)
        slots = [SlotEpoch(number, row.leader_epoch) for number, row in sorted(rows.items())]
        seconds, passed = self._states.grace_seconds, self._marks_are_back
        self._barrier = Barrier(self._outbox, self._sessions, slots, lost, seconds, passed)
        self._barrier.ask()

    def _marks_are_back(self, is_complete: bool) -> None:
        self._marks = is_complete
        self._outbox.pace(self._end)

    def _take_marks(self, is_complete: bool) -> Iterator[None]:
        """All session servers have delivered, or the grace is over. One that did not answer is frozen or gone: a lost
        client may have tried to connect to it, and comes back only now. It has the grace, once."""
        until = self._outbox.attended() + self._states.grace_seconds
        said = [ending for ending in self._asked if ending.said]
        for ending in list(self._asked):
            if ending not in self._asked:
                continue
            if not is_complete and isinstance(ending, LostRecord) and not ending.not_before and not ending.said:
                ending.not_before = until
                self._states.move(ending, EndingEvent.PUT_OFF)
            else:
                self._states.move(ending, EndingEvent.MARKS_BACK)
            yield
        self._marks = self._barrier = None
        self._ask()
        yield from self._remove_all(said)

    # --- the brake ---------------------------------------------------------------------------------------------------

    def _end(self) -> Iterator[None]:
        """End what may end now."""
        if self._marks is not None:
            yield from self._take_marks(self._marks)
            if self._outbox.attended() < self._next_end:
                return  # the others wait for the next look at all that is held
        self._states.hear()
        free: list[Ending] = []
        for ending in list(self._ready):
            if ending.state is BRAKED and self._is_due(ending):
                free.append(ending)
            yield
        look = self._brake.look(self._slots.registrations, self._outbox.attended())
        for ending in free:
            look.add(ending)
            yield
        leaving: list[Ending] = []
        for ending in free:
            if look.lets_end(ending, self._is_doubtful(ending)):
                leaving.append(ending)
            yield
        look.end()
        self._next_end = self._outbox.attended() + len(self._ready) / BRAKED_PER_SECOND
        yield from self._remove_all(leaving)

    def _remove_all(self, leaving: list[Ending]) -> Iterator[None]:
        for start in range(0, len(leaving), ENDED_AT_ONCE):
            self._remove([each for each in leaving[start : start + ENDED_AT_ONCE] if each.state is BRAKED])
            yield

    def _is_doubtful(self, ending: Ending) -> bool:
        """Whether the callers of leases, which are many, seem to be cut off."""
        return (
            isinstance(ending, HeldLease)
            and self._states.count > self._brake.rules.brake_few
            and self._states.leases.is_unheard(ending)
        )

    def _is_due(self, ending: Ending) -> bool:
        """Whether a registration is still there and due, so that the brake decides."""
        if not self._slots.has(ending.slot) or ending.record_that_ends() is None:
            self._states.move(ending, EndingEvent.SENT_AGAIN)
            return False
        if self._states.deadline(ending) > self._outbox.attended():
            self._states.move(ending, EndingEvent.PUT_OFF)
            return False
        return not isinstance(ending, HeldLease) or self._states.leases.may_end(ending)

    def _remove(self, endings: Iterable[Ending]) -> None:
        writes: dict[HeldSlot, SlotWrite] = {}
        reasons: dict[str, str] = {}
        for ending in endings:
            record = ending.record_that_ends()
            if record is None or not self._slots.has(ending.slot) or (self._brake.is_frozen and not ending.said):
                continue
            if self._states.deadline(ending) > self._outbox.attended():
                continue  # it has turned out to be one of many
            self._states.move(ending, EndingEvent.RELEASED)
            slot = ending.slot
            if slot not in writes:
                writes[slot] = SlotWrite(slot.slot.id, slot.slot.leader_epoch, [], [], [])
            ending.remove_by(writes[slot], record)
            if not ending.said:
                reasons[ending.register_id] = ending.why()
                self._note(ending, record)
        for slot, write in writes.items():
            self._writer.store(slot, write, reasons)

    def _note(self, ending: Ending, record: Publisher) -> None:
        """Count the end, and write it down unless a session server that lives does."""
        self.expired += isinstance(ending, HeldLease)
        if self._events is not None and record.session not in self._sessions.members:
            self._events.expired(record)
