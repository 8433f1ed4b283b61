"""A server that gets no more memory ends at once, and nothing that was acknowledged is lost."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from slotreeve_client import connect
from slotreeve_client.options import ClientOptions
from slotreeve_client.tools import open_transport
from slotreeve_harness.processes import ClusterSize, LocalCluster

pytestmark = pytest.mark.processes

MEMORY = 48 * 1024 * 1024
"""Bytes that the server may still get."""
SIZE = 256 * 1024
MOST_SERVICES = 1_000
END_SECONDS = 60.0


async def a_server_gets_no_more_memory(cluster: LocalCluster, name: str) -> None:
    """Publish more and more until the server ends by itself; check that every acknowledged value can be read."""
    transport = open_transport()
    await cluster.ready(transport)
    await transport.close()
    cluster.servers[name].limit_memory(MEMORY)
    options = ClientOptions(cluster=cluster.name, request_seconds=30.0)
    async with connect(*cluster.session_addresses, options=options) as client, asyncio.timeout(END_SECONDS):
        published = 0
        while not cluster.servers[name].has_failed:
            assert published < MOST_SERVICES, f"{name} got all the memory that it wanted"
            for _ in range(8):
                client.publish(f"large-{published}", published.to_bytes(4, "big") + bytes(SIZE))
                published += 1
            await client.flush()
        await client.flush()
        for number in range(published):
            (provider,) = await client.get(f"large-{number}")
            assert provider.data[0][:4] == number.to_bytes(4, "big")


@pytest.mark.timeout(180)
def test_a_data_server_without_memory_ends_and_what_it_held_is_served(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, ClusterSize(meta=1, data=2, session=1)) as cluster:
        asyncio.run(a_server_gets_no_more_memory(cluster, "data-1"))
        ended = cluster.servers["data-1"]
        # Where the library that encodes messages gets no memory, it ends the process before Python sees an error.
        assert "emory" in ended.log.read_text() or ended.exit_code == -signal.SIGSEGV
