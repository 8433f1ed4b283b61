"""The loop around the notifier: wait for its lock, read the row when the lock was got, keep the lock while leading."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from slotreeve.clock import Clock
from slotreeve.errors import SlotreeveError

from slotreeve_election_mysql.table import Notifier
from slotreeve_election_mysql.timing import QUEUE_SECONDS, LockTiming

log = logging.getLogger("slotreeve.election.lock")


class NotificationLoop:
    """One node's part in it. Where it fails, the node learns the same by reading the row at the moment of expiry."""

    def __init__(
        self,
        notifier: Notifier,
        clock: Clock,
        rng: random.Random,
        timing: LockTiming,
        holds_row: Callable[[], bool],
        notified: Callable[[], None],
    ) -> None:
        """``holds_row``: whether this node leads, or has not released the row yet. ``notified``: the row may have
        changed."""
        self._notifier, self._clock, self._rng, self._timing = notifier, clock, rng, timing
        self._holds_row, self._notified = holds_row, notified
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                if not await self._notifier.acquire(QUEUE_SECONDS):
                    continue
                self._notified()
                await self._keep()
                await self._notifier.release()
            except SlotreeveError as error:
                log.info("election: there are no notifications for a while: %s", error)
            except Exception:
                log.exception("election: there are no notifications for a while, for an unknown reason")
            # Two followers of a leader that does not hold the lock must not pass it to and fro.
            await self._clock.sleep(self._timing.lease * self._rng.uniform(0.8, 1.2))

    def leadership_changed(self) -> None:
        """Ask ``holds_row`` again now."""
        self._changed.set()

    def abort(self) -> None:
        """Drop the connection, and with it the lock."""
        self._notifier.abort()

    async def _keep(self) -> None:
        """Hold the lock while this node leads, after giving it a moment to begin to."""
        until = self._clock.now() + self._timing.renew
        while not self._holds_row() and self._clock.now() < until:
            await self._wait(until - self._clock.now())
        while self._holds_row():
            await self._wait(QUEUE_SECONDS)
            await self._notifier.check()

    async def _wait(self, seconds: float) -> None:
        self._changed.clear()
        timer = self._clock.call_later(seconds, self._changed.set)
        try:
            await self._changed.wait()
        finally:
            timer.cancel()
