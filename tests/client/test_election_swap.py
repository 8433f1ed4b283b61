"""Requests of tools about the election in use, on a simulated cluster."""

from __future__ import annotations

import pytest
from slotreeve.errors import ClientError, Unreachable
from slotreeve_client.election_swap import all_use, elections_in_use, swap_election
from slotreeve_simulator.simulated_cluster import SimulatedCluster

from tests.client.test_administration import Tool, on_a_cluster


def test_every_meta_server_names_the_election_that_it_uses() -> None:
    async def story(cluster: SimulatedCluster, tool: Tool) -> None:
        found = await elections_in_use(tool.transport, "slotreeve", ["nowhere:1", *tool.metas])
        assert list(found) == tool.metas
        assert {(is_.use, is_.configured, is_.generation) for is_ in found.values()} == {("fle", "fle", 0)}
        assert {is_.leader for is_ in found.values()} == {cluster.leader}
        assert await all_use(tool.transport, "slotreeve", tool.metas, "fle") == found
        with pytest.raises(Unreachable):
            await elections_in_use(tool.transport, "slotreeve", ["nowhere:1"])

    on_a_cluster(story)


def test_a_swap_that_is_refused_is_an_error_with_the_reason_of_each_meta_server() -> None:
    async def story(cluster: SimulatedCluster, tool: Tool) -> None:
        with pytest.raises(ClientError, match=r"meta-2: .*dsn is missing"):
            await swap_election(tool.transport, "slotreeve", tool.metas, "postgres")

    on_a_cluster(story)
