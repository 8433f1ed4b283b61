"""The time of a registry under test."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable

import pytest
from slotreeve_simulator.process_clock import ProcessClock
from slotreeve_testing.timeline import ProcessPlace, Timeline

Story = Callable[[Timeline, ProcessClock], Awaitable[None]]


class StillLoop(asyncio.SelectorEventLoop):
    """Its time stands still, so that two timers are due at the very same time."""

    def time(self) -> float:
        return 0.0


def play(story: Story, loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop) -> list[BaseException]:
    """Play it; returns the failures."""
    failures: list[BaseException] = []

    async def scene() -> None:
        async with asyncio.timeout(30):
            time = Timeline(failures.append)
            clock = ProcessClock(loop=ProcessPlace(time, contextvars.copy_context(), failures.append))
            try:
                await story(time, clock)
            finally:
                await time.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scene())
    return failures


def test_timers_run_in_the_order_of_their_times_and_what_follows_from_one_before_the_next() -> None:
    async def story(time: Timeline, clock: ProcessClock) -> None:
        seen: list[str] = []

        def first() -> None:
            seen.append("first")
            clock.call_soon(lambda: clock.call_soon(lambda: seen.append("follows")))

        clock.call_later(2.0, lambda: seen.append("second"))
        clock.call_later(1.999, first)
        clock.call_later(3.0, lambda: seen.append("late"))
        began = clock.now()
        await time.advance(2.5)
        assert seen == ["first", "follows", "second"]
        assert clock.now() - began == pytest.approx(2.5, abs=0.1)
        clock.call_later(0.2, lambda: seen.append("new"))
        await time.advance(0.6)
        assert seen[3:] == ["new", "late"]

    assert play(story) == []


def test_time_that_has_only_cancelled_timers_can_be_skipped_and_does_not_end() -> None:
    async def story(time: Timeline, clock: ProcessClock) -> None:
        began = clock.now()
        clock.call_later(2.0, lambda: None).cancel()
        await time.skip()
        assert clock.now() < began + 2.0

    assert play(story) == []


def test_time_passes_by_itself_at_the_pace_of_the_wall() -> None:
    async def story(time: Timeline, clock: ProcessClock) -> None:
        loop = asyncio.get_running_loop()
        real, began, passed = loop.time(), clock.now(), asyncio.Event()
        clock.call_later(0.05, passed.set)
        await passed.wait()
        assert clock.now() - began >= 0.05
        assert loop.time() - real >= 0.05 - 0.001

    assert play(story) == []


def test_a_timer_that_is_set_after_a_pause_waits_for_all_of_its_time() -> None:
    async def story(time: Timeline, clock: ProcessClock) -> None:
        loop, paused, passed = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        clock.call_later(60.0, lambda: None)
        loop.call_later(0.05, paused.set)
        await paused.wait()
        real = loop.time()
        clock.call_later(0.05, passed.set)
        await passed.wait()
        assert loop.time() - real >= 0.05 - 0.001

    assert play(story) == []


def test_a_cancelled_timer_does_not_run_even_if_another_one_of_the_same_time_cancels_it() -> None:
    async def story(time: Timeline, clock: ProcessClock) -> None:
        ran: list[str] = []
        place = ProcessPlace(time, contextvars.copy_context(), None)
        second = None

        def first() -> None:
            assert second is not None
            second.cancel()

        time.call_later(1.0, first, place)
        second = time.call_later(1.0, lambda: ran.append("second"), place)
        third = time.call_later(0.5, lambda: ran.append("third"), place)
        third.cancel()
        await time.advance(2.0)
        assert ran == []

    assert play(story, StillLoop) == []


def test_what_an_action_raises_is_told_and_the_time_goes_on() -> None:
    async def story(time: Timeline, clock: ProcessClock) -> None:
        ran: list[int] = []
        clock.call_later(1.0, lambda: ran.append(1 // 0))
        clock.call_soon(lambda: ran.append(2 // 0))
        clock.call_later(2.0, lambda: ran.append(3))
        await time.advance(3.0)
        assert ran == [3]

    assert [type(failure) for failure in play(story)] == [ZeroDivisionError, ZeroDivisionError]


def test_a_process_that_never_rests_does_not_hold_up_the_time() -> None:
    async def story(time: Timeline, clock: ProcessClock) -> None:
        turns = 0

        def again() -> None:
            nonlocal turns
            turns += 1
            clock.call_soon(again)

        again()
        await time.advance(0.0)
        assert turns > 100

    assert play(story) == []


def test_nothing_happens_while_nothing_is_due() -> None:
    """The event loop sleeps: no turn is taken for time that passes."""
    turns = 0

    class CountingLoop(asyncio.SelectorEventLoop):
        def _run_once(self) -> None:
            nonlocal turns
            turns += 1
            super()._run_once()  # type: ignore[misc]  # it is asyncio's own

    async def scene() -> None:
        time = Timeline(lambda error: None)
        clock = ProcessClock(loop=ProcessPlace(time, contextvars.copy_context(), None))
        clock.call_later(60.0, lambda: None)
        over = asyncio.Event()
        asyncio.get_running_loop().call_later(0.2, over.set)
        await over.wait()
        await time.close()

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        runner.run(scene())
    assert turns < 30
