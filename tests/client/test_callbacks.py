"""When the functions of the user run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from slotreeve.clock import Timer
from slotreeve_client.callbacks import BUDGET_SECONDS, REST_FACTOR, CallbackRunner, Callbacks


class TurnClock:
    """A clock that only advances when told to, with the calls of the next turn."""

    def __init__(self) -> None:
        self.time = 0.0
        self.soon: list[Callable[[], None]] = []

    def now(self) -> float:
        return self.time

    def reached(self, at: float) -> bool:
        return self.now() >= at

    def wall_ms(self) -> int:
        return 0

    def call_later(self, seconds: float, action: Callable[[], None]) -> Timer:
        raise AssertionError("callbacks set no timer")

    def call_soon(self, action: Callable[[], None]) -> None:
        self.soon.append(action)

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("callbacks do not wait")

    def turn(self) -> None:
        soon, self.soon = self.soon, []
        for action in soon:
            action()


class Watcher:
    """Something whose callback takes so many seconds, and which keeps when it was called."""

    callback_failures = 0

    def __init__(self, clock: TurnClock, seconds: float = 0.0, error: BaseException | None = None) -> None:
        self.clock, self.seconds, self.error = clock, seconds, error
        self.calls = 0
        self.label = "the watcher"

    def call(self) -> None:
        self.calls += 1
        self.clock.time += self.seconds
        if self.error is not None:
            raise self.error


def test_in_a_quiet_client_a_callback_runs_in_the_turn_of_its_change() -> None:
    clock = TurnClock()
    callbacks = Callbacks(clock)
    watcher = Watcher(clock, seconds=0.001)
    for number in range(100):
        clock.time += 0.1
        callbacks.add(watcher)
        assert (watcher.calls, clock.soon) == (number + 1, [])


def test_slow_callbacks_run_in_later_turns_for_a_bounded_time_each() -> None:
    clock = TurnClock()
    callbacks = Callbacks(clock)
    watchers = [Watcher(clock, seconds=0.002) for _ in range(100)]
    for watcher in watchers:
        callbacks.add(watcher)
    assert clock.time <= BUDGET_SECONDS + 0.002
    turns = 0
    while clock.soon:
        began = clock.time
        clock.turn()
        assert clock.time - began <= BUDGET_SECONDS + 0.002
        turns += 1
    assert [watcher.calls for watcher in watchers] == [1] * 100
    assert turns > 20


def test_changes_before_its_turn_are_one_call_and_the_order_stays() -> None:
    clock = TurnClock()
    callbacks = Callbacks(clock)
    called: list[str] = []

    class Named(Watcher):
        def __init__(self, name: str) -> None:
            super().__init__(clock)
            self.name = name

        def call(self) -> None:
            called.append(self.name)

    callbacks.add(Watcher(clock, seconds=1.0))
    first, second = Named("first"), Named("second")
    for named in (first, second, first, second, first):
        callbacks.add(named)
    assert (called, callbacks.waiting) == ([], 2)
    clock.turn()
    assert (called, callbacks.waiting) == (["first", "second"], 0)


def test_after_a_slow_callback_one_runs_at_once_again_when_it_has_rested() -> None:
    clock = TurnClock()
    callbacks = Callbacks(clock)
    callbacks.add(Watcher(clock, seconds=BUDGET_SECONDS))
    watcher = Watcher(clock)
    callbacks.add(watcher)
    assert watcher.calls == 0
    clock.turn()
    clock.time += REST_FACTOR * BUDGET_SECONDS
    callbacks.add(watcher)
    assert watcher.calls == 2


def test_a_change_within_a_callback_is_called_after_it() -> None:
    clock = TurnClock()
    callbacks = Callbacks(clock)
    inner = Watcher(clock)

    class Outer(Watcher):
        def call(self) -> None:
            callbacks.add(inner)
            assert inner.calls == 0

    callbacks.add(Outer(clock))
    clock.turn()
    assert (inner.calls, callbacks.runner.failures) == (1, 0)


@pytest.mark.parametrize("error", [ValueError("a defect of the user's"), asyncio.CancelledError()])
def test_a_failed_callback_is_logged_and_counted_and_the_others_run(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    clock = TurnClock()
    callbacks = Callbacks(clock)
    broken, sound = Watcher(clock, error=error), Watcher(clock)
    for _ in range(2):
        callbacks.add(broken)
        callbacks.add(sound)
    assert (broken.callback_failures, sound.calls) == (2, 2)
    assert "the callback of the watcher failed" in caplog.text


def test_a_runner_measures_and_raises_what_is_no_failure_of_the_function() -> None:
    clock = TurnClock()
    runner = CallbackRunner(clock.now, (ValueError,))
    for seconds in (0.25, 2.0, 0.5):
        assert runner.run("it", Watcher(clock, seconds).call)
    assert not runner.run("it", Watcher(clock, error=ValueError()).call)
    with pytest.raises(SystemExit):
        runner.run("it", Watcher(clock, error=SystemExit(1)).call)
    assert (runner.calls, runner.failures, runner.longest_seconds, runner.last_seconds) == (5, 1, 2.0, 0.0)
