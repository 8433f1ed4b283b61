"""Background loops and actions whose failures are logged and counted."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable

from slotreeve.clock import Clock
from slotreeve.errors import OutOfMemory, SlotreeveError

log = logging.getLogger("slotreeve.supervisor")

FIRST_RESTART_SECONDS = 0.1
LONGEST_RESTART_SECONDS = 5.0


class Supervisor:
    """Runs loops as tasks. A loop that fails is logged, counted, and started again after a growing pause.

    A loop that returns has ended on purpose. All calls are made on the event loop.

    Attributes:
        failures: how often each loop or action failed, by name.
        given_up: done once the server cannot go on at all; holds the error for its operator.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # In the order of their starts, so that a simulated server always ends its loops in the same order.
        self._tasks: dict[asyncio.Task[None], None] = {}
        self.failures: dict[str, int] = {}
        self.given_up: asyncio.Future[SlotreeveError] = asyncio.get_running_loop().create_future()

    def give_up(self, error: SlotreeveError) -> None:
        """The whole server must end, with ``error`` for its operator; the first one counts."""
        if not self.given_up.done():
            self.given_up.set_result(error)

    def start(self, name: str, loop: Callable[[], Awaitable[None]]) -> None:
        """Run ``loop()`` until it returns or :meth:`stop`."""
        task = asyncio.get_running_loop().create_task(self._keep(name, loop), name=name)
        self._remember(task)

    def _remember(self, task: asyncio.Task[None]) -> None:
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _keep(self, name: str, loop: Callable[[], Awaitable[None]]) -> None:
        pause = FIRST_RESTART_SECONDS
        while True:
            began = self._clock.now()
            try:
                await loop()
            except Exception as error:
                self.failures[name] = self.failures.get(name, 0) + 1
                self._end_without_memory(error, name)
                log.exception("loop %s failed; it starts again in %.1f s", name, pause)
            else:
                return
            await self._clock.sleep(pause)
            ran_long = self._clock.now() - began > 2 * LONGEST_RESTART_SECONDS
            pause = FIRST_RESTART_SECONDS if ran_long else min(2 * pause, LONGEST_RESTART_SECONDS)

    def failed(self, name: str) -> None:
        """Log and count the exception that is being handled as a failure of ``name``."""
        self.failures[name] = self.failures.get(name, 0) + 1
        self._end_without_memory(sys.exception(), name)
        log.exception("%s failed", name)

    def _end_without_memory(self, error: BaseException | None, name: str) -> None:
        if isinstance(error, MemoryError):
            self.give_up(OutOfMemory(f"{name} got no memory; this server ends, and others take over what it held"))

    def once(self, name: str, action: Callable[[], Awaitable[None]]) -> None:
        """Run ``action()`` as a task that is not repeated; where it raises, log that and count it as a failure."""
        task = asyncio.get_running_loop().create_task(self._attempt(name, action), name=name)
        self._remember(task)

    async def _attempt(self, name: str, action: Callable[[], Awaitable[None]]) -> None:
        try:
            await action()
        except Exception:  # noqa: BLE001 - it is logged and counted
            self.failed(name)

    async def stop(self) -> None:
        """Cancel every loop and wait until they have ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Wake:
    """Lets one loop sleep until it is woken or a time has passed. Several wakes count as one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._event = asyncio.Event()

    def set(self) -> None:
        """Wake the loop; remembered if it is not asleep."""
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """Sleep until woken, at most ``seconds``."""
        timer = self._clock.call_later(seconds, self._event.set)
        try:
            await self._event.wait()
        finally:
            timer.cancel()
        self._event.clear()
