"""The timing wheel, against a look at all entries."""

from __future__ import annotations

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve_servers.data.endings.timing_wheel import TICK_SECONDS, Timed, TimingWheel

ROUNDED = 1e-9
"""A sum of seconds is exact to so much."""


@settings(max_examples=300)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 5), st.floats(0.0, 30.0)),
            st.tuples(st.just("drop"), st.integers(0, 5), st.just(0.0)),
            st.tuples(st.just("pass"), st.just(0), st.floats(0.0, 20.0)),
        ),
        max_size=60,
    ),
)
def test_the_wheel_finds_what_a_look_at_all_entries_finds(steps: list[tuple[str, int, float]]) -> None:
    """The twin keeps the earliest time for which each entry was added."""
    now, wheel = 100.0, TimingWheel[Timed](100.0)
    entries = [Timed() for _ in range(6)]
    twin: dict[int, float] = {}
    for what, number, seconds in steps:
        entry = entries[number]
        if what == "add":
            wheel.add(entry, now + seconds)
            twin[number] = min(twin.get(number, now + seconds), now + seconds)
        elif what == "drop":
            wheel.drop(entry)
            twin.pop(number, None)
        else:
            now += seconds
            found = {entries.index(each) for each in iter(partial(wheel.due, now), None)}
            assert found <= twin.keys()
            assert all(twin[number] <= now for number in found)
            assert {number for number, at in twin.items() if at <= now - TICK_SECONDS - ROUNDED} <= found
            for each in found:
                del twin[each]


def test_an_entry_that_is_added_again_for_later_is_found_when_it_was_first_due() -> None:
    wheel, entry = TimingWheel[Timed](0.0), Timed()
    wheel.add(entry, 1.0)
    wheel.add(entry, 50.0)
    assert wheel.due(1.1) is entry
    wheel.add(entry, 50.0)
    assert wheel.due(49.0) is None
    wheel.add(entry, 10.0)
    assert wheel.due(49.1) is entry
    assert wheel.due(60.0) is None
