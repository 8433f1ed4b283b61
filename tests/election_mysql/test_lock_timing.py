"""Times of a lock election that do not fit its database are told with times that do, and no longer ones than needed."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from slotreeve_election_mysql.timing import LockTiming

NEAR = LockTiming(lease=1.5, renew=0.3, timeout=0.3)


def followed(timing: LockTiming, advice: str, less_ms: int = 0) -> LockTiming:
    """The times with the one that is advised, or with so much less."""
    found = re.search(r"(timeout|lease)_ms \([^)]*\) should be at least (\d+)", advice)
    assert found is not None, advice
    seconds = (int(found[2]) - less_ms) / 1000
    return replace(timing, timeout=seconds) if found[1] == "timeout" else replace(timing, lease=seconds)


@given(st.floats(0.0001, 2.0), st.floats(1.0, 20.0))
def test_who_follows_the_advice_has_times_that_fit_and_a_little_less_would_not(
    round_trip: float, round_trips: float
) -> None:
    timing, connecting = NEAR, round_trip * round_trips
    for _ in range(4):
        advice = timing.misfit(round_trip, connecting)
        if not advice:
            break
        assert followed(timing, advice, 2).misfit(round_trip, connecting)
        timing = followed(timing, advice)
    assert timing.misfit(round_trip, connecting) == ""


def test_a_database_in_the_same_rack_has_times_that_fit() -> None:
    assert NEAR.misfit(0.001, 0.008) == ""
