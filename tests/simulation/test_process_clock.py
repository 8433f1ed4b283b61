"""The clock of a simulated process in a suspension of its machine."""

from __future__ import annotations

import asyncio
import random
from functools import partial

import pytest
from slotreeve_conformance.virtual_time import run
from slotreeve_simulator.process_clock import LONGEST_TURN_SECONDS, ProcessClock


class Scene:
    """A clock with timers after 1, 2 and 3 s, and what has run, with the reading of the clock."""

    def __init__(self, drift: float = 0.0) -> None:
        self.clock = ProcessClock(drift=drift)
        self.start = self.clock.now()
        self.ran: list[tuple[str, float]] = []
        for seconds in (1, 2, 3):
            self.clock.call_later(seconds, lambda name=f"{seconds}": self.note(name))  # type: ignore[misc]

    def note(self, name: str) -> None:
        self.ran.append((name, round(self.clock.now() - self.start, 6)))


@pytest.mark.parametrize("drift", [0.0, 0.01])
def test_in_a_suspension_the_clock_goes_on_and_timers_stand_still(drift: float) -> None:
    async def body(_rng: random.Random) -> None:
        scene = Scene(drift)
        await asyncio.sleep(1.5)
        scene.clock.suspend()
        await asyncio.sleep(10)
        assert scene.ran == [("1", 1.0)]
        scene.clock.resume()
        assert scene.clock.now() - scene.start == pytest.approx(11.5 * (1 + drift))
        await asyncio.sleep(5)
        slept = 10 * (1 + drift)
        assert scene.ran == [("1", 1.0), ("2", pytest.approx(2 + slept)), ("3", pytest.approx(3 + slept))]

    run(body)


def test_some_turns_go_on_for_a_while_and_what_is_due_at_their_end_keeps_its_order() -> None:
    async def scenario(_rng: random.Random) -> list[float]:
        clock, ran, late = ProcessClock(turn_ends=random.Random(1)), list[tuple[int, float]](), list[float]()

        def note(number: int) -> None:
            ran.append((number, clock.now()))

        for _ in range(200):
            began = clock.now()
            for number in range(3):
                clock.call_soon(partial(note, number))
            await asyncio.sleep(1.0)
            assert [number for number, _ in ran] == [0, 1, 2]
            late += [at - began for _, at in ran]
            ran.clear()
        return late

    late = run(scenario)
    assert 0.0 < max(late) <= LONGEST_TURN_SECONDS
    assert 0.8 < late.count(0.0) / len(late) < 1.0


def test_turns_end_at_random_and_the_same_way_for_the_same_seed() -> None:
    async def scenario(_rng: random.Random) -> list[list[bool]]:
        found = []
        for seed in (1, 1, 2):
            clock = ProcessClock(turn_ends=random.Random(seed))
            found.append([clock.reached(clock.now() + 1.0) for _ in range(200)])
        return found

    first, again, other = run(scenario)
    assert first == again != other
    assert 5 < sum(first) < 50


def test_a_timer_that_stands_still_can_be_cancelled_and_one_set_later_is_not_late() -> None:
    async def body(_rng: random.Random) -> None:
        scene = Scene()
        cancelled = scene.clock.call_later(2.5, lambda: scene.note("cancelled"))
        await asyncio.sleep(1.5)
        scene.clock.suspend()
        await asyncio.sleep(10)
        scene.clock.resume()
        cancelled.cancel()
        scene.clock.call_later(0.25, lambda: scene.note("new"))
        await asyncio.sleep(1)
        scene.clock.suspend()
        await asyncio.sleep(100)
        scene.clock.kill()
        scene.clock.resume()
        await asyncio.sleep(100)
        assert scene.ran == [("1", 1.0), ("new", 11.75), ("2", 12.0)]

    run(body)
