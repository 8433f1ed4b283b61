"""The clock of an event loop."""

from __future__ import annotations

import asyncio
import random

from slotreeve.clock import Clock, LoopClock
from slotreeve_conformance import virtual_time


def test_timers_run_in_the_order_of_their_times_and_a_cancelled_one_does_not_run() -> None:
    ran: list[tuple[str, float]] = []

    async def scenario(_rng: random.Random) -> None:
        clock: Clock = LoopClock()
        start = clock.now()

        def note(name: str) -> None:
            ran.append((name, round(clock.now() - start, 6)))

        clock.call_later(2.0, lambda: note("later"))
        clock.call_later(1.0, lambda: note("sooner"))
        clock.call_later(1.5, lambda: note("cancelled")).cancel()
        clock.call_soon(lambda: note("next turn"))
        ran.append(("this turn", clock.now() - start))
        await clock.sleep(3.0)
        note("after the sleep")

    virtual_time.run(scenario)
    assert ran == [("this turn", 0.0), ("next turn", 0.0), ("sooner", 1.0), ("later", 2.0), ("after the sleep", 3.0)]


def test_a_time_is_reached_once_it_has_come() -> None:
    async def scenario(_rng: random.Random) -> list[bool]:
        clock = LoopClock()
        at, seen = clock.now() + 1.0, []
        for _ in range(3):
            seen.append(clock.reached(at))
            await clock.sleep(0.5)
        return seen

    assert virtual_time.run(scenario) == [False, False, True]


def test_the_wall_clock_counts_milliseconds_since_1970() -> None:
    async def two_readings() -> tuple[int, int]:
        clock = LoopClock(asyncio.get_running_loop())
        return clock.wall_ms(), clock.wall_ms()

    first, second = asyncio.run(two_readings())
    assert 1_700_000_000_000 < first <= second
