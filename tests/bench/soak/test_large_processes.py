"""A large service in a small size."""

from __future__ import annotations

import asyncio

import pytest
from slotreeve_bench.large import LargePlan
from slotreeve_bench.suite import BenchPlan, measure
from slotreeve_harness.measurements import Measurement
from slotreeve_harness.processes import ClusterSize

pytestmark = pytest.mark.processes


def test_a_service_stays_complete_while_data_servers_die() -> None:
    plan = LargePlan(instances=3_000, subscribers=2, light=6, subscriptions=50)
    bench = BenchPlan(ClusterSize(1, 3, 2), large=plan)
    figures = asyncio.run(measure(Measurement.LARGE, bench, lambda step: None))
    assert (figures["lowest"], figures["present_at_the_end"], figures["views_that_agree"]) == (3_000, 3_000, 2)
    light = (figures[key] for key in ("light_views_that_agree", "lowest_in_a_light_view", "light_connections_lost"))
    assert tuple(light) == (6, 3_000, 0)
