"""Publish -> subscriber callback at a fixed rate."""

from __future__ import annotations

import asyncio
import time

from slotreeve_client import Publication, Subscription
from slotreeve_client.tools import open_client
from slotreeve_harness.figures import spread_of
from slotreeve_harness.processes import LocalCluster


async def measure_latency(
    cluster: LocalCluster, changes_per_second: float = 100.0, seconds: float = 20.0, services: int = 100
) -> dict[str, object]:
    """One publisher and one subscriber, on different session servers, republishing round robin over ``services``."""
    latencies_ms: list[float] = []

    def changed(subscription: Subscription) -> None:
        now = time.monotonic_ns()
        latencies_ms.extend((now - int(instance.data[0])) / 1e6 for instance in subscription.instances)

    first, *others = cluster.session_addresses
    async with (
        open_client([first], cluster.name) as publisher,
        open_client(others[:1] or [first], cluster.name) as subscriber,
    ):
        publications: list[Publication] = [
            publisher.publish(f"bench.latency.{number}", str(time.monotonic_ns())) for number in range(services)
        ]
        await publisher.flush()
        subscriptions = [subscriber.subscribe(p.data_info_id, changed) for p in publications]
        await asyncio.gather(*(subscription.ready() for subscription in subscriptions))
        latencies_ms.clear()
        count = int(seconds * changes_per_second)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number / changes_per_second - loop.time()))
            publications[number % services].republish(str(time.monotonic_ns()))
        await publisher.flush()
        await asyncio.sleep(0.5)
    return {
        "changes_per_second": changes_per_second,
        "seconds": seconds,
        "services": services,
        "changes": count,
        "latency_ms": spread_of(latencies_ms),
    }
