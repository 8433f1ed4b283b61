"""How long nothing has arrived from a server."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve_client.silence import LONGEST_REST_SECONDS, Silence


def test_a_server_from_which_nothing_arrives_is_over_the_limit_soon_after_it() -> None:
    now = 100.0
    silence = Silence(3.0, 1.0, now)
    silence.look(101.0, 100.5)
    now = 101.0
    while not silence.is_over_limit:
        now += silence.pause_seconds
        silence.look(now, 100.5)
    assert 3.0 <= now - 100.5 <= 3.3


def test_whatever_arrives_ends_the_silence() -> None:
    silence = Silence(3.0, 1.0, 0.0)
    now = 0.0
    for _ in range(100):
        now += silence.pause_seconds
        silence.look(now, now - 0.01)
        assert silence.seconds < 0.02
        assert silence.pause_seconds == 1.0


@settings(derandomize=True)
@given(st.floats(0.1, 60.0), st.floats(0.1, 60.0), st.floats(0.0, 1e6))
def test_time_in_which_this_client_stood_still_never_reaches_the_limit_in_one_look(
    limit: float, interval: float, lag: float
) -> None:
    silence = Silence(limit, interval, 0.0)
    silence.look(silence.pause_seconds + lag, 0.0)
    assert not silence.is_over_limit
    before = silence.seconds
    pause = silence.pause_seconds
    silence.look(silence.pause_seconds + 2 * lag + pause, 0.0)
    assert silence.seconds <= before + pause


@settings(derandomize=True)
@given(st.lists(st.tuples(st.floats(0.0, 2.0), st.booleans()), max_size=60))
def test_the_silence_is_never_longer_than_the_time_since_the_last_packet(looks: list[tuple[float, bool]]) -> None:
    silence = Silence(3.0, 1.0, 0.0)
    now = heard = 0.0
    for late, arrives in looks:
        now += silence.pause_seconds + late
        if arrives:
            heard = now
        silence.look(now, heard)
        assert silence.seconds <= now - heard + 1e-9


def look_for(silence: Silence, until: float, frozen_at: float) -> tuple[float, list[float]]:
    """Look at a server that answers each ping at once until ``frozen_at``; when the limit is reached, and the pings."""
    now, heard, pings, is_asked = 0.0, 0.0, [], False
    while now < until and not silence.is_over_limit:
        now += silence.pause_seconds
        silence.look(now, heard, is_asked)
        if not (silence.is_resting or is_asked):
            pings.append(now)
            is_asked = now >= frozen_at
            heard = heard if is_asked else now + 0.01
    return now, pings


def test_a_paced_client_pings_as_often_as_the_server_asks() -> None:
    silence = Silence(3.0, 1.0, 0.0)
    silence.pace(3.0)
    _, pings = look_for(silence, 31.0, 1e9)
    assert [round(later - earlier, 6) for earlier, later in pairwise(pings)] == [3.0] * 9


def test_a_server_may_not_ask_for_fewer_pings_than_show_that_it_is_frozen() -> None:
    silence = Silence(3.0, 1.0, 0.0)
    silence.pace(1e6)
    _, pings = look_for(silence, 4 * LONGEST_REST_SECONDS, 1e9)
    assert [round(later - earlier, 6) for earlier, later in pairwise(pings)] == [LONGEST_REST_SECONDS] * 3


@settings(derandomize=True)
@given(st.floats(0.0, 1.2 * LONGEST_REST_SECONDS), st.floats(0.0, 90.0))
def test_a_frozen_server_that_asked_for_fewer_pings_is_left_after_the_rest_and_the_limit(
    pace: float, frozen_at: float
) -> None:
    silence = Silence(3.0, 1.0, 0.0)
    silence.pace(pace)
    left_at, pings = look_for(silence, 1e3, frozen_at)
    rest = min(pace, LONGEST_REST_SECONDS) - 1.0
    assert left_at - pings[-1] >= (3.0 if rest > 0 else 2.0) - 1e-6
    assert left_at - frozen_at <= (4.3 if rest > 0 else 3.3) + max(0.0, rest) + 0.01


def test_a_client_that_stood_still_while_no_ping_was_due_gives_the_server_the_whole_limit_after_its_ping() -> None:
    """Seen beside many busy processes: a third of the limit was counted before the ping was sent."""
    silence = Silence(3.0, 1.0, 0.0)
    silence.pace(3.3)
    silence.look(8.0, 1.0)
    assert silence.is_resting
    silence.look(10.6, 1.0)
    pinged_at = now = 10.6
    while not silence.is_over_limit:
        now += silence.pause_seconds
        silence.look(now, 1.0, True)
    assert now - pinged_at >= 3.0


def test_a_push_that_came_in_a_rest_takes_nothing_of_the_limit_after_the_ping() -> None:
    """Seen where ten thousand clients subscribed at once: they left a late server 2.1 s after their pings."""
    silence = Silence(3.0, 1.0, 0.0)
    silence.pace(3.3)
    silence.look(1.0, 0.9)
    assert silence.is_resting
    silence.look(8.0, 4.0)
    assert not silence.is_resting, "a ping is sent"
    now = 8.0
    while not silence.is_over_limit:
        now += silence.pause_seconds
        silence.look(now, 4.0, True)
    assert now - 8.0 >= 3.0


@settings(derandomize=True)
@given(st.floats(0.0, 12.0), st.lists(st.tuples(st.floats(0.0, 60.0), st.booleans()), min_size=1, max_size=40))
def test_one_late_look_never_reaches_the_limit_however_the_server_paces(
    pace: float, looks: list[tuple[float, bool]]
) -> None:
    silence, now, heard = Silence(3.0, 1.0, 0.0), 0.0, 0.0
    for late, paces in looks:
        if paces:
            silence.pace(pace)
        now += silence.pause_seconds
        heard = now - 0.01
        silence.look(now, heard)
        now += silence.pause_seconds + late
        silence.look(now, heard, True)
        assert not silence.is_over_limit
