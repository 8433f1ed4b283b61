"""A child process ends in time and within its memory, whatever the work does."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import pytest
from slotreeve_spark.compare.guard import CellLimits, PluginFailed, TimedOut, in_child

QUICK = CellLimits(0.3, 64)


def test_the_result_comes_back() -> None:
    assert in_child(lambda: {"a": 1}, CellLimits()) == {"a": 1}


def test_work_that_swallows_everything_and_loops_is_ended() -> None:
    def loop() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            with contextlib.suppress(BaseException):  # as bad code does
                time.sleep(10)

    with pytest.raises(TimedOut, match=r"not done after 0\.3 s"):
        in_child(loop, QUICK)


def test_work_that_keeps_what_it_allocates_is_ended_with_the_reason() -> None:
    kept = list[bytearray]()

    def allocate() -> None:
        while True:
            kept.append(bytearray(1_000_000))

    with pytest.raises(PluginFailed, match="it took more than 64 MB of memory"):
        in_child(allocate, CellLimits(20, 64))
    assert kept == []


def test_work_that_raises_or_ends_its_process_costs_only_itself() -> None:
    def fail() -> None:
        raise ValueError("made up")

    with pytest.raises(PluginFailed, match="ValueError: made up"):
        in_child(fail, CellLimits())
    with pytest.raises(PluginFailed, match="its process died \\(exit code 7\\)"):
        in_child(lambda: os._exit(7), CellLimits())


def test_a_reason_is_text_that_can_be_written_down() -> None:
    def fail() -> None:
        raise ValueError("half of a character: \ud83d")

    with pytest.raises(PluginFailed) as raised:
        in_child(fail, CellLimits())
    assert str(raised.value).encode().startswith(b"ValueError: half of a character: ")
