"""A second election back-end beside the one in use: it takes part, never acts, and both are reported."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from slotreeve.catalogue import Listed
from slotreeve.errors import ClientError, ConfigError
from slotreeve.offers import Port
from slotreeve_client.administration import ask_any
from slotreeve_conformance.simulated import seeds
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.meta_messages import GetShadow, ShadowIs
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.transport import MemoryTransport

METAS = ("meta-1", "meta-2", "meta-3")


def with_another_election(cluster: SimulatedCluster) -> SimulatedCluster:
    """The catalogue gets FLE under a second name."""
    fle = cluster.catalogue.find(Port.ELECTION, "fle").offer
    cluster.catalogue.listed.append(Listed(Port.ELECTION, replace(fle, name="other"), "tests 1"))
    return cluster


async def reports(cluster: SimulatedCluster) -> dict[str, ShadowIs]:
    transport = MemoryTransport(cluster.process_clock("operator"), "operator", cluster.network)
    found = {}
    for name in METAS:
        if name in cluster.servers:
            reply = await ask_any(transport, "slotreeve", [cluster.address(name)], GetShadow())
            assert isinstance(reply, ShadowIs)
            found[name] = reply
    await transport.close()
    return found


@pytest.mark.parametrize("seed", seeds(1))
def test_a_shadow_elects_for_itself_and_changes_nothing(seed: int) -> None:
    async def scenario(rng: random.Random) -> None:
        settings = {"meta.shadow_election": "other", "election.other.ephemeral": True}
        cluster = with_another_election(SimulatedCluster(rng, settings=settings))
        async with cluster:
            first = await reports(cluster)
            assert all(report.agrees and report.name == "other" for report in first.values())
            assert {report.leader for report in first.values()} == {cluster.leader}
            former = cluster.leader
            assert former is not None
            before = cluster.views()[0]
            cluster.kill(former)
            await cluster.until(lambda: cluster.leader not in (None, former), "another leads")
            await cluster.until(lambda: cluster.is_settled(), "all is well", 60)
            after = await reports(cluster)
            assert all(report.agrees and report.changes >= 2 for report in after.values())
            assert all(report.shadow_leader not in (None, former) for report in after.values())
            assert all(report.leaderless_seconds < 5 for report in after.values())
            assert cluster.views()[0].table == before.table

    run(scenario, seed)


def test_without_a_shadow_the_question_is_answered_with_how_to_get_one() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            with pytest.raises(ClientError, match=r"meta\.shadow_election names one"):
                await reports(cluster)

    run(scenario, seed=1)


def test_a_shadow_of_itself_is_refused() -> None:
    async def scenario(rng: random.Random) -> None:
        with pytest.raises(ConfigError, match="'fle' is the election in use"):
            await SimulatedCluster(rng, settings={"meta.shadow_election": "fle"}).start("meta-1")

    run(scenario, seed=1)
