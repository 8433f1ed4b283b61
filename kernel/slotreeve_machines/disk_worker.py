"""Where the blocking calls of a storage run: in a thread of their own, or on the event loop where they take no time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from slotreeve.clock import Clock
from slotreeve.ports import Storage

from slotreeve_machines.driver import Pending
from slotreeve_machines.storage import MemoryStorage


class DiskWorker(Protocol):
    """Runs jobs that block on one storage, one at a time. Used from one event loop only."""

    def run(self, job: Callable[[], None]) -> Pending:
        """Begin ``job``; the Pending is finished on the event loop, with the error that the job raised if it did.

        The job before must be finished.
        """

    async def close(self) -> None:
        """Return when no job runs any more. Nothing else may be called afterwards."""


class ThreadWorker:
    """The DiskWorker of a real disk. The event loop goes on while a job waits for it."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="disk")
        self._job: asyncio.Future[None] | None = None

    def run(self, job: Callable[[], None]) -> Pending:
        """See :class:`DiskWorker`."""
        pending = Pending()

        def finished(done: asyncio.Future[None]) -> None:
            error = done.exception()
            assert error is None or isinstance(error, Exception)
            pending.finish(error)

        self._job = asyncio.get_running_loop().run_in_executor(self._executor, job)
        self._job.add_done_callback(finished)
        return pending

    async def close(self) -> None:
        """See :class:`DiskWorker`."""
        if self._job is not None:
            await asyncio.wait([self._job])
        self._executor.shutdown(wait=False)


class MemoryWorker:
    """The DiskWorker of a storage in memory: a job takes no time, or so long as :attr:`MemoryStorage.sync_seconds`."""

    def __init__(self, storage: MemoryStorage, clock: Clock) -> None:
        self._storage, self._clock = storage, clock
        self._idle = asyncio.Event()
        self._idle.set()

    def run(self, job: Callable[[], None]) -> Pending:
        """See :class:`DiskWorker`. What a job writes is durable after its first sync; what is killed before is lost."""
        pending = Pending()
        self._idle.clear()
        if self._storage.sync_seconds:
            self._storage.under_way = job
            self._clock.call_later(self._storage.sync_seconds, lambda: self._carry_out(job, pending))
        else:
            self._carry_out(job, pending)
        return pending

    async def close(self) -> None:
        """See :class:`DiskWorker`."""
        await self._idle.wait()

    def _carry_out(self, job: Callable[[], None], pending: Pending) -> None:
        self._storage.under_way = None
        syncs = self._storage.syncs
        error: Exception | None = None
        try:
            job()
        except Exception as raised:  # noqa: BLE001 - the waiter of the job is given it
            error = raised
        rest = self._storage.sync_seconds * (self._storage.syncs - syncs - 1)
        if rest > 0:
            self._clock.call_later(rest, lambda: self._finish(pending, error))
        else:
            self._finish(pending, error)

    def _finish(self, pending: Pending, error: Exception | None) -> None:
        self._idle.set()
        pending.finish(error)


def worker_of(storage: Storage, clock: Clock) -> DiskWorker:
    """The worker for the jobs of ``storage``."""
    return MemoryWorker(storage, clock) if isinstance(storage, MemoryStorage) else ThreadWorker()


async def finished(pending: Pending) -> None:
    """Wait for ``pending``; raise the error that it finished with."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def resolve(error: Exception | None) -> None:
        if future.done():
            return  # the waiting task was cancelled
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    pending.when_finished(resolve)
    await future
