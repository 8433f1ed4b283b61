"""Jobs for the disk, which block: they run beside the event loop, one after the other."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

Work = Callable[[], object]
Worked = Callable[[object, Exception | None], None]
Run = Callable[[Work, Worked], None]
"""Runs work that blocks beside the event loop, and calls back on it; see :class:`slotreeve_machines.beside.Beside`."""
Job = Callable[[], tuple[Work, Worked]]
"""Gathers what is worked on, when its turn comes."""
CLOSE_SECONDS = 5.0
"""A server that stops waits so long for the disk."""


class DiskJobs:
    """Use it from one event loop only."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._waiting: deque[Job] = deque()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_idle(self) -> bool:
        """Whether all jobs are done."""
        return self._idle.is_set()

    async def all_done(self) -> None:
        """Return once all jobs are done."""
        await self._idle.wait()

    def begin(self, job: Job) -> None:
        """Run a job when the ones before are done."""
        self._waiting.append(job)
        if self._idle.is_set():
            self._idle.clear()
            self._next()

    def _next(self) -> None:
        work, worked = self._waiting.popleft()()

        def done(result: object, error: Exception | None) -> None:
            try:
                worked(result, error)
            finally:
                if self._waiting:
                    self._next()
                else:
                    self._idle.set()

        self._run(work, done)
