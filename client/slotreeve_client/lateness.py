"""How late the callbacks of a client are. Pure."""

from __future__ import annotations

from collections.abc import Callable

WINDOW_SECONDS = 15.0


class CallbackLateness:
    """From the change that a callback tells until the callback has ended.

    Args:
        now: a monotonic clock, in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._since: dict[object, float] = {}
        self._running: float | None = None
        self._worst = self._worst_before = 0.0
        self._began = now()

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

    def seconds(self) -> float:
        """The longest time lately, in seconds, callbacks that run or wait included. It is remembered for
        :data:`WINDOW_SECONDS` at least, and twice as long at most: one who looks now and then must see it."""
        now = self._now()
        if now - self._began >= WINDOW_SECONDS:
            self._began, self._worst_before, self._worst = now, self._worst, 0.0
        running = now if self._running is None else self._running
        return max(self._worst, self._worst_before, now - running, now - next(iter(self._since.values()), now))
