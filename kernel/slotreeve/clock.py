"""Time as a thing that is handed in: no other module of the product reads a clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable


class Timer(Protocol):
    """A scheduled call that can be taken back."""

    def cancel(self) -> None:
        """Take the call back; harmless once it has run."""


@runtime_checkable
class Clock(Protocol):
    """One node's notion of time. Used from the node's event loop only."""

    def now(self) -> float:
        """Seconds on a monotonic clock; comparable only within one process."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970, for people and records only: no decision is ever taken on it."""

    def call_later(self, seconds: float, action: Callable[[], None]) -> Timer:
        """Run ``action`` on the event loop after ``seconds``."""

    def call_soon(self, action: Callable[[], None]) -> None:
        """Run ``action`` when the present turn of the event loop has ended."""

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling task for ``seconds``."""


class LoopClock:
    """The running event loop's clock; on a loop of virtual time, virtual time."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop if loop is not None else asyncio.get_running_loop()

    def now(self) -> float:
        """Seconds on the loop's monotonic clock."""
        return self._loop.time()

    def wall_ms(self) -> int:
        """Milliseconds since 1970 by the machine's clock."""
        return time.time_ns() // 1_000_000

    def call_later(self, seconds: float, action: Callable[[], None]) -> Timer:
        """Run ``action`` on the loop after ``seconds``."""
        return self._loop.call_later(seconds, action)

    def call_soon(self, action: Callable[[], None]) -> None:
        """Run ``action`` when the present turn of the loop has ended."""
        self._loop.call_soon(action)

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling task for ``seconds``."""
        await asyncio.sleep(seconds)
