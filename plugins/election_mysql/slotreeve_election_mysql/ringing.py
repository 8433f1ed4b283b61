"""The bell's loop: queue for the named lock, look at the row when it was had, keep it while leading."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from slotreeve.clock import Clock
from slotreeve.errors import SlotreeveError

from slotreeve_election_mysql.table import Bell
from slotreeve_election_mysql.timing import QUEUE_SECONDS, Timing

log = logging.getLogger("slotreeve.election.sql")


class Ringing:
    """One node's part in it. Wherever it fails, looks at the moment of expiry do its work, later."""

    def __init__(
        self,
        bell: Bell,
        clock: Clock,
        rng: random.Random,
        timing: Timing,
        holds_row: Callable[[], bool],
        rung: Callable[[], None],
    ) -> None:
        self._bell, self._clock, self._rng, self._timing = bell, clock, rng, timing
        self._holds_row, self._rung = holds_row, rung
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                if not await self._bell.acquire(QUEUE_SECONDS):
                    continue
                self._rung()
                await self._keep()
                await self._bell.release()
            except SlotreeveError as error:
                log.info("election: the bell is silent for a while: %s", error)
            # Two followers without a leader's hold must not hand the lock to and fro.
            await self._clock.sleep(self._timing.lease * self._rng.uniform(0.8, 1.2))

    def look(self) -> None:
        """Leadership changed."""
        self._changed.set()

    def abort(self) -> None:
        """Drop the connection, and with it the lock."""
        self._bell.abort()

    async def _keep(self) -> None:
        """Hold the lock while this node leads, after giving it a moment to begin to."""
        until = self._clock.now() + self._timing.renew
        while not self._holds_row() and self._clock.now() < until:
            await self._wait(until - self._clock.now())
        while self._holds_row():
            await self._wait(QUEUE_SECONDS)
            await self._bell.check()

    async def _wait(self, seconds: float) -> None:
        self._changed.clear()
        timer = self._clock.call_later(seconds, self._changed.set)
        try:
            await self._changed.wait()
        finally:
            timer.cancel()
