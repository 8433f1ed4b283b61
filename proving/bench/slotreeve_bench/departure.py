"""The death and return of one very large client: its effects on all others."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable

from slotreeve_client.administration import cluster_leader
from slotreeve_client.tools import open_client, open_transport
from slotreeve_harness.figures import spread_of
from slotreeve_harness.processes import LocalCluster

from slotreeve_bench.bystander import Bystander
from slotreeve_bench.workers import Commands, Worker

PREFIX = "bench.departure."
WATCHED = 2_000
GENEROUS_SECONDS = 120.0


async def measure_departure(cluster: LocalCluster, publishers: int = 100_000) -> dict[str, object]:
    """Kill a client with ``publishers`` registrations, let it come back, and measure until subscribers to a sample of
    them, and the list of all, are right; and how long another client's publishes take meanwhile.

    Raises:
        ClientError, TimeoutError: the client did not get through, or the others never got right.
    """
    transport = open_transport(cluster.transport)
    step = max(1, publishers // WATCHED)
    names = [f"{PREFIX}{number}" for number in range(0, publishers, step)]
    metas = cluster.meta_addresses.values()
    try:
        async with open_client(cluster.session_addresses, cluster.name) as consumer:
            large = await _start(cluster, publishers)
            views = [consumer.subscribe(name) for name in names]
            await asyncio.gather(*(view.ready() for view in views))
            before = await cluster_leader(transport, cluster.name, metas)
            bystander = await Bystander.start(cluster, cluster.session_addresses)
            began = time.monotonic()
            await large.stop()
            await _until(lambda: not any(view.instances for view in views))
            seen_gone = time.monotonic() - began
            while await consumer.list(PREFIX):  # noqa: ASYNC110 - asks another process
                await asyncio.sleep(0.02)
            gone = time.monotonic() - began
            dying_ms = await bystander.take()
            large = await _start(cluster, publishers)
            await _until(lambda: all(view.instances for view in views))
            returning_ms = await bystander.take()
            await bystander.stop()
            after = await cluster_leader(transport, cluster.name, metas)
            await large.stop()
    finally:
        await transport.close()
    return {
        "publishers": publishers,
        "watched": len(names),
        "seconds_until_subscribers_are_right": round(seen_gone, 3),
        "seconds_until_nothing_is_listed": round(gone, 3),
        "leader_changes": int((before.leader, before.term) != (after.leader, after.term)),
        "others_acknowledged_ms_while_it_dies": spread_of(dying_ms),
        "others_acknowledged_ms_while_it_returns": spread_of(returning_ms),
    }


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(GENEROUS_SECONDS):
        while not condition():  # noqa: ASYNC110 - a condition of many callbacks
            await asyncio.sleep(0.005)


async def _start(cluster: LocalCluster, publishers: int) -> Worker:
    """The large client as a process; returns when all it publishes is acknowledged."""
    addresses = cluster.session_addresses
    large = await Worker.start(cluster, "slotreeve_bench.departure", str(publishers), *addresses)
    await large.answer(GENEROUS_SECONDS)
    return large


async def publish_many(cluster: str, count: int, addresses: list[str]) -> None:
    """The large client: publishes, reports it, and stays until it is killed or its input ends."""
    async with open_client(addresses, cluster) as client:
        for number in range(count):
            client.publish(f"{PREFIX}{number}", "127.0.0.1:8080")
            if number % 1_000 == 0:
                await asyncio.sleep(0)
        await client.flush()
        commands = Commands()
        commands.answer("ready")
        await commands.next()


if __name__ == "__main__":
    from slotreeve_client.tools import run_async

    run_async(publish_many(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
