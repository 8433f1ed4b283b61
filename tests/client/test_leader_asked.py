"""Which leader a tool is told, where meta servers disagree."""

from __future__ import annotations

import asyncio
import random

import pytest
from slotreeve.errors import RequestError, Unreachable
from slotreeve_client.administration import change_orders, cluster_leader, cluster_view, put_config
from slotreeve_client.draining import drainable
from slotreeve_conformance.virtual_time import run
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.transport import MemoryTransport


def test_a_meta_server_that_knows_no_leader_hides_none_from_tools() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            tool = MemoryTransport(cluster.process_clock("operator"), "operator", cluster.network)
            leader = cluster.leader
            aside = next(name for name in ("meta-1", "meta-2", "meta-3") if name != leader)
            cluster.meta(aside)._election.back_end.election._disk_is_stuck()  # type: ignore[attr-defined]
            others = [name for name in ("meta-1", "meta-2", "meta-3") if name != aside]
            metas = [cluster.address(name) for name in (aside, *others)]
            assert cluster.meta(aside).leadership().leader is None
            assert (await cluster_leader(tool, "slotreeve", metas)).leader == leader
            assert (await cluster_leader(tool, "slotreeve", metas[:1])).leader is None
            cluster.meta(aside)._election.back_end.election._disk_is_stuck()  # type: ignore[attr-defined]
            assert (await put_config(tool, "slotreeve", metas, "k", b"1")).version == 1
            await tool.close()

    run(scenario, seed=1)


def test_a_tool_says_soon_that_none_leads_also_where_a_meta_server_stands_still() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            tool = MemoryTransport(cluster.process_clock("operator"), "operator", cluster.network)
            metas = [cluster.address(name) for name in ("meta-1", "meta-2", "meta-3")]
            cluster.freeze("meta-1")
            cluster.kill("meta-2")
            await asyncio.sleep(10)
            began = asyncio.get_running_loop().time()
            with pytest.raises(Unreachable, match=r"no meta server among .* leads"):
                await put_config(tool, "slotreeve", metas, "k", b"1")
            assert asyncio.get_running_loop().time() < began + 10
            assert (await cluster_view(tool, "slotreeve", metas)).table.slots, "the last view is known there"
            await tool.close()

    run(scenario, seed=1)


def test_an_empty_view_of_a_meta_server_that_was_started_without_the_others_is_no_empty_cluster() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            tool = MemoryTransport(cluster.process_clock("operator"), "operator", cluster.network)
            for name in ("meta-1", "meta-2", "meta-3"):
                cluster.kill(name)
            await cluster.start("meta-3")
            await asyncio.sleep(5)
            with pytest.raises(Unreachable, match="knows no slot table"):
                await cluster_view(tool, "slotreeve", [cluster.address("meta-3")])
            await tool.close()

    run(scenario, seed=1)


def test_two_servers_that_are_drained_at_one_moment_are_not_both_taken_out() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, session=2) as cluster:
            tool = MemoryTransport(cluster.process_clock("operator"), "operator", cluster.network)
            asked = tool, "slotreeve", [cluster.address(name) for name in ("meta-1", "meta-2", "meta-3")]
            first, second = await drainable(*asked, "session-1"), await drainable(*asked, "session-2")
            await change_orders(*asked, first.banned_in)
            with pytest.raises(RequestError, match="session-2 is the only session server that may hold anything"):
                await change_orders(*asked, second.banned_in)
            _, orders = await change_orders(*asked, lambda orders: orders)
            assert orders.banned == {"session-1"}
            await tool.close()

    run(scenario, seed=1)
