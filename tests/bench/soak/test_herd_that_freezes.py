"""A herd comes to a session server that freezes, and nothing vanishes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from slotreeve_bench.herd import GENEROUS_SECONDS, Herd, HerdPlan
from slotreeve_bench.workers import Worker
from slotreeve_client.options import ClientOptions
from slotreeve_client.tools import open_transport
from slotreeve_harness.processes import ClusterSize, LocalCluster
from slotreeve_servers.session.clients.leases import HERD_LEASES

pytestmark = pytest.mark.processes

LEASE_SECONDS = 8.0
"""A herd is one only where it comes within this time, which it must also do beside other load."""


async def freeze_where_a_herd_came_to(cluster: LocalCluster, plan: HerdPlan) -> tuple[list[int], float]:
    """Stop the first session server, then freeze the second one; the third one goes on. Returns how many instances an
    observer saw at least, how many at the end, and how many of any service were missing meanwhile; and how many seconds
    the clients needed to leave the frozen server."""
    first, second, third = (cluster.servers[f"session-{number}"] for number in (1, 2, 3))
    transport = open_transport(cluster.transport)
    await cluster.ready(transport)
    await transport.close()
    herd = await Herd.start(cluster, plan, first.address)
    observer = await Worker.start(cluster, "slotreeve_bench.herd", "observe", *plan.arguments, third.address)
    try:
        await herd.ask("publish")
        await herd.ask("subscribe")
        await observer.answer(GENEROUS_SECONDS)
        first.signal_stop()
        await herd.ask(f"move {first.address}")
        second.pause()
        seconds = await herd.ask(f"move {second.address}")
        seen = await observer.ask("take", GENEROUS_SECONDS)
    finally:
        second.resume()
        await observer.stop()
        await herd.stop()
    return seen, seconds


def test_nothing_vanishes_where_the_session_server_freezes_that_a_herd_came_to_and_whose_pings_are_spread(
    tmp_path: Path,
) -> None:
    plan = HerdPlan(clients=1_400, registrations=1, subscriptions=1)
    settings = {"session.client_lease_seconds": LEASE_SECONDS}
    with LocalCluster(tmp_path, ClusterSize(1, 2, 3), settings) as cluster:
        seen, seconds = asyncio.run(freeze_where_a_herd_came_to(cluster, plan))
    assert seen == [plan.published, plan.published, 0]
    # The last of the herd ping, and notice, long after the first ones.
    assert seconds > HERD_LEASES * LEASE_SECONDS / 2 + ClientOptions().silence_seconds
