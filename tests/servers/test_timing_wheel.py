"""The timing wheel, against a look at all entries."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve_servers.data.timing_wheel import TICK_SECONDS, Timed, TimingWheel


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
    st.integers(1, 5),
)
def test_the_wheel_finds_what_a_look_at_all_entries_finds(steps: list[tuple[str, int, float]], most: int) -> None:
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
            found = {entries.index(each) for _ in range(100) for each in wheel.due(now, most)}
            assert found <= twin.keys()
            assert all(twin[number] <= now for number in found)
            assert {number for number, at in twin.items() if at <= now - TICK_SECONDS} <= found
            for each in found:
                del twin[each]


def test_one_call_finds_no_more_than_it_is_told() -> None:
    wheel = TimingWheel[Timed](0.0)
    for _ in range(10):
        wheel.add(Timed(), 1.0)
    assert [len(wheel.due(5.0, 4)) for _ in range(4)] == [4, 4, 2, 0]


def test_an_entry_that_is_added_again_for_later_is_found_when_it_was_first_due() -> None:
    wheel, entry = TimingWheel[Timed](0.0), Timed()
    wheel.add(entry, 1.0)
    wheel.add(entry, 50.0)
    assert wheel.due(1.1, 9) == [entry]
    wheel.add(entry, 50.0)
    assert wheel.due(49.0, 9) == []
    wheel.add(entry, 10.0)
    assert wheel.due(49.1, 9) == [entry]
    assert wheel.due(60.0, 9) == []
