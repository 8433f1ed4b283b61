"""Callers that wait for a change."""

from __future__ import annotations

import asyncio


class Waiters:
    """Wakes all who wait at once. Use it on one event loop."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[bool]] = set()

    async def wait(self, seconds: float) -> bool:
        """Wait for :meth:`wake`, at most so many seconds. Whether it was called."""
        if seconds <= 0:
            return False
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[bool] = loop.create_future()
        timer = loop.call_later(seconds, _give_up, woken)
        self._waiting.add(woken)
        try:
            return await woken
        finally:
            timer.cancel()
            self._waiting.discard(woken)

    @property
    def count(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def wake(self) -> None:
        """Something has changed."""
        waiting, self._waiting = self._waiting, set()
        for woken in waiting:
            if not woken.done():
                woken.set_result(True)


def _give_up(woken: asyncio.Future[bool]) -> None:
    if not woken.done():
        woken.set_result(False)
