"""Acknowledged publishes a second, one client, pipelined; and what they cost a data server in memory."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from slotreeve.model.nodes import Role
from slotreeve_client.tools import open_client
from slotreeve_harness.processes import LocalCluster

BURST = 1_000
SETTLE_SECONDS = 1.0


async def measure_throughput(
    cluster: LocalCluster, publishers: int = 100_000, payload_bytes: int = 200, rounds: int = 3
) -> dict[str, object]:
    """Publish ``publishers`` registrations, then republish all of them ``rounds`` times, through the public client;
    each round ends when the last is acknowledged by its slot's leader.

    Memory is what the data servers grew by during the first publishing, for each record they hold (every registration
    is held ``replicas`` times).
    """
    payload = b"x" * payload_bytes
    before = _resident_bytes(cluster)
    rates = []
    async with open_client(cluster.session_addresses, cluster.name) as client:
        began = time.perf_counter()
        publications = []
        for number in range(publishers):
            publications.append(client.publish(f"bench.throughput.{number}", payload))
            if number % BURST == 0:
                await asyncio.sleep(0)
        await client.flush()
        first = publishers / (time.perf_counter() - began)
        await asyncio.sleep(SETTLE_SECONDS)
        grown = _resident_bytes(cluster) - before
        for turn in range(rounds):
            changed = payload[:-1] + bytes([48 + turn % 10])
            began = time.perf_counter()
            for number, publication in enumerate(publications):
                publication.republish(changed)
                if number % BURST == 0:
                    await asyncio.sleep(0)
            await client.flush()
            rates.append(publishers / (time.perf_counter() - began))
    copies = min(cluster.replicas, len(cluster.of(Role.DATA)))
    return {
        "publishers": publishers,
        "payload_bytes": payload_bytes,
        "copies": copies,
        "publishes_per_second": round(first),
        "republishes_per_second": [round(rate) for rate in rates],
        "data_server_bytes_per_publisher": round(grown / (publishers * copies)),
    }


def _resident_bytes(cluster: LocalCluster) -> int:
    """Resident memory of all data servers."""
    total = 0
    for server in cluster.of(Role.DATA):
        for line in Path(f"/proc/{server.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1]) * 1024
    return total
