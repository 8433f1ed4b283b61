"""How slow this machine is now, so that a deadline is not missed only because a processor is short."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

CALIBRATION_SECONDS = 0.05
"""So much processor time is spent to see how long it takes."""
MOST = 10.0
"""A deadline becomes at most so many times as long."""
TICK_SECONDS = 0.1


class Pace:
    """Stretches deadlines: by what other programs leave of the processor, measured once, and by the time that the event
    loop stood still while a deadline ran. Use it from one event loop only.

    Attributes:
        slowdown: seconds that a second of work takes, 1 .. :data:`MOST`.
        lag_seconds: how late the event loop was, all together.
    """

    def __init__(self) -> None:
        self.slowdown = 1.0
        self.lag_seconds = 0.0
        self._open: dict[asyncio.Timeout, float] = {}

    def calibrate(self) -> None:
        """Spend :data:`CALIBRATION_SECONDS` of processor time. Blocks the event loop for as long as that takes."""
        began, until = time.monotonic(), time.thread_time() + CALIBRATION_SECONDS
        while time.thread_time() < until:
            pass
        self.slowdown = min(MOST, max(1.0, (time.monotonic() - began) / CALIBRATION_SECONDS))

    async def watch(self) -> None:
        """Watch the event loop until the task is cancelled."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(TICK_SECONDS)
            self.late(time.monotonic() - began - TICK_SECONDS)

    def late(self, seconds: float) -> None:
        """The event loop was so late: move all running deadlines."""
        self.lag_seconds += seconds
        for timeout, latest in self._open.items():
            when = timeout.when()
            if when is not None and not timeout.expired():
                timeout.reschedule(min(latest, when + seconds))

    def stretched(self, seconds: float) -> float:
        """So many seconds on a quiet machine, on this one."""
        return seconds * self.slowdown

    @asynccontextmanager
    async def within(self, seconds: float) -> AsyncIterator[None]:
        """Give a block so many seconds of a quiet machine, and at most :data:`MOST` times as many.

        Raises:
            TimeoutError: it took longer.
        """
        now = asyncio.get_running_loop().time()
        async with asyncio.timeout(self.stretched(seconds)) as timeout:
            self._open[timeout] = now + MOST * seconds
            try:
                yield
            finally:
                del self._open[timeout]
