"""What follows for open connections when other keys are trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slotreeve.clock import Clock, Timer
from slotreeve.keys import KeyRing

from slotreeve_protocol.channel import Channel

LOOK_SECONDS = 0.5
"""How often a transport looks whether other keys are trusted."""


class TrustWatch:
    """Ends the connections of one transport to peers whose keys are trusted no more, within :data:`LOOK_SECONDS`.

    Args:
        channels: the connections that are open.
    """

    def __init__(self, keys: KeyRing, clock: Clock, channels: Callable[[], Iterable[Channel]]) -> None:
        self._keys, self._clock, self._channels = keys, clock, channels
        self._seen = keys.trusted
        self._timer: Timer | None = None

    def start(self) -> None:
        """Look from now on. Harmless the second time."""
        if self._timer is None:
            self._timer = self._clock.call_later(LOOK_SECONDS, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = self._clock.call_later(LOOK_SECONDS, self._look)
        self._keys.look_again()
        if self._keys.trusted is self._seen:
            return
        self._seen = self._keys.trusted
        for channel in list(self._channels()):
            if channel.proven is not None and not self._keys.still_holds(channel.proven):
                channel.expel(f"the key of {channel.proven.name} is not trusted any more")
