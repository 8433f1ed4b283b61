"""When the functions of the user run, and what happens when one fails."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Protocol

from slotreeve.clock import Clock
from slotreeve.errors import ModelError

from slotreeve_client.lateness import CallbackLateness

log = logging.getLogger("slotreeve.client")

BUDGET_SECONDS = 0.005
"""Callbacks may run for so long before the event loop reads again."""
REST_FACTOR = 5
"""Callbacks at once, without a turn of their own, may take one part in so many of the time."""


class Called(Protocol):
    """Something with a callback of the user. It is called after a change; several changes may be seen as one."""

    @property
    def label(self) -> str:
        """What it is, for the log."""

    callback_failures: int

    def call(self) -> None:
        """Call the user's function. Raises whatever that raises."""


class CallbackRunner:
    """Runs functions of the user, one at a time; logs and counts failures, and measures.

    Args:
        now: a monotonic clock, in seconds.
        caught: the exceptions that count as a failure of the function. All others are raised.

    Attributes:
        calls: number of functions that were run.
        failures: number of those that raised.
        longest_seconds: how long the slowest one took.
        last_seconds: how long the last one took.
    """

    def __init__(self, now: Callable[[], float], caught: tuple[type[BaseException], ...]) -> None:
        self._now, self._caught = now, caught
        self.calls = self.failures = 0
        self.longest_seconds = self.last_seconds = 0.0

    def run(self, label: str, function: Callable[[], None]) -> bool:
        """Run ``function``; ``label`` is for the log. False if it failed."""
        began = self._now()
        self.calls += 1
        try:
            function()
        except self._caught:
            self.failures += 1
            log.exception("the callback of %s failed", label)
            return False
        finally:
            self.last_seconds = self._now() - began
            if self.last_seconds > self.longest_seconds:
                self.longest_seconds = self.last_seconds
        return True


class Callbacks:
    """The callbacks that wait, in the order of the first change each has not seen.

    Reading goes before callbacks. While the client is quiet, a callback runs at once, in the turn of the event loop
    that read the change. Where callbacks are slow or many, they wait and run in later turns, each time for
    :data:`BUDGET_SECONDS`, so that pings and messages are not held up. Changes of one subscription that come before its
    turn are seen as one.

    Attributes:
        runner: runs them and counts. ``late``: how late they are.
    """

    def __init__(self, clock: Clock) -> None:
        self.late = CallbackLateness(clock.now)
        self.runner = CallbackRunner(clock.now, (Exception, asyncio.CancelledError))
        self._clock = clock
        self._waiting: OrderedDict[Called, None] = OrderedDict()
        self._is_running = False
        self._is_scheduled = False
        self._spent_seconds = 0.0
        self._spent_at = clock.now()

    @property
    def waiting(self) -> int:
        """Number of callbacks that wait for their turn."""
        return len(self._waiting)

    def add(self, called: Called) -> None:
        """Something has changed: call it, now or in a later turn."""
        self.late.waits(called)
        if self._waiting or self._is_running or not self._may_run_at_once():
            self._waiting[called] = None
            self._schedule()
        else:
            self._run(called)
            self._spent_seconds += self.runner.last_seconds
            self._spent_at = self._clock.now()

    def _may_run_at_once(self) -> bool:
        """The time spent at once leaks away, at one part in :data:`REST_FACTOR` of the time that has passed."""
        now = self._clock.now()
        self._spent_seconds = max(0.0, self._spent_seconds - (now - self._spent_at) / REST_FACTOR)
        self._spent_at = now
        return self._spent_seconds < BUDGET_SECONDS

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._clock.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_scheduled = False
        end = self._clock.now() + BUDGET_SECONDS
        while self._waiting:
            called, _ = self._waiting.popitem(last=False)
            self._run(called)
            if self._clock.now() >= end:
                break
        if self._waiting:
            self._schedule()

    def _run(self, called: Called) -> None:
        self._is_running = True
        self.late.begins(called)
        try:
            if not self.runner.run(called.label, called.call):
                called.callback_failures += 1
        finally:
            self.late.ends()
            self._is_running = False


def check_callback(on_change: object) -> None:
    """Raises ModelError: it is no function that can be called, and has done its work when it returns."""
    if on_change is not None and (not callable(on_change) or iscoroutinefunction(on_change)):
        raise ModelError(f"on_change is {on_change!r}; expected a function that is not async")
