"""The demonstration beside busy loops, in a small size."""

from __future__ import annotations

import asyncio

import pytest
from slotreeve_bench.busy import BusyPlan, measure_busy
from slotreeve_harness.processes import ClusterSize

pytestmark = pytest.mark.processes


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
