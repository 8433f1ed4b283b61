"""The clock: every module gets one as an argument, and only this module reads the real one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable


class Timer(Protocol):
    """A scheduled call that can be cancelled."""

    def cancel(self) -> None:
        """Cancel the call. Does nothing if it has run."""


@runtime_checkable
class Clock(Protocol):
    """Time and timers of one node. Use it from the node's event loop only."""

    def now(self) -> float:
        """Seconds on a monotonic clock that goes on while the machine is suspended; timers may stand still meanwhile.
        Values of two processes cannot be compared. Whatever others rely on, above all a lease, ends by this clock, and
        not by a timer."""

    def reached(self, at: float) -> bool:
        """Whether this time has come. Whoever works for a limited time asks after each step. A simulated clock stands
        still meanwhile, and may say yes after any step, because a real one may."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970, for logs and people. No decision may depend on it."""

    def call_later(self, seconds: float, action: Callable[[], None]) -> Timer:
        """Run ``action`` on the event loop after ``seconds``."""

    def call_soon(self, action: Callable[[], None]) -> None:
        """Run ``action`` on the next turn of the event loop."""

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling task for ``seconds``."""


class LoopTime(Protocol):
    """What a clock needs of an event loop."""

    def time(self) -> float:
        """Seconds on a monotonic clock."""

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Timer:
        """Run ``callback`` after ``delay`` seconds."""

    def call_soon(self, callback: Callable[[], None], /) -> object:
        """Run ``callback`` on the next turn."""


class LoopClock:
    """The clock of an event loop, by default of the running one. On a loop of virtual time it shows virtual time."""

    def __init__(self, loop: LoopTime | None = None) -> None:
        self._loop: LoopTime = loop if loop is not None else asyncio.get_running_loop()

    def now(self) -> float:
        """Seconds on the loop's monotonic clock."""
        return self._loop.time()

    def reached(self, at: float) -> bool:
        """Whether this time has come."""
        return self.now() >= at

    def wall_ms(self) -> int:
        """Milliseconds since 1970 by the machine's clock."""
        return time.time_ns() // 1_000_000

    def call_later(self, seconds: float, action: Callable[[], None]) -> Timer:
        """Run ``action`` on the loop after ``seconds``."""
        return self._loop.call_later(seconds, action)

    def call_soon(self, action: Callable[[], None]) -> None:
        """Run ``action`` on the next turn of the loop."""
        self._loop.call_soon(action)

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling task for ``seconds``."""
        await asyncio.sleep(seconds)


class MachineClock(LoopClock):
    """The clock of a process on a real machine. It goes on while the machine is suspended: a laptop that sleeps, a
    virtual machine that is paused or moved. The clock of the event loop stands still meanwhile on Linux, and so do its
    timers; to this process and to its peers a suspension is as if the process had been frozen."""

    def now(self) -> float:
        """Seconds since the machine was started, with the time in which it was suspended."""
        return time.clock_gettime(COUNTS_SUSPEND)

    def reached(self, at: float) -> bool:
        """As in the base class, in one call: paced work asks after each of its steps."""
        return time.clock_gettime(COUNTS_SUSPEND) >= at


COUNTS_SUSPEND: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The clock that goes on in suspend: ``CLOCK_BOOTTIME`` on Linux. Elsewhere ``CLOCK_MONOTONIC`` does (macOS, BSD)."""
