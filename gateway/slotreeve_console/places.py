"""Which connections of an HTTP listener have a place, and which yields it. Pure: time is an argument."""

from __future__ import annotations

from typing import Protocol

UNDISTURBED_SECONDS = 0.25
"""A caller has so long for its handshake and its request, however many others come."""


class Yielding(Protocol):
    """A connection that may have to end in favour of another one."""

    def make_room(self) -> None:
        """End."""


class ConnectionPlaces:
    """The connections that have a place, and those beyond: these are told so when they ask, and have none later.

    A connection without a whole request yields to one that comes, the one that has waited the longest first. So whoever
    asks at once gets a place, however many only hold one.

    Attributes:
        held: those with a place. ``beyond``: those without one.
        yielded: how many have ended in favour of others.
    """

    def __init__(self) -> None:
        self.held: set[Yielding] = set()
        self.beyond: dict[Yielding, float] = {}
        self._opening: dict[Yielding, float] = {}
        self._idle: dict[Yielding, float] = {}
        self.yielded = 0

    def opens(self, connection: Yielding, now: float) -> None:
        """A handshake has begun. :meth:`goes` must follow, and :meth:`comes` where it succeeds."""
        self._opening[connection] = now

    def comes(self, connection: Yielding, most: int, now: float) -> bool:
        """A connection has opened. Whether it gets one of ``most`` places."""
        if len(self.held) >= most and not self._yields(self._idle, now):
            self.beyond[connection] = now
            return False
        self.held.add(connection)
        self._idle[connection] = now
        return True

    def asks(self, connection: Yielding) -> None:
        """Its request is whole: it keeps its place until it is answered."""
        self._idle.pop(connection, None)

    def is_answered(self, connection: Yielding, now: float) -> None:
        """It waits for a request again."""
        if connection in self.held:
            self._idle.setdefault(connection, now)

    def goes(self, connection: Yielding) -> None:
        """It has ended."""
        self.held.discard(connection)
        self.beyond.pop(connection, None)
        self._opening.pop(connection, None)
        self._idle.pop(connection, None)

    def one_yields(self, now: float) -> bool:
        """End the one that has waited the longest, if there is one: handshakes and those beyond before others."""
        return any(self._yields(among, now) for among in (self._opening, self.beyond, self._idle))

    def _yields(self, among: dict[Yielding, float], now: float) -> bool:
        oldest = next(iter(among), None)
        if oldest is None or now - among[oldest] < UNDISTURBED_SECONDS:
            return False
        self.goes(oldest)
        self.yielded += 1
        oldest.make_room()
        return True
