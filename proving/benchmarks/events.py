"""What the event log costs, or the history. Prints one JSON object.

Example: ``python proving/benchmarks/events.py [--history]``

Two small clusters of processes run side by side, one writes it. Acknowledged changes a second, one client,
pipelined, are measured on one and the other in turn, many times; the ratio is that of each pair, so that what else the
machine does meanwhile hits both alike.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from slotreeve_client import Client, Publication
from slotreeve_client.tools import open_client, open_transport, run_async
from slotreeve_harness.processes import ClusterSize, LocalCluster

BURST = 1_000
PAYLOAD = b"x" * 200
RESAMPLES = 2_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--publishers", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--history", action="store_true", help="measure the history, not the event log")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slotreeve-bench-") as directory:
        figures = run_async(measure(Path(directory), arguments.publishers, arguments.pairs, arguments.history))
    machine = {"processors": os.cpu_count(), "python": platform.python_version(), "load_before": os.getloadavg()}
    print(json.dumps({"machine": machine, **figures}, indent=1))


async def measure(directory: Path, publishers: int, pairs: int, is_of_history: bool) -> dict[str, object]:
    events = directory / "events"
    written: dict[str, object] = {"history.enabled": True} if is_of_history else {"events.path": str(events)}
    async with (
        publishing(directory / "with", {"history.enabled": False} | written, publishers) as (logging, logging_cluster),
        publishing(directory / "without", {"history.enabled": False}, publishers) as (plain, plain_cluster),
    ):
        rates: list[tuple[float, float]] = []
        clusters = (logging_cluster, plain_cluster)
        before = [processor_seconds(cluster) for cluster in clusters]
        for turn in range(pairs + 1):
            one, other = (logging, plain) if turn % 2 else (plain, logging)
            rate = {id(each): await republish(*each, turn) for each in (one, other)}
            rates.append((rate[id(logging)], rate[id(plain)]))
        spent = [processor_seconds(cluster) - so_far for cluster, so_far in zip(clusters, before, strict=True)]
    del rates[0]  # the warm-up
    ratios = [with_log / without for with_log, without in rates]
    files = [] if is_of_history else events.iterdir()
    recorded = [json.loads(line) for file in files for line in file.read_bytes().splitlines()]
    stored = sum(path.stat().st_size for path in (directory / "with" / "history").rglob("*") if path.is_file())
    return {
        "publishers": publishers,
        "pairs": pairs,
        "changes_per_second_without": round(statistics.median(without for _, without in rates)),
        "changes_per_second_with": round(statistics.median(with_log for with_log, _ in rates)),
        "ratio": round(statistics.median(ratios), 4),
        "ratio_95": interval(ratios),
        "history_bytes": stored,
        "registrations_told": sum(len(event.get("versions", ())) for event in recorded),
        "processor_microseconds_per_change_with": round(1e6 * spent[0] / publishers / (pairs + 1), 2),
        "processor_microseconds_per_change_without": round(1e6 * spent[1] / publishers / (pairs + 1), 2),
    }


@contextlib.asynccontextmanager
async def publishing(
    directory: Path, settings: Mapping[str, object], publishers: int, gateways: int = 0
) -> AsyncIterator[tuple[tuple[Client, list[Publication]], LocalCluster]]:
    """A cluster of one meta, two data and one session server, with a client that has published."""
    cluster = LocalCluster(directory, ClusterSize(1, 2, 1, gateways), settings)
    transport = open_transport(cluster.transport)
    try:
        with cluster:
            await cluster.ready(transport)
            async with open_client(cluster.session_addresses, cluster.name) as client:
                registrations = []
                for number in range(publishers):
                    registrations.append(client.publish(f"bench.events.{number}", PAYLOAD))
                    if number % BURST == 0:
                        await asyncio.sleep(0)
                await client.flush()
                yield (client, registrations), cluster
    finally:
        await transport.close()


async def republish(client: Client, registrations: list[Publication], turn: int) -> float:
    """Changes a second until the last is acknowledged."""
    changed = PAYLOAD[:-1] + bytes([48 + turn % 10])
    began = time.perf_counter()
    for number, registration in enumerate(registrations):
        registration.republish(changed)
        if number % BURST == 0:
            await asyncio.sleep(0)
    await client.flush()
    return len(registrations) / (time.perf_counter() - began)


def processor_seconds(cluster: LocalCluster) -> float:
    """Of all servers of a cluster so far."""
    ticks = 0
    for server in cluster.servers.values():
        fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def interval(values: list[float]) -> tuple[float, float]:
    """The 95 % confidence interval of the median, by the bootstrap."""
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return round(medians[RESAMPLES // 40], 4), round(medians[-RESAMPLES // 40], 4)


if __name__ == "__main__":
    main()
