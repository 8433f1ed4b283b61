"""The death and return of one very large client: its effects on all others."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable

from slotreeve.errors import ClientError
from slotreeve_client.administration import cluster_leader
from slotreeve_client.tools import open_client, open_transport
from slotreeve_harness.figures import spread_of
from slotreeve_harness.processes import LocalCluster

PREFIX = "bench.departure."
WATCHED = 2_000
BETWEEN_PUBLISHES_SECONDS = 0.005
GENEROUS_SECONDS = 120.0
LONGEST_LINE_BYTES = 1 << 22


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
            bystander = await _Bystander.start(cluster)
            began = time.monotonic()
            large.kill()
            await large.wait()
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
            large.kill()
            await large.wait()
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


class _Bystander:
    """Another client, a process of its own, that publishes all the time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, cluster: LocalCluster) -> _Bystander:
        """Returns once it is connected and has published."""
        bystander = cls(await _spawn(cluster, "bystander"))
        await bystander.take()
        return bystander

    async def take(self) -> list[float]:
        """How many milliseconds each publish took since the last time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"take\n")
        async with asyncio.timeout(GENEROUS_SECONDS):
            waits_ms: list[float] = json.loads(await self._process.stdout.readline())
        return waits_ms

    async def stop(self) -> None:
        """End the process."""
        self._process.kill()
        await self._process.wait()


async def _start(cluster: LocalCluster, publishers: int) -> asyncio.subprocess.Process:
    """The large client as a process; returns when all it publishes is acknowledged."""
    process = await _spawn(cluster, str(publishers))
    assert process.stdout is not None
    async with asyncio.timeout(GENEROUS_SECONDS):
        if await process.stdout.readline() != b"ready\n":
            raise ClientError("the large client ended early")
    return process


async def _spawn(cluster: LocalCluster, what: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "slotreeve_bench.departure",
        cluster.name,
        what,
        *cluster.session_addresses,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=LONGEST_LINE_BYTES,
    )


async def publish_all_the_time(cluster: str, addresses: list[str]) -> None:
    """The bystander: at each line on its input it prints how long its publishes took since the last one."""
    loop = asyncio.get_running_loop()
    waits_ms: list[float] = []
    async with open_client(addresses, cluster) as client:
        publication = client.publish("bench.bystander", "0")
        asked = loop.run_in_executor(None, sys.stdin.readline)
        while True:
            began = time.perf_counter()
            publication.republish(str(began))
            await publication.acknowledged()
            waits_ms.append(1000 * (time.perf_counter() - began))
            await asyncio.sleep(BETWEEN_PUBLISHES_SECONDS)
            if asked.done():
                if not asked.result():
                    return
                print(json.dumps(waits_ms), flush=True)
                waits_ms.clear()
                asked = loop.run_in_executor(None, sys.stdin.readline)


async def publish_many(cluster: str, count: int, addresses: list[str]) -> None:
    """The large client: publishes, reports it, and stays until it is killed or its input ends."""
    async with open_client(addresses, cluster) as client:
        for number in range(count):
            client.publish(f"{PREFIX}{number}", "127.0.0.1:8080")
            if number % 1_000 == 0:
                await asyncio.sleep(0)
        await client.flush()
        print("ready", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    from slotreeve_client.tools import run_async

    name, what, *sessions = sys.argv[1:]
    if what == "bystander":
        run_async(publish_all_the_time(name, sessions))
    else:
        run_async(publish_many(name, int(what), sessions))
