"""The time of a registry under test, on an ordinary event loop.

It passes by itself at the pace of the wall, and :meth:`Timeline.advance` skips. Where the event loop stands still, or
the machine is slow, it passes more slowly: it never jumps over a timer. So all processes of the registry see their
timers in order and everything that follows from one before the next, and what happens among them does not depend on
the machine.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

from slotreeve_conformance.virtual_time import START_SECONDS

T = TypeVar("T")

QUIET_TURNS = 3
"""After so many turns of the event loop in which no process of the registry did anything, all has followed that follows
without a timer."""
MOST_TURNS = 10_000
"""A process that never rests does not hold up the time for ever."""
Failed = Callable[[BaseException], None]


class StagedTimer:
    """A timer on a timeline."""

    __slots__ = ("action", "place")

    def __init__(self, action: Callable[[], None], place: ProcessPlace) -> None:
        self.action: Callable[[], None] | None = action
        self.place = place

    def cancel(self) -> None:
        """See :class:`slotreeve.clock.Timer`."""
        self.action = None


class ProcessPlace:
    """Where the clock of one process runs: on a timeline, in a context, and with somebody who is told of failures.

    Args:
        timeline: the time.
        context: what the process does runs in it.
        failed: is told what its actions raise; None: the event loop's handler, as for any program.
    """

    def __init__(self, timeline: Timeline, context: Context, failed: Failed | None) -> None:
        self._timeline, self.context, self.failed = timeline, context, failed

    def time(self) -> float:
        """See :class:`slotreeve.clock.LoopTime`."""
        return self._timeline.time()

    def call_later(self, delay: float, callback: Callable[[], None], /) -> StagedTimer:
        """See LoopTime."""
        return self._timeline.call_later(delay, callback, self)

    def call_soon(self, callback: Callable[[], None], /) -> None:
        """See LoopTime."""
        self._timeline.call_soon(callback, self)


class Timeline:
    """The time of one registry. Make it on a running event loop, and :meth:`close` it. Use it on that loop only.

    Args:
        failed: is told if the time cannot pass any more.

    Attributes:
        while_skipping: is called again and again while time is skipped.
    """

    def __init__(self, failed: Failed) -> None:
        self._loop = asyncio.get_running_loop()
        self._now, self._read_at = START_SECONDS, self._loop.time()
        self._timers: list[tuple[float, int, StagedTimer]] = []
        self._numbers = itertools.count()
        self._busy = 0
        self._turn = asyncio.Lock()
        self._woken: asyncio.Future[None] | None = None
        self._closed = False
        self.while_skipping: Callable[[], None] = lambda: None
        self._passing = self._loop.create_task(self._pass(), name="time of a registry under test")
        self._passing.add_done_callback(lambda task: _tell(task, failed))

    # --- for clocks --------------------------------------------------------------------------------------------

    def time(self) -> float:
        """The time now, in seconds."""
        real = self._loop.time()
        self._now = max(self._now, min(self._now + real - self._read_at, self._next_due()))
        self._read_at = real
        return self._now

    def call_later(self, delay: float, callback: Callable[[], None], place: ProcessPlace) -> StagedTimer:
        """Run ``callback`` after ``delay`` seconds of this time."""
        timer = StagedTimer(callback, place)
        if not self._closed:
            due, first = self.time() + delay, self._next_due()
            heapq.heappush(self._timers, (due, next(self._numbers), timer))
            if due < first:
                self._wake()
        return timer

    def call_soon(self, callback: Callable[[], None], place: ProcessPlace) -> None:
        """Run ``callback`` on the next turn of the event loop."""
        if not self._closed:
            self._busy += 1
            self._loop.call_soon(self._act, callback, place, context=place.context)

    def _act(self, action: Callable[[], None], place: ProcessPlace) -> None:
        self._busy -= 1
        if self._closed:
            return
        try:
            action()
        except Exception as error:
            if place.failed is None:
                raise
            place.failed(error)

    # --- for the registry --------------------------------------------------------------------------------------

    async def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass at once; whatever is due in them happens, in order."""
        async with self._turn:
            end = self.time() + seconds
            while self._next_due() <= end:
                await self._step()
            self._now, self._read_at = max(self._now, end), self._loop.time()
            self.while_skipping()
            await self._settle()

    async def skip(self) -> None:
        """Let the time pass at once until the next timer has run."""
        async with self._turn:
            if self._next_due() < math.inf:
                await self._step()
            else:
                await self._settle()

    async def hurry(self, coroutine: Coroutine[Any, Any, T], context: Context) -> T:
        """Run ``coroutine`` in ``context``, and let the time pass at once while it waits. Returns its result, or raises
        what it raises."""
        task = self._loop.create_task(coroutine, context=context)
        try:
            await self._settled()
            while not task.done():
                await self.skip()
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise
        return task.result()

    async def _settled(self) -> None:
        async with self._turn:
            await self._settle()

    def abandon(self) -> None:
        """End at once: no timer runs any more."""
        self._closed = True
        self._timers.clear()
        self._passing.cancel()

    async def close(self) -> None:
        """End, and wait until the task that lets time pass has ended."""
        self.abandon()
        await asyncio.gather(self._passing, return_exceptions=True)

    # --- how it passes -----------------------------------------------------------------------------------------

    def _next_due(self) -> float:
        """When the next timer is due; infinity: there is none."""
        while self._timers and self._timers[0][2].action is None:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else math.inf

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def _pass(self) -> None:
        """Let the time pass at the pace of the wall."""
        while True:
            wait = self._next_due() - self.time()
            if wait <= 0:
                async with self._turn:
                    if self._next_due() <= self.time():
                        await self._step()
                continue
            self._woken = self._loop.create_future()
            alarm = self._loop.call_later(min(wait, 3600.0), self._wake)
            try:
                await self._woken
            finally:
                alarm.cancel()

    async def _step(self) -> None:
        """The next timer is due now, with all that are due at the same time. Returns when all has followed."""
        self._now = max(self._now, self._next_due())
        while self._next_due() <= self._now:
            timer = heapq.heappop(self._timers)[2]
            if timer.action is not None:
                self.call_soon(_once(timer), timer.place)
        self.while_skipping()
        await self._settle()
        self._read_at = self._loop.time()

    async def _settle(self) -> None:
        quiet = 0
        for _ in range(MOST_TURNS):
            await asyncio.sleep(0)
            quiet = 0 if self._busy else quiet + 1
            if quiet == QUIET_TURNS:
                return


def _tell(task: asyncio.Task[None], failed: Failed) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        failed(error)


def _once(timer: StagedTimer) -> Callable[[], None]:
    def run() -> None:
        action = timer.action
        if action is not None:  # it was cancelled by one that was due at the same time
            timer.action = None
            action()

    return run
