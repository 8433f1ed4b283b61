"""The event loop on virtual time."""

from __future__ import annotations

import asyncio
import random
import time

import pytest
from slotreeve_conformance.virtual_time import START_SECONDS, START_WALL_MS, Deadlock, EndlessRun, VirtualClock, run


def test_time_passes_only_in_sleep_and_by_exactly_as_much() -> None:
    async def main(_rng: random.Random) -> list[tuple[str, float]]:
        clock = VirtualClock(wall_skew_ms=500)
        log = [("start", clock.now())]
        clock.call_later(7200.0, lambda: log.append(("timer", clock.now())))
        await clock.sleep(3600.0)
        log.append(("woke", clock.now()))
        assert clock.wall_ms() == START_WALL_MS + 3_600_000 + 500
        await asyncio.sleep(3600.5)
        return log

    started = time.monotonic()
    log = run(main)
    assert time.monotonic() - started < 5.0
    assert [(what, at - START_SECONDS) for what, at in log] == [("start", 0.0), ("woke", 3600.0), ("timer", 7200.0)]


def test_the_same_seed_gives_the_same_run() -> None:
    async def main(rng: random.Random) -> list[int]:
        order: list[int] = []

        async def worker(number: int) -> None:
            await asyncio.sleep(rng.random())
            order.append(number)

        await asyncio.gather(*(worker(i) for i in range(50)))
        return order

    assert run(main, seed=3) == run(main, seed=3)
    assert run(main, seed=3) != run(main, seed=4)


def test_a_wait_that_can_never_end_is_named() -> None:
    async def waits_for_nothing(_rng: random.Random) -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock, match="waits_for_nothing"):
        run(waits_for_nothing)


def test_a_run_without_end_is_ended_and_named() -> None:
    async def ticks_for_ever(_rng: random.Random) -> None:
        while True:  # noqa: ASYNC110 - that it never ends is the point
            await asyncio.sleep(10.0)

    with pytest.raises(EndlessRun, match=r"1\d\d virtual seconds(.|\n)*ticks_for_ever"):
        run(ticks_for_ever, longest_run_seconds=100.0)


def test_threads_are_refused() -> None:
    async def main(_rng: random.Random) -> None:
        with pytest.raises(RuntimeError, match="would run in a thread"):
            await asyncio.to_thread(time.sleep, 0)

    run(main)
