"""ConnectionPlaces of connections, against a dumb twin."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve_console.places import UNDISTURBED_SECONDS, ConnectionPlaces

MOST = 3
STEPS = ["comes", "asks", "answered", "goes", "yields", "waits"]


class Held:
    """A connection. ``ended``: it had to make room."""

    def __init__(self) -> None:
        self.ended = False

    def make_room(self) -> None:
        self.ended = True


@settings(derandomize=True)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 9))))
def test_who_comes_gets_a_place_unless_all_are_busy_or_fresh_and_the_idlest_yields(
    steps: list[tuple[str, int]],
) -> None:
    places, now = ConnectionPlaces(), 0.0
    idle_since: dict[Held, float] = {}  # with a place, and without a whole request
    busy: list[Held] = []
    beyond: dict[Held, float] = {}
    for what, number in steps:
        everybody = [*idle_since, *busy, *beyond]
        one = everybody[number % len(everybody)] if everybody else None
        if what == "waits":
            now += number / 10
        elif what == "comes":
            new = Held()
            old = next((held for held in idle_since if now - idle_since[held] >= UNDISTURBED_SECONDS), None)
            is_full = len(idle_since) + len(busy) >= MOST
            assert places.comes(new, MOST, now) is (not is_full or old is not None)
            if is_full and old is not None:
                assert old.ended
                del idle_since[old]
            (beyond if is_full and old is None else idle_since)[new] = now
        elif what == "yields":
            due = [held for among in (beyond, idle_since) for held in among if now - among[held] >= UNDISTURBED_SECONDS]
            assert places.one_yields(now) is bool(due)
            if due:
                assert due[0].ended
                beyond.pop(due[0], None)
                idle_since.pop(due[0], None)
        elif one is not None and what == "asks":
            places.asks(one)
            if idle_since.pop(one, None) is not None:
                busy.append(one)
        elif one is not None and what == "answered":
            places.is_answered(one, now)
            if one in busy:
                busy.remove(one)
                idle_since[one] = now
        elif one is not None:
            places.goes(one)
            idle_since.pop(one, None)
            beyond.pop(one, None)
            if one in busy:
                busy.remove(one)
        assert places.held == {*idle_since, *busy}
        assert len(places.held) <= MOST
        assert list(places.beyond) == list(beyond)


def test_a_handshake_that_takes_long_yields_first_and_one_that_is_over_does_not() -> None:
    places, long, over, idle = ConnectionPlaces(), Held(), Held(), Held()
    places.comes(idle, MOST, 0.0)
    places.opens(over, 0.0)
    places.opens(long, 0.1)
    places.goes(over)
    assert not places.one_yields(0.1 + UNDISTURBED_SECONDS / 2)
    assert places.one_yields(1.0)
    assert (long.ended, over.ended, idle.ended) == (True, False, False)
    assert places.one_yields(1.0)
    assert idle.ended
    assert not places.one_yields(1.0)
