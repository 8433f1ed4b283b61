"""What servers are asked for all who look together, and seldom."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from slotreeve.clock import Clock
from slotreeve.errors import SlotreeveError

log = logging.getLogger("slotreeve.face.console")

T = TypeVar("T")
PATIENCE_SECONDS = 1.0
"""How long a page waits for a newer answer than the one that is there."""
GLANCE_SECONDS = 0.05
"""The same, where that one is hardly older than it would be on a page that is open."""
FIRST_SECONDS = 5.0
"""How long a page waits where the last answer is older than :data:`RECENT_SECONDS`, or there is none."""
RECENT_SECONDS = 30.0
SHARE = 4
"""A question is asked again after at least this multiple of the time that its last answer took."""
MOST_KEPT = 50
"""Questions whose answers are kept."""
MOST_AT_ONCE = 4
"""Questions that are on their way at a time; others wait for their turn."""


@dataclass
class Reading(Generic[T]):
    """The last answer to one question.

    Attributes:
        value: the answer; None: there was none yet.
        asked_ms: when its question was asked, by the wall clock of this gateway.
        trouble: why the last question has no answer; empty: it has one.
    """

    value: T | None = None
    asked_ms: int = 0
    trouble: str = ""
    began: float | None = None
    ended: float | None = None
    pause: float = 0.0
    task: asyncio.Task[None] | None = None


class SharedReadings(Generic[T]):
    """Asks when somebody looks and the last answer is old. Use it on one event loop.

    Args:
        clock: the source of time.

    Attributes:
        asked: number of questions so far.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.asked = 0
        self._readings: dict[Hashable, Reading[T]] = {}
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)

    async def read(self, key: Hashable, ask: Callable[[], Awaitable[T]], seconds: float) -> Reading[T]:
        """The answer to the question with this key, which ``ask`` asks where the last one is older than ``seconds``.
        It returns when the answer is there, or takes too long to wait for."""
        reading = self._readings.pop(key, None) or Reading()
        self._readings[key] = reading  # at the end: it was asked for last
        self._forget()
        now = self._clock.now()
        if reading.task is None and (reading.began is None or now - reading.began >= max(seconds, reading.pause)):
            reading.began = now
            reading.task = asyncio.get_running_loop().create_task(self._ask(reading, ask), name="read the past")
        if reading.task is not None:
            await asyncio.wait([reading.task], timeout=self._patience(reading, seconds))
        return reading

    def _patience(self, reading: Reading[T], seconds: float) -> float:
        age = self._clock.now() - reading.ended if reading.ended is not None else RECENT_SECONDS
        if age <= 2 * max(seconds, reading.pause) and reading.value is not None:
            return GLANCE_SECONDS
        return PATIENCE_SECONDS if age < RECENT_SECONDS else FIRST_SECONDS

    async def _ask(self, reading: Reading[T], ask: Callable[[], Awaitable[T]]) -> None:
        try:
            async with self._turns:
                self.asked += 1
                began, asked_ms = self._clock.now(), self._clock.wall_ms()
                reading.value = await ask()
                reading.asked_ms, reading.trouble = asked_ms, ""
                reading.pause = SHARE * (self._clock.now() - began)
        except SlotreeveError as error:
            reading.trouble = str(error)
        except Exception:
            log.exception("the past cannot be read")
            reading.trouble = "the gateway has failed; its log says why"
        finally:
            reading.ended, reading.task = self._clock.now(), None

    def _forget(self) -> None:
        if len(self._readings) > MOST_KEPT:
            idle = next((key for key, reading in self._readings.items() if reading.task is None), None)
            if idle is not None:
                del self._readings[idle]

    async def stop(self) -> None:
        """End the questions that are on their way."""
        tasks = [reading.task for reading in self._readings.values() if reading.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
