"""How late the run itself is: its deadlines and its checker must not hold that against the registry."""

from __future__ import annotations

import asyncio
import time

from slotreeve_servers.node.attention import LONGEST_STEP_SECONDS, TICK_SECONDS, AttendedClock

from slotreeve_chaos.history import HistoryRecorder


class Lateness:
    """Measures how late the event loop is, and records it."""

    def __init__(self, recorder: HistoryRecorder) -> None:
        self._recorder = recorder
        self._clock = AttendedClock(time.monotonic)

    async def watch(self) -> None:
        """Measure until cancelled."""
        while True:
            before = time.monotonic()
            await asyncio.sleep(TICK_SECONDS)
            self._clock.tick()
            late = time.monotonic() - before - LONGEST_STEP_SECONDS
            if late > 0:
                self._recorder.append("late", seconds=round(late, 3))

    def now(self) -> float:
        """Seconds by a clock that stands still while this process gets no processor."""
        return self._clock.now()
