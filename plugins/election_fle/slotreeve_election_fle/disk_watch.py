"""How long the writes to the disk take: for the state machine, for the log, and for the counters."""

from __future__ import annotations

import logging
from collections.abc import Callable

from slotreeve.clock import Clock

log = logging.getLogger("slotreeve.election.fle")

SLOW_SECONDS = 0.1
"""A write to the disk that takes longer is counted as slow."""
WARNING_PAUSE_SECONDS = 60.0
"""Between two warnings about slow writes."""
LONGEST_WRITE_SECONDS = 30.0
"""A write that takes longer counts as stuck: other servers are not asked to wait for it any more, and this one stands
aside until it is done."""


class DiskWatch:
    """Times the writes of one disk, one at a time.

    Attributes:
        slow_writes: writes that took longer than :data:`SLOW_SECONDS`.
        slowest_seconds: the longest write.
    """

    def __init__(
        self, clock: Clock, interval: float, still_writing: Callable[[], None], stuck: Callable[[], None]
    ) -> None:
        """``still_writing`` is called about every ``interval`` seconds during a write that takes longer, and ``stuck``
        once it is stuck. (Many short writes in a row call nothing.)"""
        self._clock, self._interval, self._still_writing, self._stuck = clock, interval, still_writing, stuck
        self._began: float | None = None
        self._is_armed = False
        self._warns_from = 0.0
        self.slow_writes = 0
        self.slowest_seconds = 0.0

    @property
    def is_writing(self) -> bool:
        """A write has begun and is not done."""
        return self._began is not None

    def begin(self) -> None:
        """A write begins."""
        self._began = self._clock.now()
        if not self._is_armed:
            self._is_armed = True
            self._clock.call_later(self._interval, self._look)

    def end(self, directory: str) -> None:
        """The write is done, or has failed; ``directory``: where, for the log."""
        if self._began is None:
            return
        now = self._clock.now()
        seconds, self._began = now - self._began, None
        self.slowest_seconds = max(self.slowest_seconds, seconds)
        if seconds > SLOW_SECONDS:
            self.slow_writes += 1
            if now >= self._warns_from:
                self._warns_from = now + WARNING_PAUSE_SECONDS
                log.warning(
                    "election: the disk of %s is slow: a durable write took %.0f ms; each change of the meta state "
                    "waits for one, and a change of leader for several",
                    directory,
                    1000 * seconds,
                )

    def _look(self) -> None:
        self._is_armed = self._began is not None
        if self._began is not None:
            self._clock.call_later(self._interval, self._look)
            seconds = self._clock.now() - self._began
            if seconds > LONGEST_WRITE_SECONDS:
                self._stuck()
            elif seconds >= self._interval / 2:
                self._still_writing()
