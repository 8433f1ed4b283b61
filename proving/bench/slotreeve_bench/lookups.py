"""Lookups: one at a time, and many at once."""

from __future__ import annotations

import asyncio
import time

from slotreeve_client.tools import open_client
from slotreeve_harness.figures import spread_of
from slotreeve_harness.processes import LocalCluster


async def measure_lookups(
    cluster: LocalCluster, services: int = 1_000, one_at_a_time: int = 2_000, at_once: int = 64, total: int = 20_000
) -> dict[str, object]:
    """Latency of ``get`` one at a time, and the rate with ``at_once`` of them in flight."""
    async with open_client(cluster.session_addresses, cluster.name) as client:
        names = [f"bench.lookup.{number}" for number in range(services)]
        for name in names:
            client.publish(name, "127.0.0.1:8080")
        await client.flush()
        latencies_ms = []
        for number in range(one_at_a_time):
            began = time.perf_counter()
            await client.get(names[number % services])
            latencies_ms.append(1000 * (time.perf_counter() - began))

        async def look_up(first: int) -> None:
            for number in range(first, total, at_once):
                await client.get(names[number % services])

        began = time.perf_counter()
        await asyncio.gather(*(look_up(first) for first in range(at_once)))
        rate = total / (time.perf_counter() - began)
    return {
        "services": services,
        "one_at_a_time_ms": spread_of(latencies_ms),
        "at_once": at_once,
        "lookups_per_second": round(rate),
    }
