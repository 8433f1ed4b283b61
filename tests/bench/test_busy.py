"""The demonstration beside busy loops, in a small size."""

from __future__ import annotations

import asyncio

import pytest
from slotreeve_bench.busy import BusyPlan, Setting, measure_busy
from slotreeve_harness.processes import ClusterSize


def test_the_share_of_a_run_falls_with_the_loops_on_each_of_its_processors() -> None:
    assert Setting(frozenset({0}), 0).share == 1.0
    assert Setting(frozenset({0}), 3).share == 0.25
    assert Setting(frozenset({0, 1}), 4).share == pytest.approx(1 / 3)


@pytest.mark.timeout(300)
def test_nothing_is_lost_beside_a_busy_loop() -> None:
    plan = BusyPlan(runs=1, one_processor=(1,), all_processors=(), services=50)
    figures = asyncio.run(measure_busy(ClusterSize(3, 2, 2), plan, lambda step: None))
    run = figures["one_processor_1"]
    assert isinstance(run, dict)
    assert [run[name] for name in ("held", "missing", "stale", "vanished", "reconnections_without_a_death")] == [
        1,
        0,
        0,
        0,
        0,
    ]
