"""Runs a state machine: steps it with events, carries out its effects in order, and keeps its one timer.

A state machine is pure: ``step(event, now)`` returns effects, and ``deadline`` says when it is to be stepped with
:class:`Tick`. The driver is the only caller of a machine, and it is the same for all of them. What the effects mean is
the business of one :class:`Performer`.

Effects are carried out one after the other, and an event that arrives meanwhile waits until the effects before it are
done. An effect that takes its time, such as a write to a disk in another thread, is answered with a :class:`Pending`.
The effects after it wait until it is finished, but the machine is stepped with the events that arrive meanwhile: a slow
disk stops no machine. Which effect comes next is the business of an :class:`EffectQueue`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from slotreeve.clock import Clock, Timer

NEVER = float("inf")
"""The deadline of a machine that waits for nothing."""


@dataclass(frozen=True, slots=True)
class Started:
    """The first event of every machine."""


@dataclass(frozen=True, slots=True)
class Tick:
    """The machine's deadline has come."""


EventT = TypeVar("EventT")
EffectT = TypeVar("EffectT")
EventT_contra = TypeVar("EventT_contra", contravariant=True)
EffectT_co = TypeVar("EffectT_co", covariant=True)
EffectT_contra = TypeVar("EffectT_contra", contravariant=True)


class StateMachine(Protocol[EventT_contra, EffectT_co]):
    """What can be driven."""

    @property
    def deadline(self) -> float:
        """When the machine is to be stepped with :class:`Tick`, on the clock of ``now``; NEVER for not at all."""

    def step(self, event: EventT_contra | Started | Tick, now: float) -> Sequence[EffectT_co]:
        """Take one event, at the monotonic time ``now`` in seconds; the effects, in order.

        Any exception ends the machine: it is not stepped again.
        """


class Pending:
    """An effect that has begun and is not done yet. Used on the event loop only."""

    def __init__(self) -> None:
        self._outcome: list[Exception | None] = []
        self._finished: Callable[[Exception | None], None] | None = None

    def finish(self, error: Exception | None = None) -> None:
        """The effect is done, or has failed with ``error``. To be called exactly once."""
        self._outcome.append(error)
        if self._finished is not None:
            self._finished(error)

    def when_finished(self, finished: Callable[[Exception | None], None]) -> None:
        """Call ``finished`` with the outcome; at once if it is known already."""
        self._finished = finished
        if self._outcome:
            finished(self._outcome[0])


class Performer(Protocol[EffectT_contra]):
    """What carries out the effects of one machine."""

    def perform(self, effect: EffectT_contra) -> Pending | None:
        """Carry out an effect. None: it is done. A Pending: it is done when that is finished.

        Any exception ends the machine, as one of :meth:`StateMachine.step` does.
        """

    def failed(self, error: Exception) -> None:
        """The machine was dropped because a step or an effect of it raised ``error``; nothing more is done for it."""


class EffectQueue(Generic[EffectT]):
    """The effects that wait, in the order in which the machine gave them out. A subclass may let some overtake."""

    def __init__(self) -> None:
        self._waiting: deque[EffectT] = deque()

    def add(self, effects: Sequence[EffectT]) -> None:
        """Append the effects of one step."""
        self._waiting.extend(effects)

    def take(self, is_pending: bool) -> EffectT | None:
        """Remove and return the next effect; None if there is none that may be carried out now.

        ``is_pending``: an effect is not finished yet, so only one that does not depend on it may be returned.
        """
        return None if is_pending or not self._waiting else self._waiting.popleft()

    def clear(self) -> None:
        """Drop every effect."""
        self._waiting.clear()


class Driver(Generic[EventT, EffectT]):
    """Drives one machine at a time. Used on one event loop only.

    Attributes:
        machine: the one that is driven now; None before :meth:`run`, after :meth:`stop` and after a failure.
    """

    def __init__(
        self, clock: Clock, performer: Performer[EffectT], effects: EffectQueue[EffectT] | None = None
    ) -> None:
        """``effects``: decides about their order; by default strictly the machine's."""
        self._clock = clock
        self._performer = performer
        self._events: deque[EventT | Started | Tick] = deque()
        self._effects: EffectQueue[EffectT] = EffectQueue() if effects is None else effects
        self._pending: Pending | None = None
        self._is_working = False
        self._is_stopped = False
        self._timer: Timer | None = None
        self._timer_due = NEVER
        self.machine: StateMachine[EventT, EffectT] | None = None

    def run(self, machine: StateMachine[EventT, EffectT]) -> None:
        """Drive ``machine`` from now on, beginning with :class:`Started`. No other machine may be driven."""
        self.machine = machine
        self._is_stopped = False
        self._events.appendleft(Started())
        self._work()

    @property
    def is_pending(self) -> bool:
        """An effect is not finished yet."""
        return self._pending is not None

    def take(self, event: EventT | Started | Tick) -> None:
        """Step the machine with ``event`` once the effects before it are done, or wait for one that takes its time.

        Before the first :meth:`run` the event waits for it. Without a machine after that, the event is dropped.
        """
        if not self._is_stopped:
            self._events.append(event)
            self._work()

    def stop(self) -> None:
        """Drop the machine, its timer, and every event and effect that waits. Harmless without a machine."""
        self.machine = self._pending = None
        self._is_stopped = True
        self._events.clear()
        self._effects.clear()
        self._set_timer()

    def _work(self) -> None:
        if self._is_working:
            return  # called from an effect: the loop below goes on with the event when its turn comes
        self._is_working = True
        try:
            while self.machine is not None and self._go_on(self.machine):
                pass
        finally:
            self._is_working = False
        self._set_timer()

    def _go_on(self, machine: StateMachine[EventT, EffectT]) -> bool:
        """Carry out the next effect, or take the next event where no effect can be; False if there is nothing to do."""
        try:
            effect = self._effects.take(self._pending is not None)
            if effect is not None:
                pending = self._performer.perform(effect)
                if pending is not None and self.machine is machine:
                    self._wait_for(pending)
            elif self._events:
                self._effects.add(machine.step(self._events.popleft(), self._clock.now()))
            else:
                return False
        except Exception as error:  # noqa: BLE001 - the performer is given it, and decides what to do
            self._fail(error)
        return True

    def _wait_for(self, pending: Pending) -> None:
        def finished(error: Exception | None) -> None:
            if self._pending is not pending:
                return  # the machine was stopped meanwhile
            self._pending = None
            if error is not None:
                self._fail(error)
            self._work()

        self._pending = pending
        pending.when_finished(finished)

    def _fail(self, error: Exception) -> None:
        self.stop()
        self._performer.failed(error)

    def _set_timer(self) -> None:
        """Have a timer for the machine's deadline."""
        due = NEVER if self.machine is None else self.machine.deadline
        if self._timer is not None:
            if self._timer_due == due:
                return
            self._timer.cancel()
            self._timer = None
        if due < NEVER:
            self._timer_due = due
            self._timer = self._clock.call_later(max(0.0, due - self._clock.now()), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.take(Tick())
