"""What was counted lately, and whether the objective is kept, against twins that remember everything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve_protocol.delay_messages import StageDelays
from slotreeve_servers.node.settings import ObjectiveSettings
from slotreeve_servers.node.timings import BOUNDS_SECONDS, LATELY_SECONDS, Lately, LateTimings, Timing
from slotreeve_servers.session.push.objective import AN_HOUR, FIVE_MINUTES, HALF_AN_HOUR, WINDOWS, KeptObjective

SLICE = 10.0
STEPS = st.lists(st.tuples(st.integers(0, 45), st.integers(0, 5)), max_size=120)


@given(STEPS, st.sampled_from([10.0, 60.0, 300.0]))
def test_what_was_counted_lately_lacks_nothing_of_that_time_and_has_at_most_a_slice_and_a_pause_more(
    steps: list[tuple[int, int]], seconds: float
) -> None:
    lately, total, now = Lately(SLICE, 300.0), 0, 0.0
    everything: list[tuple[float, int]] = []
    longest_pause = 0.0
    for pause, times in steps:
        now += pause
        longest_pause = max(longest_pause, pause)
        lately.look(now, [total])
        total += times
        everything.append((now, times))
        (found,) = lately.since(now, seconds, [total])
        least = sum(times for at, times in everything if at > now - seconds)
        most = sum(times for at, times in everything if at >= now - seconds - SLICE - longest_pause)
        assert least <= found <= most


DURATIONS = st.lists(st.floats(0, 20), min_size=1, max_size=60)


@given(DURATIONS, st.sampled_from([0.1, 0.5, 0.9, 0.99, 1.0]))
def test_a_quantile_is_that_of_all_durations_or_up_to_the_end_of_a_range(durations: list[float], share: float) -> None:
    timing = Timing()
    for seconds in durations:
        timing.took(seconds)
    late = LateTimings({"x": timing})
    (stage,) = late.stages(0.0)
    exact = sorted(durations)[max(0, -int(-share * len(durations) // 1) - 1)]
    found = stage.quantile(share)
    assert exact <= found <= max(durations)
    end = next((bound for bound in BOUNDS_SECONDS if exact <= bound), max(durations))
    assert found <= end
    assert (stage.count, stage.longest_seconds) == (len(durations), max(durations))


def test_of_nothing_the_quantile_is_0() -> None:
    assert StageDelays("x", BOUNDS_SECONDS, (0,) * 15, 0.0).quantile(0.99) == 0.0


def test_the_longest_duration_is_forgotten_after_some_minutes() -> None:
    timing = Timing()
    late = LateTimings({"x": timing})
    timing.took(9.0)
    for second in range(int(LATELY_SECONDS)):
        late.look(float(second))
        assert late.stages(second)[0].longest_seconds == 9.0
    for second in range(int(LATELY_SECONDS), 2 * int(LATELY_SECONDS)):
        late.look(float(second))
    assert late.stages(600.0)[0].longest_seconds == 0.0
    assert late.quantile_ms("x", 0.99, 600.0) == 0


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 4), st.integers(1, 20)), max_size=60))
def test_the_windows_of_a_young_server_are_all_pushes_and_the_late_ones_among_them(
    pushes: list[tuple[float, int, int]],
) -> None:
    kept, now = KeptObjective(ObjectiveSettings(delay_ms=500, share=0.9)), 0.0
    late = every = 0
    for seconds, times, pause in pushes:
        kept.took(seconds, times)
        every += times
        late += times if seconds > 0.5 else 0
        now += pause / 10
        kept.look(now)
    for window in kept.windows(now):
        assert (window.pushed, window.late) == (every, late)
        assert window.burn_rate == pytest.approx(late / every / 0.1 if every else 0.0)
    assert [window.seconds for window in kept.windows(now)] == [*WINDOWS]


def of_minutes(*late_of_a_hundred: int) -> tuple[KeptObjective, float]:
    """A hundred pushes a second; of those of each minute so many are late."""
    kept, now = KeptObjective(ObjectiveSettings()), 0.0
    for late in late_of_a_hundred:
        for _ in range(60):
            kept.look(now)
            now += 1.0
            kept.took(9.0, late)
            kept.took(0.1, 100 - late)
    return kept, now


def test_it_burns_while_a_short_and_a_long_window_burn() -> None:
    kept, now = of_minutes(*[0] * 60, *[2] * 10)
    assert not kept.is_burning(now), "20 in a thousand for ten minutes: the hour burns at 3 only"
    kept, now = of_minutes(*[0] * 30, *[5] * 30)
    assert kept.is_burning(now)
    kept, now = of_minutes(*[0] * 30, *[5] * 30, *[0] * 6)
    short = {window.seconds: window for window in kept.windows(now)}
    assert (short[FIVE_MINUTES].late, short[AN_HOUR].late > 0) == (0, True)
    assert kept.is_burning(now), "half an hour and six hours still burn at 6 each"
    assert short[HALF_AN_HOUR].burn_rate > 6
    kept, now = of_minutes(*[5] * 5, *[0] * 40)
    assert not kept.is_burning(now), "it is over"


def test_a_few_late_pushes_are_not_told_of() -> None:
    kept = KeptObjective(ObjectiveSettings())
    kept.took(9.0, 9)
    assert not kept.is_burning(1.0)
    kept.took(9.0)
    assert kept.is_burning(1.0)


def test_another_objective_judges_what_comes_from_then_on() -> None:
    kept = KeptObjective(ObjectiveSettings())
    kept.took(0.6)
    kept.follow(ObjectiveSettings(delay_ms=700))
    kept.took(0.6)
    kept.took(0.7)
    assert (kept.pushed, kept.late) == (3, 1)
