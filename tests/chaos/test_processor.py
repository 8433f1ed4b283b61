"""Processes get less processor time, and afterwards all of it again."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from slotreeve.model.nodes import Role
from slotreeve_chaos.processor import busy_loops, duty_cycle, pinned
from slotreeve_harness.processes import ServerProcess

SPIN = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\nwhile True: pass"


@contextmanager
def spinning(directory: Path) -> Iterator[ServerProcess]:
    """A process with two threads, of which one uses all the processor time that it gets."""
    process = ServerProcess(Role.DATA, "data-1", "", [sys.executable, "-c", SPIN], directory / "log")
    process.start()
    try:
        yield process
    finally:
        process.kill()


def state_of(pid: int) -> str:
    """The letter by which Linux shows whether the process runs (R), sleeps (S) or is stopped (T)."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def wait_for_state(pid: int, state: str) -> None:
    """Return once the process is in this state; the time-out of the test is the limit."""
    while state_of(pid) != state:
        pass


def cores_of(pid: int) -> list[set[int]]:
    return [os.sched_getaffinity(int(thread.name)) for thread in Path(f"/proc/{pid}/task").iterdir()]


def wait_for_threads(pid: int, count: int) -> None:
    while len(cores_of(pid)) < count:
        pass


def test_a_duty_cycle_stops_and_continues_a_process_and_leaves_it_running(tmp_path: Path) -> None:
    async def watch(process: ServerProcess) -> None:
        cycle = asyncio.create_task(duty_cycle(process, 0.3, 60.0))
        for expected in "TRTRT":
            await asyncio.to_thread(wait_for_state, process.pid, expected)
        cycle.cancel()
        await asyncio.gather(cycle, return_exceptions=True)

    with spinning(tmp_path) as process:
        asyncio.run(watch(process))
        wait_for_state(process.pid, "R")


def test_a_duty_cycle_ends_by_itself(tmp_path: Path) -> None:
    with spinning(tmp_path) as process:
        asyncio.run(duty_cycle(process, 0.5, 0.1))
        assert process.is_running


def test_pinned_processes_stay_on_one_core_with_all_threads_and_get_all_cores_back(tmp_path: Path) -> None:
    with spinning(tmp_path) as process:
        wait_for_threads(process.pid, 2)
        with pinned([process.pid]) as core:
            assert cores_of(process.pid) == [{core}, {core}]
        assert cores_of(process.pid) == [os.sched_getaffinity(0)] * 2


def test_a_process_that_ends_while_it_is_pinned_is_no_error(tmp_path: Path) -> None:
    with spinning(tmp_path) as process, pinned([process.pid]):
        process.kill()
    assert not process.is_running


def test_busy_loops_run_within_their_block_only() -> None:
    with busy_loops(3, 60.0) as loops:
        assert [loop.poll() for loop in loops] == [None, None, None]
    assert all(loop.poll() is not None for loop in loops)


def test_a_busy_loop_ends_by_itself_after_its_longest_time() -> None:
    with busy_loops(1, 0.1) as loops:
        assert loops[0].wait(60) == 0


def test_busy_loops_end_when_their_block_fails() -> None:
    with pytest.raises(ValueError, match="as planned"), busy_loops(2, 60.0) as loops:
        raise ValueError("as planned")
    assert all(loop.poll() is not None for loop in loops)
