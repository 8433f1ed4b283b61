"""Whose TCP connections stay where there are too many."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from slotreeve_face_dns.callers import Callers


def test_the_longest_idle_one_of_the_busiest_address_goes() -> None:
    callers = Callers[str](4)
    for caller, source in (("a1", "a"), ("b1", "b"), ("a2", "a"), ("a3", "a")):
        assert callers.came(caller, source) is None
    callers.asks("a1")
    assert callers.came("c1", "c") == "a2", "a1 has a query under way"
    callers.waits("a1")
    assert callers.came("d1", "d") == "a3"
    assert len(callers) == 4


def test_who_has_most_connections_takes_its_own_place() -> None:
    callers = Callers[str](3)
    for number in range(3):
        callers.came(f"a{number}", "a")
    assert callers.came("b", "b") == "a0"
    assert callers.came("a3", "a") == "a1"
    callers.asks("a2")
    callers.asks("a3")
    assert callers.came("a4", "a") == "a4", "its own are at work, and b has fewer"


def test_where_all_are_at_work_the_new_one_goes() -> None:
    callers = Callers[str](1)
    callers.came("a", "a")
    callers.asks("a")
    assert callers.came("b", "b") == "b"
    callers.left("b")
    callers.left("a")
    assert callers.came("b", "b") is None


@given(st.lists(st.tuples(st.sampled_from(["came", "asks", "waits", "left"]), st.integers(0, 30)), max_size=200))
def test_there_are_never_too_many_and_a_quiet_address_is_never_shut_out(steps: list[tuple[str, int]]) -> None:
    """The address of a connection is its number divided by ten; 30 is the only one of its address."""
    callers, open_ones, at_work = Callers[int](5), set[int](), set[int]()
    for what, number in steps:
        if what == "came" and number not in open_ones:
            gone = callers.came(number, str(number // 10))
            if gone == number:
                idle = [each for each in open_ones - at_work if each // 10 != number // 10]
                assert number != 30 or not idle
                continue
            if gone is not None:
                assert gone in open_ones - at_work
                open_ones.discard(gone)
            open_ones.add(number)
        elif what == "left":
            callers.left(number)
            open_ones.discard(number)
            at_work.discard(number)
        elif number in open_ones and what == "asks":
            callers.asks(number)
            at_work.add(number)
        elif number in open_ones and what == "waits":
            callers.waits(number)
            at_work.discard(number)
        assert len(callers) == len(open_ones) <= 5
