"""A cluster with very many slots: how soon it starts, what it costs idle, and how long the death of a server is felt.

    python proving/benchmarks/many_slots.py --slots 65536 --busy 4

Prints JSON: seconds until every slot is held, the processor share of each idle server in percent, and for the death of
a data server, a session server and the meta leader the longest time until five republished records were acknowledged,
and until the cluster was complete again after the server was started anew. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from slotreeve.ports import Transport
from slotreeve_client import Client, ClientOptions, Publication, connect
from slotreeve_client.administration import cluster_leader
from slotreeve_client.tools import open_transport
from slotreeve_harness.processes import ClusterSize, LocalCluster

READY_SECONDS = 180.0
PATIENCE_SECONDS = 120.0
SETTLE_SECONDS = 20.0
IDLE_SECONDS = 20.0
SERVICES = 2_000
ROUNDS = 40
AT_ONCE = 5
SPIN = "while True: pass"


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """So many processes that do nothing but use a processor."""
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(count)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def processor_seconds(pid: int) -> float:
    """What a process has used so far, in user and system time."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def idle_shares(cluster: LocalCluster) -> dict[str, float]:
    """Percent of a processor that each server uses."""
    before = {name: processor_seconds(server.pid) for name, server in cluster.servers.items()}
    await asyncio.sleep(IDLE_SECONDS)
    return {
        name: round(100 * (processor_seconds(server.pid) - before[name]) / IDLE_SECONDS, 1)
        for name, server in cluster.servers.items()
    }


async def longest_wait(client: Client, publications: list[Publication]) -> float:
    """The longest time until a few republished records were acknowledged."""
    longest = 0.0
    for number in range(ROUNDS):
        began = time.monotonic()
        for offset in range(AT_ONCE):
            publications[(number * AT_ONCE + offset) % len(publications)].republish(str(began))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await client.flush()
        longest = max(longest, time.monotonic() - began)
        await asyncio.sleep(0.1)
    return longest


async def measure(cluster: LocalCluster, transport: Transport) -> dict[str, object]:
    """All figures of one cluster, which has just been started."""
    began = time.monotonic()
    await cluster.ready(transport, READY_SECONDS)
    figures: dict[str, object] = {"ready_seconds": round(time.monotonic() - began, 2)}
    async with connect(*cluster.session_addresses, options=ClientOptions(cluster=cluster.name)) as client:
        publications = [client.publish(f"service-{number}", "x") for number in range(SERVICES)]
        await client.flush()
        await asyncio.sleep(SETTLE_SECONDS)
        figures["idle_percent"] = await idle_shares(cluster)
        meta = list(cluster.meta_addresses.values())
        for role in ("data", "session", "meta"):
            leader = (await cluster_leader(transport, cluster.name, meta)).leader
            name = leader if role == "meta" and leader is not None else f"{role}-1"
            began = time.monotonic()
            cluster.servers[name].kill()
            waited = await longest_wait(client, publications)
            cluster.servers[name].start()
            await cluster.ready(transport, READY_SECONDS)
            figures[f"{role}_killed"] = {
                "longest_wait_seconds": round(waited, 2),
                "complete_again_seconds": round(time.monotonic() - began, 2),
            }
    return figures


async def run(slots: int, directory: Path) -> dict[str, object]:
    """Start a cluster, measure, and end it."""
    transport = open_transport()
    with LocalCluster(directory, ClusterSize(meta=3, data=3, session=2), {"cluster.slots": slots}) as cluster:
        try:
            return await measure(cluster, transport)
        finally:
            await transport.close()


def main() -> None:
    """Parse the arguments, measure, print."""
    parser = argparse.ArgumentParser(description="A cluster with very many slots.")
    parser.add_argument("--slots", type=int, default=16_384)
    parser.add_argument("--busy", type=int, default=0, help="busy loops beside it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slotreeve-slots-") as directory, busy_loops(arguments.busy):
        figures = asyncio.run(run(arguments.slots, Path(directory)))
    print(json.dumps({"slots": arguments.slots, "busy_loops": arguments.busy, **figures}, indent=1))


if __name__ == "__main__":
    main()
