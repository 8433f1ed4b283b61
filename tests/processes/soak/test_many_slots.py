"""A cluster with very many slots starts, is idle at rest, and survives the death of a data server."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from slotreeve_client import ClientOptions, connect
from slotreeve_client.administration import cluster_leader
from slotreeve_client.tools import open_transport
from slotreeve_harness.processes import ClusterSize, LocalCluster

pytestmark = pytest.mark.processes

SLOTS = 16_384
SERVICES = 500
PATIENCE_SECONDS = 60.0
LOOKS = 5
MOST_IDLE_SHARE = 0.2
"""Of a processor; about 0.01 is measured, and 0.4 where each slot costs something."""


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def idle_share(pid: int) -> float:
    """The smallest share of a processor that a process uses in a second, of a few seconds."""
    shares = []
    for _ in range(LOOKS):
        before = processor_seconds(pid)
        await asyncio.sleep(1.0)
        shares.append(processor_seconds(pid) - before)
    return min(shares)


async def story(cluster: LocalCluster) -> None:
    transport = open_transport()
    await cluster.ready(transport, PATIENCE_SECONDS)
    meta = list(cluster.meta_addresses.values())
    async with connect(*cluster.session_addresses, options=ClientOptions(cluster=cluster.name)) as client:
        publications = [client.publish(f"service-{number}", "x") for number in range(SERVICES)]
        async with asyncio.timeout(PATIENCE_SECONDS):
            await client.flush()
        assert await idle_share(cluster.servers["data-1"].pid) < MOST_IDLE_SHARE
        term = (await cluster_leader(transport, cluster.name, meta)).term
        cluster.servers["data-1"].kill()
        for publication in publications:
            publication.republish("y")
        async with asyncio.timeout(PATIENCE_SECONDS):
            await client.flush()
            for number in range(0, SERVICES, 50):
                (provider,) = await client.get(f"service-{number}")
                assert provider.data == (b"y",)
        assert (await cluster_leader(transport, cluster.name, meta)).term == term, "the leader has lost its lease"
    await transport.close()


@pytest.mark.timeout(300)
def test_a_cluster_with_very_many_slots_survives_the_death_of_a_data_server(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, ClusterSize(meta=3, data=3, session=1), {"cluster.slots": SLOTS}) as cluster:
        asyncio.run(story(cluster))
