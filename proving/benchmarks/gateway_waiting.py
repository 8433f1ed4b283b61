"""What callers that wait cost a gateway: blocking queries of Consul's clients, as JSON.

    python proving/benchmarks/gateway_waiting.py [--waiting 10000] [--woken 1000] [--changes 10] [--rounds 8]

A gateway process of a cluster of 3 meta, 3 data and 2 session processes holds ``--waiting`` open queries. ``--woken``
of them are for one service, which then changes again and again; the others are for another one, which does not change.

* ``bytes_per_waiting``: memory of the gateway's process (RSS) for each open query, with its connection.
* ``wake_ms``: from the change's request until the last of the woken callers has its whole answer.
* ``first_ms``: until the first of them has.
* ``beside``: the cluster's own figures, ``--rounds`` times without and with ``--waiting`` open queries, one after the
  other: acknowledged publishes a second of a client of the SDK, and from its publishing to a subscriber's callback.
  ``ratio`` is that of the medians, with to without.

This process, the gateway's and the cluster's share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import resource
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import psutil
import slotreeve_client
from slotreeve.model.nodes import Role
from slotreeve_bench.latency import measure_latency
from slotreeve_client import Publication
from slotreeve_client.tools import open_transport, run_async
from slotreeve_harness.figures import spread_of
from slotreeve_harness.processes import ClusterSize, LocalCluster

QUIET, BUSY = "com.example.Quiet", "com.example.Busy"
OPENED_AT_ONCE = 100
SETTLE_SECONDS = 2.0
PUBLISHED, PAYLOAD = 20_000, "x" * 200
LATENCY_SECONDS = 5.0
HEADERS = "Host: gateway\r\nUser-Agent: Consul api client\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\n"


class Caller(asyncio.Protocol):
    """One connection with one query at a time. It looks at no more of an answer than it must."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._answer = b""
        self._answered: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None
        self.index = 0
        self.answered_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by class

    def ask(self, index: int) -> asyncio.Future[bytes]:
        """Send a query; the result is the answer."""
        assert self._transport is not None
        self._answered = asyncio.get_running_loop().create_future()
        path = f"/v1/health/service/{self._service}?index={index}&wait=10m"
        self._transport.write(f"GET {path} HTTP/1.1\r\n{HEADERS}\r\n".encode())
        return self._answered

    def close(self) -> None:
        """End the connection."""
        assert self._transport is not None
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, end, body = self._answer.partition(b"\r\n\r\n")
        if not end or self._answered is None:
            return
        fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:])
        if len(body) < int(fields[b"content-length"]):
            return
        assert head.startswith(b"HTTP/1.1 200"), self._answer
        self.index, self.answered_at = int(fields[b"x-consul-index"]), time.perf_counter()
        self._answer = b""
        self._answered.set_result(body)


async def connect(address: str, service: str) -> Caller:
    host, _, port = address.rpartition(":")
    _, caller = await asyncio.get_running_loop().create_connection(lambda: Caller(service), host, int(port))
    return caller


async def callers(address: str, service: str, count: int) -> list[Caller]:
    """So many connections whose queries wait."""
    found: list[Caller] = []
    while len(found) < count:
        part = min(OPENED_AT_ONCE, count - len(found))
        found += await asyncio.gather(*(connect(address, service) for _ in range(part)))
    await asyncio.gather(*(caller.ask(0) for caller in found[:1]))
    for caller in found:
        caller.ask(found[0].index)
    return found


async def measure(cluster: LocalCluster, arguments: argparse.Namespace) -> dict[str, object]:
    """What the waiting callers cost."""
    (server,) = cluster.of(Role.GATEWAY)
    gateway, address = psutil.Process(server.pid), server.address
    options = slotreeve_client.ClientOptions(cluster=cluster.name)
    async with slotreeve_client.connect(*cluster.session_addresses, options=options) as client:
        await client.leases.register(QUIET, "quiet", "x", ttl_seconds=3600)
        await (await connect(address, QUIET)).ask(0)
        before = gateway.memory_info().rss
        quiet = await callers(address, QUIET, arguments.waiting - arguments.woken)
        busy = await callers(address, BUSY, arguments.woken)
        await asyncio.sleep(SETTLE_SECONDS)
        after = gateway.memory_info().rss
        wakes, firsts = [], []
        for number in range(arguments.changes):
            answers = [caller._answered for caller in busy if caller._answered is not None]
            instance = slotreeve_client.Instance("10.0.0.1", 8080 + number, id="busy")
            began = time.perf_counter()
            publication = client.register(BUSY, instance)
            await asyncio.gather(*answers)
            firsts.append(1000 * (min(caller.answered_at for caller in busy) - began))
            wakes.append(1000 * (max(caller.answered_at for caller in busy) - began))
            for caller in busy:
                caller.ask(caller.index)
            gone = [caller._answered for caller in busy if caller._answered is not None]
            await asyncio.sleep(SETTLE_SECONDS / 4)
            publication.unpublish()
            await asyncio.gather(*gone)
            for caller in busy:
                caller.ask(caller.index)
            await asyncio.sleep(SETTLE_SECONDS / 4)
        assert not any(caller.answered_at for caller in quiet[1:]), "nobody asked for them"
        for caller in (*quiet, *busy):
            caller.close()
        return {
            "bytes_per_waiting": round((after - before) / arguments.waiting),
            "wake_ms": spread_of(wakes),
            "first_ms": spread_of(firsts),
        }


async def measure_beside(cluster: LocalCluster, arguments: argparse.Namespace) -> dict[str, object]:
    """The cluster's own figures without and with the waiting callers."""
    (server,) = cluster.of(Role.GATEWAY)
    rates: dict[str, list[float]] = {"without": [], "with": []}
    typical: dict[str, list[float]] = {"without": [], "with": []}
    options = slotreeve_client.ClientOptions(cluster=cluster.name)
    async with slotreeve_client.connect(*cluster.session_addresses, options=options) as client:
        await client.leases.register(QUIET, "quiet", "x", ttl_seconds=3600)
        publications = [client.publish(f"bench.beside.{number}", PAYLOAD) for number in range(PUBLISHED)]
        await client.flush()
        for number in range(2 * arguments.rounds):
            which = "with" if (number + 1) // 2 % 2 else "without"  # A B B A A B B A
            waiting = await callers(server.address, QUIET, arguments.waiting) if which == "with" else []
            await asyncio.sleep(SETTLE_SECONDS)
            rates[which].append(await _publishes_per_second(client, publications, number))
            latency = await measure_latency(cluster, seconds=LATENCY_SECONDS)
            typical[which].append(cast(dict[str, float], latency["latency_ms"])["p50"])
            for caller in waiting:
                caller.close()
    return {"publishes_per_second": _compared(rates), "latency_p50_ms": _compared(typical)}


async def _publishes_per_second(
    client: slotreeve_client.Client, publications: Sequence[Publication], number: int
) -> float:
    began = time.perf_counter()
    for publication in publications:
        publication.republish(f"{number}{PAYLOAD}")
    await client.flush()
    return len(publications) / (time.perf_counter() - began)


def _compared(figures: dict[str, list[float]]) -> dict[str, object]:
    ratio = statistics.median(figures["with"]) / statistics.median(figures["without"])
    return {name: [round(value, 3) for value in values] for name, values in figures.items()} | {
        "ratio": round(ratio, 3)
    }


async def measure_all(arguments: argparse.Namespace, directory: Path) -> dict[str, object]:
    """All figures, on one cluster."""
    with LocalCluster(directory, ClusterSize(gateway=1), {"face.use": "consul"}) as cluster:
        transport = open_transport(cluster.transport)
        await cluster.ready(transport)
        await transport.close()
        return await measure(cluster, arguments) | {"beside": await measure_beside(cluster, arguments)}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--woken", type=int, default=1_000)
    parser.add_argument("--changes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=8)
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with tempfile.TemporaryDirectory() as directory:
        results = run_async(measure_all(arguments, Path(directory)))
    machine = {"processors": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()}
    print(json.dumps({"machine": machine, "parameters": vars(arguments), "results": results}, indent=1))


if __name__ == "__main__":
    main()
