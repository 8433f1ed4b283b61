"""Jobs that block on a storage run beside the event loop, one at a time, and their errors come back."""

from __future__ import annotations

import asyncio
import random
import threading
from pathlib import Path

import pytest
from slotreeve.clock import LoopClock
from slotreeve.errors import StorageError
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_machines.disk_worker import MemoryWorker, ThreadWorker, finished, worker_of
from slotreeve_machines.storage import DirectoryStorage, MemoryStorage


def test_the_event_loop_goes_on_while_a_real_disk_works(tmp_path: Path) -> None:
    storage = DirectoryStorage.open(tmp_path / "data")

    async def main() -> None:
        worker = worker_of(storage, LoopClock())
        assert isinstance(worker, ThreadWorker)
        may_end = threading.Event()

        def job() -> None:
            assert may_end.wait(10.0)
            storage.append("log", b"x")

        pending = worker.run(job)
        await asyncio.sleep(0)
        assert storage.read("log") is None
        may_end.set()
        await finished(pending)
        assert storage.read("log") == b"x"
        await worker.close()

    asyncio.run(main())


def test_the_error_of_a_job_is_that_of_its_waiter(tmp_path: Path) -> None:
    storage = DirectoryStorage.open(tmp_path / "data")

    async def main() -> None:
        for worker in (ThreadWorker(), MemoryWorker(MemoryStorage(), LoopClock())):
            with pytest.raises(StorageError, match="not a plain file name"):
                await finished(worker.run(lambda: storage.append("../log", b"x")))
            await worker.close()

    asyncio.run(main())


def test_a_worker_is_closed_once_its_job_is_done(tmp_path: Path) -> None:
    async def main() -> None:
        worker, may_end, done = ThreadWorker(), threading.Event(), []
        worker.run(lambda: done.append(may_end.wait(10.0)))
        asyncio.get_running_loop().call_later(0.02, may_end.set)
        await worker.close()
        assert done == [True]

    asyncio.run(main())


def test_a_storage_in_memory_takes_as_long_as_its_syncs() -> None:
    async def main(_rng: random.Random) -> None:
        clock, storage = VirtualClock(), MemoryStorage()
        worker = worker_of(storage, clock)
        await finished(worker.run(lambda: storage.append("log", b"x")))
        began = clock.now()
        assert began == clock.now()
        storage.sync_seconds = 0.4
        await finished(worker.run(lambda: storage.append("log", b"y")))
        assert clock.now() - began == pytest.approx(0.4)
        pending = worker.run(lambda: storage.replace("epochs", b"z"))
        assert storage.read("epochs") is None
        await finished(pending)
        assert clock.now() - began == pytest.approx(1.2)
        worker.run(lambda: storage.append("log", b"y"))
        await worker.close()
        assert clock.now() - began == pytest.approx(1.6)

    run(main, 0)
