"""Deadlines of the demonstration on a machine that is busy."""

from __future__ import annotations

import asyncio

import pytest
from slotreeve_demo.pace import MOST, Pace


def test_a_deadline_is_as_many_times_longer_as_the_machine_is_slower() -> None:
    async def main() -> None:
        pace = Pace()
        pace.slowdown = 4.0
        async with pace.within(0.05):
            await asyncio.sleep(0.1)
        with pytest.raises(TimeoutError):
            async with pace.within(0.02):
                await asyncio.sleep(1.0)

    asyncio.run(main())


async def late_for_long(pace: Pace) -> None:
    pace.late(1000.0)
    await asyncio.sleep(MOST * 0.02 + 1.0)


def test_the_time_in_which_the_loop_stood_still_is_added_up_to_a_bound() -> None:
    async def main() -> None:
        pace = Pace()
        async with pace.within(0.05):
            pace.late(0.2)
            await asyncio.sleep(0.1)
        with pytest.raises(TimeoutError):
            async with pace.within(0.02):
                await late_for_long(pace)

    asyncio.run(main())


def test_a_calibration_stays_within_its_bounds() -> None:
    pace = Pace()
    pace.calibrate()
    assert 1.0 <= pace.slowdown <= MOST
    assert pace.stretched(2.0) == 2.0 * pace.slowdown
