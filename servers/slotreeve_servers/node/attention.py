"""The time during which a process attends, and how late its event loop is.

A process that is frozen, or that gets no processor, does not read what others send. Deadlines that it holds against
others must not count that time: otherwise it would find every one of them silent when it goes on.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from slotreeve_servers.node.timings import Timing

TICK_SECONDS = 0.1
"""The clock must be told that the process runs this often."""
LONGEST_STEP_SECONDS = 0.3
"""The clock advances at most this much from one tick to the next."""
LAG_WINDOW_SECONDS = 10.0
"""The largest lag is that of the last so many seconds."""
KEPT_GAPS = 1000


class AttendedClock:
    """A clock that stands still while the process does not run. Pure: ``now`` supplies real seconds.

    Each tick advances it by the real time since the last tick, at most by :data:`LONGEST_STEP_SECONDS`. Between ticks
    it reads the same way. It starts with the real time of its making.

    Invariant: it never runs backwards, and never advances more than the real clock.

    Attributes:
        lag: how late the ticks were.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._real = now
        self._ticked_at = now()
        self._missed = 0.0
        # Begin and end of each time that is not counted, oldest first.
        self._gaps: deque[tuple[float, float]] = deque(maxlen=KEPT_GAPS)
        self._lags: deque[tuple[float, float]] = deque()
        self._stood_until = -math.inf
        self.lag = Timing()

    def tick(self) -> None:
        """The process runs. Call it every :data:`TICK_SECONDS`."""
        now = self._real()
        counted_until = self._ticked_at + LONGEST_STEP_SECONDS
        if now > counted_until:
            self._gaps.append((counted_until, now))
            self._missed += now - counted_until
        lag = max(0.0, now - self._ticked_at - TICK_SECONDS)
        self.lag.took(lag)
        if lag > TICK_SECONDS:
            self._stood_until = now
        self._lags.append((now, lag))
        while self._lags[0][0] < now - LAG_WINDOW_SECONDS:
            self._lags.popleft()
        self._ticked_at = now

    def now(self) -> float:
        """Attended seconds."""
        return min(self._real(), self._ticked_at + LONGEST_STEP_SECONDS) - self._missed

    def steady_seconds(self) -> float:
        """For how long the process has run without standing still: real seconds since a tick came more than a tick too
        late; 0 where the next one is so late already."""
        now = self._real()
        return 0.0 if now - self._ticked_at > 2 * TICK_SECONDS else now - self._stood_until

    def since(self, moment: float) -> float:
        """Attended seconds since ``moment``, a reading of the real clock."""
        seconds = min(self._real(), self._ticked_at + LONGEST_STEP_SECONDS) - moment
        for begin, end in reversed(self._gaps):
            if end <= moment:
                break
            seconds -= end - max(begin, moment)
        return max(0.0, seconds)

    def counters(self) -> dict[str, int]:
        """How late the event loop was, for people."""
        return {
            "loop_lag_ms": round(1000 * max((lag for _, lag in self._lags), default=0.0)),
            "loop_late_seconds": int(self._missed),
        }
