"""Work that goes in parts, so that no turn of the event loop is long: what arrives meanwhile, pings above all, is read
between two turns."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Protocol

TURN_SECONDS = 0.005
"""As long as a listener reads in one turn."""
PATIENT_SECONDS = 0.001
"""While there is more to read, patient work gets only so long in a turn: pings may be among it."""
STEPS_AT_ONCE = 50
"""So many steps of one work are done before the next work gets its turn: those of one client go out together."""

Work = Callable[..., Iterator[None]]
"""A generator. Each ``yield`` ends a step, after which anything else may happen before the next one."""


class EventLoopTurns(Protocol):
    """The turns of an event loop."""

    @property
    def has_unread(self) -> bool:
        """See :attr:`slotreeve_servers.node.outbox.Outbox.has_unread`."""

    def now(self) -> float:
        """See :meth:`slotreeve.clock.Clock.now`."""

    def reached(self, at: float) -> bool:
        """See :meth:`slotreeve.clock.Clock.reached`."""

    def at_turns_end(self, action: Callable[[], None]) -> None:
        """See :meth:`slotreeve_servers.node.outbox.Outbox.at_turns_end`."""


class PacedWork:
    """All such work of one server. It is done at the ends of turns, for :data:`TURN_SECONDS` in each. The works take
    turns; patient ones and the others do so among themselves, and each kind does one step in a turn at least."""

    def __init__(self, turns: EventLoopTurns) -> None:
        self._turns = turns
        self._prompt, self._patient = _Ring(turns), _Ring(turns)
        self._is_due = False

    def run(self, work: Work, *about: Hashable, is_patient: bool = False) -> None:
        """Do ``work(*about)`` from the end of this turn on. Where it is under way, it is done once more afterwards.

        A work that raises ends there, and is logged and counted as a failure; the other works go on.
        """
        (self._patient if is_patient else self._prompt).add(work, about)
        self._soon()

    def _soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._turns.at_turns_end(self._do)

    def _do(self) -> None:
        self._is_due = False
        began = self._turns.now()
        patient_until = began + (PATIENT_SECONDS if self._turns.has_unread else TURN_SECONDS)
        due = [(self._prompt, began + TURN_SECONDS), (self._patient, patient_until)]
        try:
            while due:
                due = [(ring, until) for ring, until in due if ring.visit(until)]
        finally:
            if self._prompt.works or self._patient.works:
                self._soon()


class _Ring:
    """Works that take turns.

    Attributes:
        works: those under way, the next one first, by the generator and its arguments.
    """

    def __init__(self, turns: EventLoopTurns) -> None:
        self._turns = turns
        self.works: OrderedDict[tuple[Work, tuple[Hashable, ...]], Iterator[None]] = OrderedDict()
        self._again: set[tuple[Work, tuple[Hashable, ...]]] = set()

    def add(self, work: Work, about: tuple[Hashable, ...]) -> None:
        """Begin a work, or begin it anew once it is over."""
        if (work, about) in self.works:
            self._again.add((work, about))
        else:
            self.works[work, about] = work(*about)

    def visit(self, until: float) -> bool:
        """Do some steps of the next work, one at least. Returns whether there are more works, and time for them."""
        if not self.works:
            return False
        key, steps = next(iter(self.works.items()))
        is_over = is_late = True
        try:
            for _ in range(STEPS_AT_ONCE):
                is_over = True
                is_over = next(steps, self) is self
                is_late = self._turns.reached(until)
                if is_over or is_late:
                    break
        finally:
            if not is_over:
                self.works.move_to_end(key)
            else:
                del self.works[key]
                if key in self._again:
                    self._again.discard(key)
                    self.add(*key)
        return bool(self.works) and not is_late
