"""The clock of an event loop."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys

import pytest
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


def test_the_wall_clock_counts_milliseconds_since_1970() -> None:
    async def two_readings() -> tuple[int, int]:
        clock = LoopClock(asyncio.get_running_loop())
        return clock.wall_ms(), clock.wall_ms()

    first, second = asyncio.run(two_readings())
    assert 1_700_000_000_000 < first <= second


APART_SECONDS = 100_000
"""By how much the clock that counts suspend is ahead of the one that does not, as after a suspension."""
READ = """
import asyncio, time
from slotreeve.clock import MachineClock

async def main():
    clock = MachineClock()
    fired = asyncio.Event()
    clock.call_later(0.01, fired.set)
    await fired.wait()
    print(clock.now() - time.monotonic())

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has namespaces of clocks")
def test_the_clock_of_a_machine_goes_on_while_the_machine_is_suspended_and_its_timers_run() -> None:
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = ["unshare", *as_root, "--time", "--fork", "--boottime", str(APART_SECONDS), sys.executable, "-c", READ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if ran.returncode and "unshare:" in ran.stderr and os.environ.get("CI") != "true":
        pytest.skip(f"this kernel makes no namespace of clocks: {ran.stderr}")
    assert ran.returncode == 0, ran.stderr
    # The machine that runs this may have been suspended before, which adds to it.
    assert float(ran.stdout) > APART_SECONDS - 60
