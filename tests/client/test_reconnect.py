"""The plan by which a client looks for a session server."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve.errors import Refused, Unreachable
from slotreeve_client.reconnect import (
    FIRST_PAUSE_SECONDS,
    LONGEST_ATTEMPT_SECONDS,
    RECENTLY_SECONDS,
    Reconnect,
)

NOW = 100.0
ADDRESSES = st.lists(st.sampled_from(["a:1", "b:1", "c:1", "d:1"]), min_size=1)


@settings(derandomize=True)
@given(ADDRESSES, ADDRESSES, st.sampled_from(["a:1", "d:1", "unknown:1"]), st.integers(0, 9))
def test_a_round_tries_every_known_address_once_members_first_and_the_server_that_was_left_last_of_them(
    given_addresses: list[str], learned: list[str], left: str, seed: int
) -> None:
    reconnect = Reconnect(given_addresses, 1.0, 1.0, random.Random(seed))
    reconnect.learned(["forgotten:1"])
    reconnect.learned(learned)
    reconnect.left(left, NOW)
    known = {*given_addresses, *learned}
    for _ in range(3):
        found = reconnect.next_round(NOW)
        assert sorted(found) == sorted(known)
        members = [address for address in found if address in (learned or ["forgotten:1"])]
        assert found[: len(members)] == members
        for part in (members, found[len(members) :]):
            if left in part:
                assert part[-1] == left


def test_of_the_servers_that_were_left_recently_the_latest_comes_last_and_later_they_count_as_any_other() -> None:
    reconnect = Reconnect(["a:1", "b:1", "c:1", "d:1"], 1.0, 1.0, random.Random(1))
    for address, at in (("b:1", 0.0), ("a:1", 10.0), ("c:1", 20.0)):
        reconnect.left(address, NOW + at)
    assert all(reconnect.next_round(NOW + 21.0) == ["d:1", "b:1", "a:1", "c:1"] for _ in range(20))
    later = NOW + 10.0 + RECENTLY_SECONDS
    orders = {tuple(reconnect.next_round(later)) for _ in range(50)}
    assert {order[-1] for order in orders} == {"c:1"}
    assert {order[0] for order in orders} == {"a:1", "b:1", "d:1"}


def test_a_server_that_has_no_view_yet_makes_the_client_forget_no_address() -> None:
    reconnect = Reconnect(["a:1"], 1.0, 1.0, random.Random(1))
    reconnect.learned(["b:1"])
    reconnect.learned([])
    assert sorted(reconnect.next_round(NOW)) == ["a:1", "b:1"]


def test_the_order_of_a_round_is_drawn_at_random() -> None:
    reconnect = Reconnect([f"{number}:1" for number in range(4)], 1.0, 1.0, random.Random(1))
    assert len({tuple(reconnect.next_round(NOW)) for _ in range(20)}) > 5


@settings(derandomize=True)
@given(st.integers(0, 99), st.floats(0.03, 5.0))
def test_the_first_round_begins_at_once_and_pauses_double_up_to_the_longest_one(seed: int, longest: float) -> None:
    reconnect = Reconnect(["a:1"], 1.0, longest, random.Random(seed))
    for _ in range(2):
        assert reconnect.next_pause() == 0
        for number in range(12):
            whole = min(FIRST_PAUSE_SECONDS * 2**number, longest)
            assert whole / 2 <= reconnect.next_pause() <= whole
            reconnect.admitted("a:1")
        reconnect.succeeded()


@settings(derandomize=True)
@given(st.integers(0, 99), st.floats(0.03, 5.0))
def test_each_pause_is_as_long_at_most_as_was_told_before_it(seed: int, longest: float) -> None:
    reconnect = Reconnect(["a:1"], 1.0, longest, random.Random(seed))
    for _ in range(2):
        for _ in range(12):
            told = reconnect.longest_next_pause
            assert reconnect.next_pause() <= told <= longest
            reconnect.admitted("a:1")
        reconnect.succeeded()
    assert reconnect.longest_next_pause == FIRST_PAUSE_SECONDS


@pytest.mark.parametrize(("first", "longest"), [(1.0, LONGEST_ATTEMPT_SECONDS), (40.0, 40.0)])
def test_each_further_round_gives_an_attempt_more_time_until_a_connection_lasts(first: float, longest: float) -> None:
    reconnect = Reconnect(["a:1"], first, 1.0, random.Random(1))
    for number in range(10):
        reconnect.next_pause()
        assert reconnect.attempt_seconds == min(first * 2**number, longest)
        reconnect.admitted("a:1")
    reconnect.succeeded()
    assert reconnect.attempt_seconds == first


def test_failures_are_named_until_a_connection_succeeds() -> None:
    reconnect = Reconnect(["a:1", "b:1"], 1.0, 1.0, random.Random(1))
    assert reconnect.failures == ""
    reconnect.failed("a:1", Unreachable("no process listens"))
    reconnect.failed("b:1", Unreachable("at first"))
    reconnect.failed("b:1", Unreachable("later"))
    assert reconnect.failures == "; a:1: no process listens; b:1: later"
    reconnect.admitted("a:1")
    assert reconnect.failures == ""


def test_only_the_last_attempt_decides_whether_the_client_is_refused() -> None:
    reconnect = Reconnect(["a:1", "b:1"], 1.0, 1.0, random.Random(1))
    refusal = Refused("another cluster")
    reconnect.failed("a:1", refusal)
    assert reconnect.refusal is refusal
    reconnect.failed("b:1", Unreachable("no process listens"))
    assert reconnect.refusal is None
    reconnect.failed("a:1", refusal)
    reconnect.admitted("a:1")
    assert reconnect.refusal is None


def test_failures_that_repeat_are_logged_once_and_counted_when_they_change(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "slotreeve.client")
    reconnect = Reconnect(["a:1", "b:1"], 1.0, 1.0, random.Random(1))
    for _ in range(500):
        reconnect.failed("a:1", Unreachable("nobody listens"))
        reconnect.failed("b:1", Refused("another cluster"))
    assert caplog.messages == ["a:1 cannot be reached: nobody listens", "b:1 refuses this client: another cluster"]
    reconnect.failed("a:1", Unreachable("no answer"))
    assert caplog.messages[2:] == [
        "a:1 cannot be reached: no answer; before, 499 more attempts at a:1 failed like the one that was logged last"
    ]
    reconnect.admitted("b:1")
    assert caplog.messages[3:] == [
        "connected to b:1; before, 499 more attempts at b:1 failed like the one that was logged last"
    ]
    reconnect.admitted("b:1")
    assert len(caplog.messages) == 4


def test_a_connection_that_was_lost_is_among_the_reasons_until_the_next_one() -> None:
    reconnect = Reconnect(["a:1"], 1.0, 1.0, random.Random(1))
    reconnect.lost("a:1", "it stops")
    assert reconnect.failures == "; a:1: the connection was lost: it stops"
    reconnect.admitted("a:1")
    assert reconnect.failures == ""
