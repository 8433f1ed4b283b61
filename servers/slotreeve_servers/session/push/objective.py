"""Whether changes are pushed within the time that the operator wants, and how fast the rest of that promise is used up.
Pure.

The burn rate is the share of late pushes, divided by the share that may be late: at 1 the promise is just kept. As in
the workbook of Google's site reliability engineers, two windows must agree before anybody is told: the long one shows
that it matters, the short one that it goes on.
"""

from __future__ import annotations

from slotreeve_protocol.delay_messages import ObjectiveWindow

from slotreeve_servers.node.settings import ObjectiveSettings
from slotreeve_servers.node.timings import SLICE_SECONDS, Lately

FIVE_MINUTES, HALF_AN_HOUR, AN_HOUR, SIX_HOURS = 300.0, 1_800.0, 3_600.0, 21_600.0
WINDOWS = (FIVE_MINUTES, HALF_AN_HOUR, AN_HOUR, SIX_HOURS)
ALERTS = ((FIVE_MINUTES, AN_HOUR, 14.4), (HALF_AN_HOUR, SIX_HOURS, 6.0))
"""A short and a long window, and the burn rate that both must reach."""
FEWEST_LATE = 10
"""Fewer late pushes in the short window are not told of: a cluster with few changes would else burn with each."""


class KeptObjective:
    """Counts pushes that were in time, and those that were not.

    Attributes:
        limit_seconds: older pushes are late. ``share``: of the pushes that must not be late.
        pushed: pushes of changes that were judged. ``late``: those that were late.
    """

    def __init__(self, rules: ObjectiveSettings) -> None:
        self.follow(rules)
        self.pushed = self.late = 0
        self._lately = Lately(SLICE_SECONDS, SIX_HOURS)

    def follow(self, rules: ObjectiveSettings) -> None:
        """Judge pushes by this objective from now on."""
        self.limit_seconds, self.share = rules.delay_ms / 1000, rules.share

    def took(self, seconds: float, times: int = 1) -> None:
        """So many pushes took so long. One that took exactly as long as the objective admits is in time."""
        self.pushed += times
        if seconds > self.limit_seconds:
            self.late += times

    def still_wait(self, times: int) -> None:
        """So many subscribers wait for a change for longer than the objective admits."""
        self.pushed += times
        self.late += times

    def look(self, now: float) -> None:
        """Call it at least every :data:`SLICE_SECONDS`; ``now`` in seconds on one monotonic clock."""
        self._lately.look(now, (self.pushed, self.late))

    def windows(self, now: float) -> tuple[ObjectiveWindow, ...]:
        """What each of :data:`WINDOWS` shows; of a server that has run for a shorter time, all since its start."""
        return tuple([self._window(seconds, now) for seconds in WINDOWS])

    def _window(self, seconds: float, now: float) -> ObjectiveWindow:
        pushed, late = self._lately.since(now, seconds, (self.pushed, self.late))
        burn_rate = late / pushed / (1 - self.share) if pushed else 0.0
        return ObjectiveWindow(seconds, pushed, late, burn_rate)

    def is_burning(self, now: float) -> bool:
        """Whether the promise is used up so fast that somebody should look."""
        found = {window.seconds: window for window in self.windows(now)}
        return any(
            min(found[short].burn_rate, found[long].burn_rate) >= rate and found[short].late >= FEWEST_LATE
            for short, long, rate in ALERTS
        )
