"""The clock of a simulated process, which may be killed, frozen or busy."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial

from slotreeve.clock import LoopTime, Timer
from slotreeve_conformance.virtual_time import START_SECONDS, VirtualClock

from slotreeve_simulator.processor import SimulatedProcessor

LONG_STEPS = 0.1
"""The share of steps of a work in parts after which a turn is over."""
LONG_TURNS = 0.05
LONGEST_TURN_SECONDS = 0.005
"""So many turns go on, for so long at most: a listener reads for as long in one turn."""
SHORTEST_WAIT_SECONDS = 1e-9
"""Shortest wait of a drifting clock. With a shorter one, a rounding error could keep the loop's time from advancing."""


class ProcessTimer:
    """A timer of a process, which may have to wait for the processor after it is due, or for as long as the machine was
    suspended.

    Attributes:
        timer: the loop's timer.
        slept: how long the machine had been suspended when this timer was last set.
    """

    timer: Timer

    def __init__(self, slept: float) -> None:
        self.slept = slept

    def cancel(self) -> None:
        """See :class:`slotreeve.clock.Timer`."""
        self.timer.cancel()


class ProcessClock(VirtualClock):
    """The clock of one simulated process. The timers of a killed process never run; those of a frozen process wait, in
    order. In a suspension of the machine timers stand still, and the clock goes on.

    ``drift`` makes the clock fast: with 0.01, it shows 101 seconds for 100. A timer waits until ``processor`` is free.
    ``turn_ends`` makes the turns of the process differ: some go on for a while, so that more packets are read before
    the actions at their end; and the time for work in parts is over after any step. Without it each turn reads one
    packet, and such work ends in one turn. ``loop``: by default the running one.
    """

    def __init__(
        self,
        wall_skew_ms: int = 0,
        drift: float = 0.0,
        processor: SimulatedProcessor | None = None,
        turn_ends: random.Random | None = None,
        loop: LoopTime | None = None,
    ) -> None:
        super().__init__(loop, wall_skew_ms)
        self._turn_ends = turn_ends
        self._turn: list[Callable[[], None]] | None = None
        self._processor = processor
        self._rate = 1.0 + drift
        self._dead = False
        self._frozen = False
        self._held: list[Callable[[], None]] = []
        self._slept = 0.0
        self._suspended_at: float | None = None
        # The timers that were due in this suspension, with the time from its beginning to their end.
        self._overslept: list[tuple[float, ProcessTimer, Callable[[], None]]] = []

    def kill(self) -> None:
        """The process was killed."""
        self._dead = True
        self._held.clear()
        self._overslept.clear()

    def freeze(self) -> None:
        """The process is frozen."""
        self._frozen = True

    def thaw(self) -> None:
        """The process goes on; timers that were due meanwhile run now."""
        self._frozen = False
        held, self._held = self._held, []
        for action in held:
            super().call_soon(action)

    def suspend(self) -> None:
        """The machine of the process is suspended."""
        self._suspended_at = self._loop.time()
        self.freeze()

    def resume(self) -> None:
        """The machine goes on: each timer is as far from its end as it was at the suspension."""
        if self._suspended_at is None:
            return
        self._slept += self._loop.time() - self._suspended_at
        self._suspended_at = None
        overslept, self._overslept = self._overslept, []
        for left, timer, action in overslept:
            self._set_again(left, timer, action)
        self.thaw()

    @property
    def slept(self) -> float:
        """How long the machine has been suspended so far, in seconds of the loop."""
        return self._slept + (0.0 if self._suspended_at is None else self._loop.time() - self._suspended_at)

    def now(self) -> float:
        """Seconds of this process's monotonic clock."""
        return START_SECONDS + (self._loop.time() - START_SECONDS) * self._rate

    def reached(self, at: float) -> bool:
        """Whether this time has come, or a step took so long that it has."""
        return super().reached(at) or (self._turn_ends is not None and self._turn_ends.random() < LONG_STEPS)

    def call_later(self, seconds: float, action: Callable[[], None]) -> Timer:
        """As on the loop, unless the process is killed or frozen by then."""
        wait = max(SHORTEST_WAIT_SECONDS, seconds / self._rate) if seconds > 0 else seconds
        timer = ProcessTimer(self._slept)
        timer.timer = super().call_later(wait, lambda: self._act_when_free(timer, action))
        return timer

    def call_soon(self, action: Callable[[], None]) -> None:
        """As on the loop, unless the process is killed or frozen by then; after the present turn, if that goes on."""
        if self._turn is not None:
            self._turn.append(action)
        elif self._turn_ends is not None and self._turn_ends.random() < LONG_TURNS:
            self._turn = [action]
            super().call_later(self._turn_ends.uniform(0.0, LONGEST_TURN_SECONDS), self._end_turn)
        else:
            super().call_soon(lambda: self._act(action))

    def _end_turn(self) -> None:
        turn, self._turn = self._turn or [], None
        for action in turn:
            super().call_soon(partial(self._act, action))

    async def sleep(self, seconds: float) -> None:
        """As on the loop; the sleep of a killed process never ends."""
        over = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, lambda: None if over.done() else over.set_result(None))
        try:
            await over
        finally:
            timer.cancel()

    def _set_again(self, seconds: float, timer: ProcessTimer, action: Callable[[], None]) -> None:
        timer.slept = self._slept
        timer.timer = super().call_later(seconds, lambda: self._act_when_free(timer, action))

    def _act_when_free(self, timer: ProcessTimer, action: Callable[[], None]) -> None:
        """A timer is due."""
        if self._suspended_at is not None:
            self._overslept.append((self._loop.time() - self._suspended_at, timer, action))
            return
        if timer.slept < self._slept:
            self._set_again(self._slept - timer.slept, timer, action)
            return
        processor = self._processor
        if processor is None or self._dead or self._frozen:
            self._act(action)
            return
        wait = processor.busy_for()
        if wait > 0:
            timer.timer = super().call_later(wait, lambda: self._act_when_free(timer, action))
            return
        action()
        processor.timer_ran()

    def _act(self, action: Callable[[], None]) -> None:
        if self._frozen:
            self._held.append(action)
        elif not self._dead:
            action()
