"""Signals that ask a program to stop."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest
from slotreeve_cli.run import stop_requested

NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    before = {number: signal.signal(number, signal.SIG_DFL) for number in NUMBERS}  # nohup ignores one of them
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def got(number: signal.Signals) -> tuple[bool, bool, list[object]]:
    """Whether the program was asked to stop, whether for a restart, and what the next signals do to it."""

    async def body() -> tuple[bool, bool, list[object]]:
        restarts: list[None] = []
        stopping = stop_requested(until_eof=False, restart_requested=lambda: restarts.append(None))
        os.kill(os.getpid(), number)
        await asyncio.sleep(0.05)
        return stopping.is_set(), bool(restarts), [signal.getsignal(each) for each in NUMBERS]

    return asyncio.run(body())


@pytest.mark.parametrize("number", NUMBERS)
def test_the_first_signal_asks_the_program_to_stop_and_the_second_one_ends_it(number: signal.Signals) -> None:
    assert got(number) == (True, number is signal.SIGHUP, [signal.SIG_DFL] * 3)


def test_a_hangup_that_was_ignored_from_the_beginning_is_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert got(signal.SIGHUP)[:2] == (False, False)
    assert got(signal.SIGTERM) == (True, False, [signal.SIG_DFL, signal.SIG_DFL, signal.SIG_IGN])
