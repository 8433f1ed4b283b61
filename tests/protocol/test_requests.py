"""Requests that wait for a reply, against a dumb twin."""

from __future__ import annotations

import asyncio
import math
import random

from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve.clock import Timer
from slotreeve.errors import RequestTimeout
from slotreeve.ports import Message
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_protocol.requests import TIMEOUT_GRAIN_SECONDS, Answered, PendingRequests

STEPS = st.lists(st.tuples(st.floats(0.0, 0.5), st.floats(0.001, 0.5), st.booleans()), max_size=25)


class Waiting:
    """A request; it is only compared."""

    def __call__(self, _reply: Message | None, _error: Exception | None) -> None:
        raise AssertionError("the table of requests does not call them")


@settings(derandomize=True)
@given(STEPS)
def test_a_request_is_taken_or_times_out_but_never_both(steps: list[tuple[float, float, bool]]) -> None:
    async def main(_rng: random.Random) -> None:
        clock = VirtualClock()
        ended: dict[Answered, float] = {}

        def fail(answered: Answered, error: Exception) -> None:
            assert isinstance(error, RequestTimeout)
            assert "peer:1" in str(error)
            assert answered not in ended
            ended[answered] = clock.now()

        pending = PendingRequests(clock, fail, "peer:1")
        deadlines: dict[Answered, float] = {}
        taken: set[Answered] = set()
        for pause, timeout, answer in steps:
            await asyncio.sleep(pause)
            waiting, request_id = Waiting(), pending.new_id()
            pending.add(request_id, waiting, timeout)
            deadlines[waiting] = clock.now() + timeout
            if answer:
                assert pending.take(request_id) is waiting
                assert pending.take(request_id) is None
                taken.add(waiting)
        await asyncio.sleep(1)
        assert ended.keys() == deadlines.keys() - taken
        for answered, at in ended.items():
            assert deadlines[answered] <= at <= deadlines[answered] + TIMEOUT_GRAIN_SECONDS + 1e-9

    run(main)


def test_all_waits_end_oldest_first_and_none_times_out_later() -> None:
    async def main(_rng: random.Random) -> None:
        failed: list[Answered] = []
        pending = PendingRequests(VirtualClock(), lambda answered, _error: failed.append(answered), "peer:1")
        waits = [Waiting() for _ in range(3)]
        for wait in waits:
            pending.add(pending.new_id(), wait, 0.1)
        assert pending.take_all() == waits
        await asyncio.sleep(1)
        assert (failed, pending.take_all()) == ([], [])

    run(main)


def test_a_request_id_in_use_is_skipped_after_the_ids_have_started_again() -> None:
    async def main(_rng: random.Random) -> None:
        last = (1 << 32) - 1
        pending = PendingRequests(VirtualClock(), lambda _answered, _error: None, "peer:1", first_id=last)
        pending.add(0, Waiting(), 1.0)
        pending.add(1, Waiting(), 1.0)
        assert [pending.new_id(), pending.new_id(), pending.new_id()] == [last, 2, 3]

    run(main)


def test_a_request_without_a_time_out_waits_as_long_as_the_connection_lives() -> None:
    async def main(_rng: random.Random) -> None:
        failed: list[Answered] = []
        pending = PendingRequests(VirtualClock(), lambda answered, _error: failed.append(answered), "peer:1")
        endless, limited = Waiting(), Waiting()
        pending.add(pending.new_id(), endless, math.inf)
        pending.add(pending.new_id(), limited, 1.0)
        await asyncio.sleep(3_600)
        assert failed == [limited]
        assert pending.take_all() == [endless]

    run(main)


def test_one_timer_serves_all_requests() -> None:
    class CountingClock(VirtualClock):
        timers = 0

        def call_later(self, seconds: float, action: object) -> Timer:
            CountingClock.timers += 1
            return super().call_later(seconds, action)  # type: ignore[arg-type]

    async def main(_rng: random.Random) -> None:
        pending = PendingRequests(CountingClock(), lambda _answered, _error: None, "peer:1")
        for number in range(1_000):
            pending.add(pending.new_id(), Waiting(), 1.0 + number * TIMEOUT_GRAIN_SECONDS / 1_000)
        await asyncio.sleep(2)
        assert pending.take_all() == []
        assert CountingClock.timers <= 3

    run(main)
