"""Which leader a tool is told, where meta servers disagree."""

from __future__ import annotations

import random

from slotreeve_client.administration import cluster_leader, put_config
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
