"""How long nothing has arrived from a server, and when to ask it. Pure: time is an argument."""

from __future__ import annotations

SHORT_PAUSES = 12
"""While nothing arrives, the client looks so many times within the limit."""
LONGEST_REST_SECONDS = 30.0
"""A server may ask for pings no more seldom than this: nothing else shows that it is frozen."""


class Silence:
    """Counts how long nothing arrived over one connection, in time in which this client itself attended.

    The client looks at intervals, and sends a ping at each look. Each look adds at most the pause that was planned
    before it. So a client whose own event loop stood still, or got too little of the processor, reads what arrived
    meanwhile before it counts that time against the server.

    A server with very many clients asks for fewer pings (:meth:`pace`). Then the client rests after each reply. In that
    time it expects nothing: the silence before the next ping does not count.

    Args:
        limit_seconds: the silence is over the limit from here on.
        interval_seconds: pause between two looks while the server sends. It is shortened to a third of the limit, so
            that one late look never reaches the limit.
        now: time of the start, on the clock of all other times.

    Attributes:
        seconds: the silence so far.
        pause_seconds: pause before the next look.
        is_resting: no ping is due before the next look.
    """

    __slots__ = (
        "_heard_at",
        "_interval_seconds",
        "_limit_seconds",
        "_looked_at",
        "_rest_seconds",
        "is_resting",
        "pause_seconds",
        "seconds",
    )

    def __init__(self, limit_seconds: float, interval_seconds: float, now: float) -> None:
        self._limit_seconds = limit_seconds
        self._interval_seconds = min(interval_seconds, limit_seconds / 3)
        self._looked_at, self._heard_at = now, -float("inf")
        self._rest_seconds = 0.0
        self.pause_seconds = self._interval_seconds
        self.seconds = 0.0
        self.is_resting = False

    def pace(self, seconds: float) -> None:
        """The server needs a ping only every so many seconds."""
        self._rest_seconds = max(0.0, min(seconds, LONGEST_REST_SECONDS) - self._interval_seconds)

    def look(self, now: float, heard_at: float, is_asked: bool = False) -> None:
        """Count the time since the last look. ``heard_at`` is when the last packet arrived. ``is_asked``: a ping has no
        reply yet."""
        was_resting, self.is_resting = self.is_resting, False
        if heard_at > self._heard_at:
            self._heard_at = heard_at
            self.is_resting = self._rest_seconds > 0 and not (was_resting or is_asked)
            # Nothing was asked in the rest. If it has ended, the ping goes out now, and the silence counts from it.
            is_unasked = self.is_resting or was_resting
            self.seconds = 0.0 if is_unasked else min(now - heard_at, self.pause_seconds, self._interval_seconds)
            self.pause_seconds = self._rest_seconds if self.is_resting else self._interval_seconds
        elif was_resting:
            self.pause_seconds = self._interval_seconds
        else:
            self.seconds += min(now - self._looked_at, self.pause_seconds)
            self.pause_seconds = min(self._interval_seconds, self._limit_seconds / SHORT_PAUSES)
        self._looked_at = now

    @property
    def is_over_limit(self) -> bool:
        """Whether the server must be left."""
        return self.seconds >= self._limit_seconds
