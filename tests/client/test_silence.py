"""How long nothing has arrived from a server."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve_client.silence import Silence


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


@settings(derandomize=True, deadline=None)
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


@settings(derandomize=True, deadline=None)
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
