"""One change to many subscribers, each on a connection of its own, in several processes."""

from __future__ import annotations

import asyncio
import json
import sys
import time

from slotreeve.errors import ClientError
from slotreeve_client import Subscription
from slotreeve_client.tools import open_client
from slotreeve_harness.figures import spread_of
from slotreeve_harness.processes import LocalCluster

SERVICE = "bench.fanout"
READY_SECONDS = 60.0


async def measure_fanout(
    cluster: LocalCluster, subscribers: int = 1_000, processes: int = 4, changes: int = 20, pause_seconds: float = 0.5
) -> dict[str, object]:
    """Time from ``republish`` to the last of all callbacks, for each of ``changes`` changes.

    The clock is the machine's monotonic one, the same in all processes.

    Raises:
        ClientError: a subscriber process ended early.
    """
    each = subscribers // processes
    workers = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "slotreeve_bench.fanout",
            cluster.name,
            str(each),
            *cluster.session_addresses,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        for _ in range(processes)
    ]
    try:
        async with open_client(cluster.session_addresses, cluster.name) as client:
            publication = client.publish(SERVICE, "0")
            await publication.acknowledged()
            for worker in workers:
                await _line(worker, READY_SECONDS)
            last_ms = []
            for number in range(1, changes + 1):
                await asyncio.sleep(pause_seconds)
                began = time.monotonic_ns()
                publication.republish(str(number))
                seen = [json.loads(await _line(worker, READY_SECONDS)) for worker in workers]
                if any(change != number for change, _ in seen):
                    raise ClientError(f"change {number} was seen as {seen}")
                last_ms.append((max(last for _, last in seen) - began) / 1e6)
    finally:
        for worker in workers:
            if worker.stdin is not None:
                worker.stdin.close()
        await asyncio.gather(*(worker.wait() for worker in workers))
    return {
        "subscribers": each * processes,
        "processes": processes,
        "changes": changes,
        "until_last_ms": spread_of(last_ms),
    }


async def _line(worker: asyncio.subprocess.Process, seconds: float) -> bytes:
    assert worker.stdout is not None
    async with asyncio.timeout(seconds):
        line = await worker.stdout.readline()
    if not line:
        raise ClientError("a subscriber process ended early")
    return line


async def subscribe_many(cluster: str, count: int, addresses: list[str]) -> None:
    """The subscriber process: for each change a line ``[change, when the last callback came]``; ends with its input."""
    seen: dict[int, int] = {}

    def changed(subscription: Subscription) -> None:
        if not subscription.instances:
            return  # before the publisher is there, and when it has gone
        change = int(subscription.instances[0].data[0])
        seen[change] = seen.get(change, 0) + 1
        if seen[change] == count:
            print(json.dumps([change, time.monotonic_ns()]) if change else "ready", flush=True)

    clients = [open_client(addresses, cluster) for _ in range(count)]
    for client in clients:
        client.subscribe(SERVICE, changed)
    try:
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    finally:
        await asyncio.gather(*(client.close() for client in clients))


if __name__ == "__main__":
    from slotreeve_client.tools import run_async

    run_async(subscribe_many(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
