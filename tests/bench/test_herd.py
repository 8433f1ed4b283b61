"""A small herd moves twice, and nothing vanishes."""

from __future__ import annotations

import asyncio

from slotreeve_bench.herd import HerdPlan
from slotreeve_bench.names import Measurement
from slotreeve_bench.suite import BenchPlan, measure
from slotreeve_harness.processes import ClusterSize


def test_the_clients_of_a_herd_share_the_services_evenly() -> None:
    plan = HerdPlan(clients=100, registrations=10, subscriptions=10)
    published = [name for number in range(plan.clients) for name in plan.publishes(number)]
    assert len(published) == plan.published == 1000
    assert {published.count(name) for name in set(published)} == {20}
    assert all(len(set(plan.watches(number))) == 10 for number in range(plan.clients))


def test_nothing_of_a_small_herd_vanishes() -> None:
    herd = HerdPlan(clients=20, registrations=4, subscriptions=2, watch_seconds=0.5)
    steps: list[str] = []
    figures = asyncio.run(measure(Measurement.HERD, BenchPlan(ClusterSize(1, 2, 2), herd=herd), steps.append))
    assert (figures["killed_vanished"], figures["stopped_vanished"]) == (0, 0)
    assert (figures["killed_lowest"], figures["stopped_lowest"]) == (80, 80)
    assert (figures["killed_wrong_views"], figures["stopped_wrong_views"]) == (0, 0)
    assert (figures["killed_connections"], figures["stopped_connections"]) == (40, 60)
    assert "session-1 ends" in steps
