"""Attempts to connect that run beside each other, so that a frozen session server costs a client little time.

The source is RFC 8305, section 5, where a host has several addresses. There, another attempt begins after a delay. Here
it begins only if no attempt under way has shown a sign of life: a server that is late must not get more work for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from slotreeve.clock import Clock, Timer
from slotreeve.ports import Connection

from slotreeve_client.dialler import Dialler

LOOKS = 3
"""The client looks so many times for a sign of life before another attempt begins. A look that comes late, because the
client's own event loop was busy, counts once, and what arrived meanwhile is read before the next one."""
MOST_ATTEMPTS = 4
"""Most attempts that run at once. Where a whole network was cut off, all of them may be answered once it is back."""


class Race:
    """One round of attempts, over every address once, in order.

    The next attempt begins at once after one that failed, and after ``silent_seconds`` beside attempts without a sign
    of life. As soon as one shows a sign of life, the others are abandoned, and it has its whole time. All silent
    attempts together take about as long as one may: an address where nobody answers gives its place to the next one.

    Args:
        addresses: where to connect.
        dialler: makes the attempts.
        clock: times the looks.
        silent_seconds: time without a sign of life after which another attempt begins.
        connect_seconds: time that each attempt has in any case.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        dialler: Dialler,
        clock: Clock,
        silent_seconds: float,
        connect_seconds: float,
    ) -> None:
        self._addresses = deque(addresses)
        self._dialler, self._clock = dialler, clock
        self._pause_seconds = silent_seconds / LOOKS
        share = dialler.attempt_seconds * MOST_ATTEMPTS / max(1, len(addresses))
        self._most_looks = max(connect_seconds, share) / self._pause_seconds
        self._looks = self._looks_left = 0
        self._running: dict[asyncio.Task[Connection | None], tuple[str, int]] = {}
        self._news = asyncio.Event()

    async def winner(self) -> Connection | None:
        """Go on until an attempt succeeds, and abandon the other ones. None: no address is left."""
        try:
            while self._addresses or self._running:
                await self._advance()
                for task in [task for task in self._running if task.done()]:
                    del self._running[task]
                    self._looks_left = 0
                    connection = task.result()
                    if connection is not None:
                        return connection
            return None
        finally:
            await self._abandon(list(self._running))

    async def _advance(self) -> None:
        """Begin or abandon attempts, and wait until one ends or the next look is due."""
        alive = self._alive()
        if alive is not None:
            await self._abandon([task for task in self._running if task is not alive])
        elif self._addresses and len(self._running) == MOST_ATTEMPTS:
            await self._give_up_oldest()
        elif self._looks_left <= 0 and self._addresses:
            self._begin(self._addresses.popleft())
        self._news.clear()
        looks = alive is None and len(self._running) + len(self._addresses) > 1
        timer: Timer | None = self._clock.call_later(self._pause_seconds, self._look) if looks else None
        try:
            if not any(task.done() for task in self._running):
                await self._news.wait()
        finally:
            if timer is not None:
                timer.cancel()

    def _alive(self) -> asyncio.Task[Connection | None] | None:
        """The first attempt under way that has shown a sign of life."""
        for task, (address, _) in self._running.items():
            if self._dialler.has_answered(address):
                return task
        return None

    def _begin(self, address: str) -> None:
        attempt = self._dialler.attempt(address)
        task = asyncio.get_running_loop().create_task(attempt, name=f"attempt at {address}")
        task.add_done_callback(lambda _task: self._news.set())
        self._running[task] = address, self._looks
        self._looks_left = LOOKS

    def _look(self) -> None:
        self._looks += 1
        self._looks_left -= 1
        self._news.set()

    async def _give_up_oldest(self) -> None:
        """End the oldest attempt, where it has been silent for its share of the time."""
        task, (address, began) = next(iter(self._running.items()))
        if self._looks - began >= self._most_looks and not task.done():
            await self._abandon([task])
            self._dialler.was_silent(address)

    async def _abandon(self, tasks: list[asyncio.Task[Connection | None]]) -> None:
        """Cancel attempts, and wait until they have left nothing behind."""
        for task in tasks:
            task.cancel()
            del self._running[task]
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
