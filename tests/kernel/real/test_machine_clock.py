"""The clock of a machine, in a namespace of clocks of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

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
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if ran.returncode and "unshare:" in ran.stderr and os.environ.get("CI") != "true":
        pytest.skip(f"this kernel makes no namespace of clocks: {ran.stderr}")
    assert ran.returncode == 0, ran.stderr
    # The machine that runs this may have been suspended before, which adds to it.
    assert float(ran.stdout) > APART_SECONDS - 60
