"""The trace, the verdict and the watch of the log of a run."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from pathlib import Path

from slotreeve_conformance.virtual_time import run
from slotreeve_simulator.health import listening
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_simulator.trace import Trace, Weight
from slotreeve_simulator.verdict import RunVerdict, Violation


def traced(*texts: str) -> Trace:
    trace = Trace(lambda: 1.5)
    for number, text in enumerate(texts):
        trace.note(Weight(number % 3), text)
    return trace


def test_traces_have_equal_hashes_exactly_if_their_lines_are_equal() -> None:
    assert traced("a", "b").hash == traced("a", "b").hash
    assert len({traced(*texts).hash for texts in (("a", "b"), ("b", "a"), ("ab",), ())}) == 4
    assert traced("a", "b").events == 2


def test_only_the_last_details_of_a_trace_are_shown() -> None:
    trace = traced("detail 1", "step", "fault", "detail 2")
    assert [line.split("  ")[-1] for line in trace.lines()] == ["step", "fault"]
    assert [line.split("  ")[-1] for line in trace.lines(1)] == ["step", "fault", "detail 2"]


def test_a_verdict_keeps_the_first_violation_only() -> None:
    async def scenario() -> None:
        trace = traced()
        verdict = RunVerdict(trace)
        assert verdict.violation is None
        verdict.violate("I1", "two leaders")
        verdict.violate("I2", "two leases")
        assert verdict.violation == Violation("I1", "two leaders") == await verdict.settled
        assert [line.split("  ")[-1] for line in trace.lines()] == ["VIOLATION I1: two leaders"]

    asyncio.run(scenario())


def test_a_logged_exception_is_a_violation_and_a_logged_error_without_one_is_not() -> None:
    async def scenario() -> None:
        verdict, log = RunVerdict(traced()), logging.getLogger("slotreeve.anything")
        with listening(verdict):
            log.error("a disk is full")
            assert verdict.violation is None
            try:
                raise KeyError("x")
            except KeyError:
                log.exception("a handler failed")
        assert verdict.violation == Violation("health", "a handler failed: KeyError: 'x'")
        assert not logging.getLogger("slotreeve").handlers

    asyncio.run(scenario())


def test_a_plugin_that_breaks_the_rules_of_its_port_is_a_violation() -> None:
    async def scenario() -> None:
        verdict, log = RunVerdict(traced()), logging.getLogger("slotreeve.arranger")
        with listening(verdict):
            log.warning("made up by this test")
            assert verdict.violation is None
            log.error("the balancer's result is rejected")
        assert verdict.violation == Violation("health", "the balancer's result is rejected")

    asyncio.run(scenario())


def test_what_a_timer_or_a_task_raises_and_nobody_catches_is_a_violation() -> None:
    def fail() -> None:
        raise KeyError("x")

    async def forgotten() -> None:
        fail()

    async def found(begin: Callable[[asyncio.AbstractEventLoop], object]) -> str:
        verdict = RunVerdict(traced())
        with listening(verdict):
            begin(asyncio.get_running_loop())
            await asyncio.sleep(0.01)
        return str(verdict.violation)

    timer = asyncio.run(found(lambda loop: loop.call_later(0.0, fail)))
    assert timer.startswith("health: Exception in callback")
    assert timer.endswith("KeyError: 'x'")
    task = asyncio.run(found(lambda loop: loop.create_task(forgotten()) and None))
    assert task.startswith("health: Task exception was never retrieved")
    assert not logging.getLogger("asyncio").handlers


def test_a_killed_server_keeps_nothing_any_more_of_the_log_of_the_process_that_simulates_it(tmp_path: Path) -> None:
    async def scenario(rng: random.Random) -> None:
        settings = {"history.directory": str(tmp_path)}
        async with SimulatedCluster(rng, meta=1, data=1, session=1, settings=settings) as cluster:
            await cluster.ready()
            assert len(logging.getLogger("slotreeve").handlers) == 3
            cluster.kill("data-1")
            assert len(logging.getLogger("slotreeve").handlers) == 2

    run(scenario)
    assert not logging.getLogger("slotreeve").handlers
