"""A small herd moves twice, and nothing vanishes."""

from __future__ import annotations

import asyncio

import pytest
from slotreeve_bench.herd import HerdPlan
from slotreeve_bench.suite import BenchPlan, measure
from slotreeve_harness.measurements import Measurement
from slotreeve_harness.processes import ClusterSize

pytestmark = pytest.mark.processes


def test_nothing_of_a_small_herd_vanishes() -> None:
    herd = HerdPlan(clients=20, registrations=4, subscriptions=2, watch_seconds=0.5)
    steps: list[str] = []
    figures = asyncio.run(measure(Measurement.HERD, BenchPlan(ClusterSize(1, 2, 2), herd=herd), steps.append))
    assert (figures["killed_vanished"], figures["stopped_vanished"]) == (0, 0)
    assert (figures["killed_lowest"], figures["stopped_lowest"]) == (80, 80)
    assert (figures["killed_wrong_views"], figures["stopped_wrong_views"]) == (0, 0)
    assert (figures["killed_connections"], figures["stopped_connections"]) == (40, 60)
    assert "session-1 ends" in steps
