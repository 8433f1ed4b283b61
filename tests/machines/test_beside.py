"""Work that runs beside the event loop, and where that is the loop itself."""

from __future__ import annotations

import asyncio
import random
import threading

import pytest
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_machines.beside import Beside, InThread, InTurn, Work


async def result_of(beside: Beside, work: Work) -> object:
    """Its result; raises its error."""
    done: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    def worked(result: object, error: Exception | None) -> None:
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    beside.run(work, worked)
    assert not done.done(), "on a later turn"
    return await done


def fail() -> None:
    raise KeyError("made up by this test")


def test_the_event_loop_goes_on_while_work_runs_in_a_thread() -> None:
    may_end = threading.Event()

    def work() -> str:
        assert may_end.wait(10.0)
        return "found"

    async def main() -> None:
        waiting = asyncio.create_task(result_of(InThread(), work))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
        may_end.set()
        assert await waiting == "found"
        with pytest.raises(KeyError):
            await result_of(InThread(), fail)
        with pytest.raises(RuntimeError, match=r"SystemExit\(3\)"):
            await result_of(InThread(), leave)

    asyncio.run(main())


def leave() -> None:
    raise SystemExit(3)


def test_where_no_thread_can_be_started_whoever_waits_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", no_thread)
            with pytest.raises(RuntimeError, match="no new thread"):
                await result_of(InThread(), lambda: "never")
        assert await result_of(InThread(), lambda: "found") == "found"

    asyncio.run(main())


def no_thread(self: threading.Thread) -> None:
    raise RuntimeError("there is no new thread")


def test_work_that_ends_after_its_event_loop_is_nobodys() -> None:
    may_end, has_ended = threading.Event(), threading.Event()

    def work() -> None:
        assert may_end.wait(10.0)
        has_ended.set()

    async def main() -> None:
        InThread().run(work, lambda result, error: pytest.fail("nobody waits"))

    asyncio.run(main())
    may_end.set()
    assert has_ended.wait(10.0)


def test_on_virtual_time_work_is_done_at_the_next_turn() -> None:
    async def body(_rng: random.Random) -> None:
        beside = InTurn(VirtualClock())
        assert await result_of(beside, lambda: "found") == "found"
        with pytest.raises(KeyError):
            await result_of(beside, fail)

    run(body)
