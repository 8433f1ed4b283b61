"""The clock that stands still while a process does not run, and what it reports about the event loop."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve_servers.node.attention import LAG_WINDOW_SECONDS, LONGEST_STEP_SECONDS, TICK_SECONDS, AttendedClock


class RealTime:
    """Time that the test turns."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


PAUSES = st.lists(st.tuples(st.sampled_from([0.0, 0.05, 0.1, 0.25, 0.3, 0.5, 4.0]), st.booleans()), max_size=40)


@given(PAUSES, st.integers(0, 40))
def test_each_tick_adds_the_real_time_since_the_last_one_but_never_more_than_a_step(
    pauses: list[tuple[float, bool]], marked: int
) -> None:
    """The dumb twin adds up the parts, and remembers its own reading at one moment."""
    real = RealTime()
    clock = AttendedClock(real)
    twin, since_tick = 100.0, 0.0
    mark = marked_at = 100.0
    for number, (pause, ticks) in enumerate(pauses):
        real.seconds += pause
        since_tick += pause
        if number == marked:
            mark, marked_at = twin + min(since_tick, LONGEST_STEP_SECONDS), real.seconds
        if ticks:
            clock.tick()
            twin += min(since_tick, LONGEST_STEP_SECONDS)
            since_tick = 0.0
        reading = twin + min(since_tick, LONGEST_STEP_SECONDS)
        assert clock.now() == pytest.approx(reading)
        assert clock.since(marked_at) == pytest.approx(reading - mark)


def test_a_process_is_steady_again_from_the_tick_on_that_came_too_late() -> None:
    real = RealTime()
    clock = AttendedClock(real)
    assert clock.steady_seconds() == math.inf
    real.seconds += 2 * TICK_SECONDS + 0.01
    assert clock.steady_seconds() == 0.0, "no tick has told it yet"
    clock.tick()
    assert clock.steady_seconds() == 0.0
    for count in range(1, 4):
        real.seconds += TICK_SECONDS + 0.09
        clock.tick()
        assert clock.steady_seconds() == pytest.approx(count * (TICK_SECONDS + 0.09))
    real.seconds += 5.0
    assert clock.steady_seconds() == 0.0


def test_the_lag_is_the_largest_of_the_last_seconds_and_the_time_not_counted_is_summed_up() -> None:
    real = RealTime()
    clock = AttendedClock(real)
    real.seconds += TICK_SECONDS + 2.0
    clock.tick()
    for _ in range(round(LAG_WINDOW_SECONDS / TICK_SECONDS) - 1):
        real.seconds += TICK_SECONDS
        clock.tick()
    assert clock.counters() == {"loop_lag_ms": 2000, "loop_late_seconds": 1}
    for _ in range(5):
        real.seconds += TICK_SECONDS + 0.02
        clock.tick()
    assert clock.counters() == {"loop_lag_ms": 20, "loop_late_seconds": 1}
