"""Ways to take processor time away from processes: busy loops beside them, a duty cycle, one core for all."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from slotreeve_harness.processes import ServerProcess

CYCLE_SECONDS = 0.08
"""A duty cycle stops and continues its process once in so long."""
SPIN = "import sys, time\nend = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < end: pass"


@contextlib.contextmanager
def busy_loops(count: int, longest_seconds: float) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run ``count`` processes that only use processor time. They end with the block, or after ``longest_seconds`` by
    themselves, so that none is left behind if this process is killed."""
    command = [sys.executable, "-c", SPIN, str(longest_seconds)]
    loops = [subprocess.Popen(command, stdin=subprocess.DEVNULL) for _ in range(count)]
    try:
        yield loops
    finally:
        for loop in loops:
            loop.kill()
        for loop in loops:
            loop.wait()


async def duty_cycle(server: ServerProcess, share: float, seconds: float) -> None:
    """Stop and continue ``server`` many times a second for ``seconds``, so that it runs for ``share`` of the time."""
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            server.pause()
            await asyncio.sleep(CYCLE_SECONDS * (1 - share))
            server.resume()
            await asyncio.sleep(CYCLE_SECONDS * share)
    finally:
        server.resume()


@contextlib.contextmanager
def pinned(pids: Iterable[int]) -> Iterator[int]:
    """Keep all threads of these processes on one core within the block; gives the number of the core. Linux only.

    Afterwards they may use the cores that this process may use.
    """
    allowed = os.sched_getaffinity(0)
    core = min(allowed)
    chosen = list(pids)
    try:
        for pid in chosen:
            _allow(pid, {core})
        yield core
    finally:
        for pid in chosen:
            _allow(pid, allowed)


def _allow(pid: int, cores: set[int]) -> None:
    """Set the cores of every thread of a process; nothing happens if it has ended."""
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), cores)
