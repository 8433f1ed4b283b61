"""Holders take turns, and what one of them waits for comes in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve_servers.node.fair_queue import FairQueue

HOLDERS = st.sampled_from("abc")
THINGS = st.integers(0, 6)
STEPS = st.one_of(
    st.tuples(st.just("add"), HOLDERS, THINGS),
    st.tuples(st.just("remove"), HOLDERS, THINGS),
    st.tuples(st.just("take"), st.just(""), st.just(0)),
    st.tuples(st.just("clear"), st.just(""), st.just(0)),
)


class Twin:
    """The same, in the dumbest way: who had the last turn goes to the end of a list, and who waits for nothing, too."""

    def __init__(self) -> None:
        self.waiting: list[tuple[str, int]] = []
        self.turns: list[str] = []

    def step(self, what: str, holder: str, thing: int) -> int | None:
        taken = None
        if what == "add" and (holder, thing) not in self.waiting:
            self.waiting.append((holder, thing))
        elif what == "remove" and (holder, thing) in self.waiting:
            self.waiting.remove((holder, thing))
        elif what == "take" and self.waiting:
            had = self.turns.pop(0)
            taken = next(thing for holder, thing in self.waiting if holder == had)
            self.waiting.remove((had, taken))
        elif what == "clear":
            self.waiting.clear()
        now_waiting = [holder for holder, _ in self.waiting]
        self.turns = [holder for holder in self.turns if holder in now_waiting]
        self.turns += dict.fromkeys(holder for holder in now_waiting if holder not in self.turns)
        return taken


def step_of(queue: FairQueue[int], what: str, holder: str, thing: int) -> int | None:
    match what:
        case "add":
            queue.add(holder, thing)
        case "remove":
            queue.remove(holder, thing)
        case "take":
            return queue.take()
        case _:
            queue.clear()
    return None


@given(st.lists(STEPS, max_size=40))
def test_it_gives_what_a_look_at_everything_gives(steps: list[tuple[str, str, int]]) -> None:
    queue, twin = FairQueue[int](), Twin()
    for what, holder, thing in steps:
        if what == "take" and not twin.waiting:
            with pytest.raises(LookupError):
                queue.take()
            continue
        done = step_of(queue, what, holder, thing)
        assert done == twin.step(what, holder, thing)
        assert len(queue) == len(twin.waiting)
        for each in "abc":
            assert [n for n in range(7) if queue.has(each, n)] == sorted(n for h, n in twin.waiting if h == each)


def test_one_that_waits_for_much_delays_nobody_for_more_than_a_turn() -> None:
    queue = FairQueue[str]()
    for number in range(100):
        queue.add("greedy", f"greedy {number}")
    queue.add("modest", "modest 0")
    assert [queue.take(), queue.take(), queue.take()] == ["greedy 0", "modest 0", "greedy 1"]
