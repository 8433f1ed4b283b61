"""Registrations beside more lookups than a session server can answer: what waits, and for how long.

``python proving/benchmarks/overload.py`` prints JSON: rounds beside the flood and rounds without, in turn, on a cluster
of 1 meta, 1 data and 1 session server. The processes of the flood have the lowest priority: on other machines they
would take none of the processors of the servers.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from slotreeve.errors import SlotreeveError
from slotreeve_bench.workers import Commands, Worker
from slotreeve_client import Publication, Subscription
from slotreeve_client.administration import counters
from slotreeve_client.tools import open_client, open_transport, run_async
from slotreeve_harness.figures import spread_of
from slotreeve_harness.processes import ClusterSize, LocalCluster

SERVICES, INSTANCES = 50, 500
CLIENTS, AT_ONCE = 20, 100
RATE = 50.0
READY_SECONDS = 60.0


async def flood(cluster_name: str, addresses: list[str]) -> None:
    """The process of the flood: ``begin`` and ``end`` are its commands."""
    os.nice(19)
    commands, answered, refused = Commands(), 0, 0
    clients = [open_client(addresses, cluster_name) for _ in range(CLIENTS)]
    running: list[asyncio.Task[None]] = []

    async def ask(number: int) -> None:
        nonlocal answered, refused
        client = clients[number % CLIENTS]
        while True:
            number += 1
            try:
                await client.get(f"overload.{number % SERVICES}")
                answered += 1
            except SlotreeveError:
                refused += 1

    await asyncio.gather(*(client.get("overload.0") for client in clients))
    commands.answer("ready")
    while command := await commands.next():
        if command == "begin":
            answered = refused = 0
            running = [asyncio.create_task(ask(number)) for number in range(CLIENTS * AT_ONCE)]
        else:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        commands.answer({"answered": answered, "refused": refused})
    for client in clients:
        await client.close()


async def measured(cluster: LocalCluster, rounds: int, seconds: float) -> dict[str, object]:
    """The figures."""
    transport = open_transport(cluster.transport)
    await cluster.ready(transport)
    worker = await Worker.start(cluster, "overload", *cluster.session_addresses)
    found: dict[str, list[dict[str, float]]] = {"quiet": [], "flooded": []}
    lookups: list[dict[str, int]] = []
    delays_ms: list[float] = []

    def changed(subscription: Subscription) -> None:
        now = time.monotonic()
        delays_ms.extend((now - float(one.data[0])) * 1e3 for one in subscription.instances if one.data[0] != b"-")

    try:
        async with (
            open_client(cluster.session_addresses, cluster.name) as publisher,
            open_client(cluster.session_addresses, cluster.name) as subscriber,
        ):
            for number in range(SERVICES * INSTANCES):
                publisher.publish(f"overload.{number % SERVICES}", "-")
            await publisher.flush()
            await worker.answer(READY_SECONDS)
            watched = publisher.publish("overload.watched", str(time.monotonic()))
            await subscriber.subscribe("overload.watched", changed).ready()
            await one_round(publisher.flush, watched, delays_ms, 2.0)
            for _ in range(rounds):
                found["quiet"].append(await one_round(publisher.flush, watched, delays_ms, seconds))
                await worker.ask("begin", READY_SECONDS)
                await asyncio.sleep(1.0)
                found["flooded"].append(await one_round(publisher.flush, watched, delays_ms, seconds))
                lookups.append(await worker.ask("end", READY_SECONDS))
                await asyncio.sleep(3.0)
            held = await counters(transport, cluster.name, cluster.session_addresses[0])
    finally:
        await worker.stop()
        await transport.close()
    return {
        **{kind: {key: statistics.median(one[key] for one in many) for key in many[0]} for kind, many in found.items()},
        "lookups_per_second": round(statistics.median(one["answered"] for one in lookups) / (seconds + 1.0)),
        "lookups_refused": sum(one["refused"] for one in lookups),
        "lookups_shed": held.get("lookups_shed", 0),
    }


async def one_round(flush: object, watched: Publication, delays_ms: list[float], seconds: float) -> dict[str, float]:
    """Changes at a fixed rate: until each is acknowledged, and until it is pushed, in milliseconds."""
    assert callable(flush)
    delays_ms.clear()
    loop, acknowledged_ms = asyncio.get_running_loop(), list[float]()
    began = loop.time()
    for number in range(int(seconds * RATE)):
        await asyncio.sleep(max(0.0, began + number / RATE - loop.time()))
        sent = time.monotonic()
        watched.republish(str(sent))
        await flush()
        acknowledged_ms.append((time.monotonic() - sent) * 1e3)
    acknowledged, pushed = spread_of(acknowledged_ms), spread_of(delays_ms)
    return {
        "acknowledged_p50_ms": float(acknowledged["p50"]),
        "acknowledged_p99_ms": float(acknowledged["p99"]),
        "pushed_p50_ms": float(pushed["p50"]),
        "pushed_p99_ms": float(pushed["p99"]),
    }


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a round")
    given = parser.parse_args()
    # The process of the flood imports this file.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    size = ClusterSize(meta=1, data=1, session=1)
    with tempfile.TemporaryDirectory() as directory, LocalCluster(Path(directory), size) as cluster:
        print(json.dumps(run_async(measured(cluster, given.rounds, given.seconds)), indent=1))


if __name__ == "__main__":
    if len(sys.argv) > 2 and not sys.argv[1].startswith("-"):
        with contextlib.suppress(KeyboardInterrupt):
            run_async(flood(sys.argv[1], sys.argv[2:]))
    else:
        main()
