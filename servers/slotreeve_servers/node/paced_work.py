"""Work that goes in parts, so that no turn of the event loop is long: what arrives meanwhile, pings above all, is read
between two turns."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from functools import partial
from typing import Protocol

from slotreeve_servers.node.outbox import Outbox, TurnEnd, Work

TURN_SECONDS = 0.005
"""As long as a listener reads in one turn."""
PATIENT_SECONDS = 0.001
"""While there is more to read, patient work gets only so long in a turn: pings may be among it."""
STEPS_AT_ONCE = 50
"""So many steps of one work are done before the next work gets its turn: those of one client go out together."""

AGAIN_SECONDS = 0.05
"""A work that has raised begins anew after this time: not at once, because it may raise there for ever."""


class EventLoopTurns(Outbox, Protocol):
    """The outbox of a server, with the clock that ends its turns."""

    def reached(self, at: float) -> bool:
        """See :meth:`slotreeve.clock.Clock.reached`."""


class PacedWork:
    """All such work of one server. It is done at the ends of turns, for :data:`TURN_SECONDS` in each. The works take
    turns; patient ones and the others do so among themselves, and each kind does one step in a turn at least."""

    def __init__(self, turns: EventLoopTurns) -> None:
        self._turns = turns
        self._prompt, self._patient = _Ring(turns), _Ring(turns)
        self._turn_end = TurnEnd(turns, self._do)
        # Works that have raised, each with a timer: one, however often it is asked for, and raises, meanwhile.
        self._resting: set[tuple[Work, tuple[Hashable, ...], bool]] = set()

    def run(self, work: Work, *about: Hashable, is_patient: bool = False) -> None:
        """Do ``work(*about)`` from the end of this turn on. Where it is under way, it is done once more afterwards.

        A work that raises is logged and counted as a failure. The other works go on in the next turn, and it begins
        anew after :data:`AGAIN_SECONDS`: what it has not taken in hand yet is done then.
        """
        (self._patient if is_patient else self._prompt).add(work, about)
        self._turn_end.soon()

    def _do(self) -> None:
        began = self._turns.now()
        patient_until = began + (PATIENT_SECONDS if self._turns.has_unread else TURN_SECONDS)
        due = [(self._prompt, began + TURN_SECONDS), (self._patient, patient_until)]
        try:
            while due:
                due = [(ring, until) for ring, until in due if ring.visit(until)]
        finally:
            for is_patient, ring in ((False, self._prompt), (True, self._patient)):
                for work, about in ring.take_failed():
                    if (work, about, is_patient) not in self._resting:
                        self._resting.add((work, about, is_patient))
                        self._turns.after(AGAIN_SECONDS, partial(self._begin_anew, work, about, is_patient))
            if self._prompt.works or self._patient.works:
                self._turn_end.soon()

    def _begin_anew(self, work: Work, about: tuple[Hashable, ...], is_patient: bool) -> None:
        self._resting.discard((work, about, is_patient))
        self.run(work, *about, is_patient=is_patient)


class _Ring:
    """Works that take turns.

    Attributes:
        works: those under way, the next one first, by the generator and its arguments.
    """

    def __init__(self, turns: EventLoopTurns) -> None:
        self._turns = turns
        self.works: OrderedDict[tuple[Work, tuple[Hashable, ...]], Iterator[None]] = OrderedDict()
        self._again: set[tuple[Work, tuple[Hashable, ...]]] = set()
        self._failed: list[tuple[Work, tuple[Hashable, ...]]] = []

    def take_failed(self) -> list[tuple[Work, tuple[Hashable, ...]]]:
        """The works that have raised since the last call."""
        failed, self._failed = self._failed, []
        return failed

    def add(self, work: Work, about: tuple[Hashable, ...]) -> None:
        """Begin a work, or begin it anew once it is over."""
        key = work, about
        if key in self.works:
            self._again.add(key)
        else:
            self.works[key] = work(*about)

    def visit(self, until: float) -> bool:
        """Do some steps of the next work, one at least. Returns whether there are more works, and time for them."""
        if not self.works:
            return False
        key, steps = next(iter(self.works.items()))
        is_over = is_late = has_raised = False
        try:
            for _ in range(STEPS_AT_ONCE):
                has_raised = True
                is_over = next(steps, self) is self
                has_raised = False
                is_late = self._turns.reached(until)
                if is_over or is_late:
                    break
        finally:
            if has_raised:
                del self.works[key]
                self._again.discard(key)
                self._failed.append(key)
            elif not is_over:
                self.works.move_to_end(key)
            else:
                del self.works[key]
                if key in self._again:
                    self._again.discard(key)
                    self.add(*key)
        return bool(self.works) and not is_late
