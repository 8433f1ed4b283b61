"""How late the callbacks of a client are. Pure."""

from __future__ import annotations

from collections.abc import Callable


class CallbackLateness:
    """From the change that a callback tells until the callback has ended.

    Args:
        now: a monotonic clock, in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._since: dict[object, float] = {}
        self._running: float | None = None
        self._worst = 0.0

    def waits(self, key: object) -> None:
        """A callback is to be run. It may wait already: then it tells the older change, too."""
        self._since.setdefault(key, self._now())

    def begins(self, key: object) -> None:
        """It is run now."""
        self._running = self._since.pop(key, self._now())

    def ends(self) -> None:
        """The callback that ran has ended."""
        assert self._running is not None
        self._worst = max(self._worst, self._now() - self._running)
        self._running = None

    def take(self) -> float:
        """The longest time since the last call, in seconds, callbacks that run or wait included."""
        now = self._now()
        running = now if self._running is None else self._running
        worst, self._worst = self._worst, 0.0
        return max(worst, now - running, now - next(iter(self._since.values()), now))
