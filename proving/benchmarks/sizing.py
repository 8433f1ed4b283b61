"""What a server needs for each client, registration and subscription: memory and processor time.

``python proving/benchmarks/sizing.py`` prints JSON. A cluster of 1 meta, 2 data and 1 session server; each stage adds
one kind of thing, and what the servers have more afterwards is divided by how many were added. docs/sizing.md has the
formula that these figures go into.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
from slotreeve.model.nodes import Role
from slotreeve_client import Client
from slotreeve_client.tools import open_client, open_transport, run_async
from slotreeve_harness.processes import ClusterSize, LocalCluster

QUIET_SECONDS = 10.0
PAYLOAD = b"x" * 200
CONSUMERS = 50
"""Clients that share the subscriptions, each to the same services."""


class Use:
    """Memory in bytes and processor seconds of the servers of a role, together."""

    def __init__(self, cluster: LocalCluster, role: Role) -> None:
        self._processes = [psutil.Process(server.pid) for server in cluster.of(role)]

    def memory(self) -> int:
        """Private memory of the processes."""
        return sum(process.memory_full_info().uss for process in self._processes)

    def seconds(self) -> float:
        """Processor time so far."""
        return sum(sum(process.cpu_times()[:2]) for process in self._processes)


async def measured(cluster: LocalCluster, clients: int, registrations: int, subscriptions: int) -> dict[str, float]:
    """The figures."""
    transport = open_transport(cluster.transport)
    await cluster.ready(transport)
    await transport.close()
    uses = {role: Use(cluster, role) for role in (Role.META, Role.DATA, Role.SESSION)}
    found: dict[str, float] = {
        f"{role}_server_mb": round(use.memory() / len(cluster.of(role)) / 1e6, 1) for role, use in uses.items()
    }

    many = [open_client(cluster.session_addresses, cluster.name) for _ in range(clients)]
    before = uses[Role.SESSION].memory()
    await asyncio.gather(*(client.list("com.example.nothing") for client in many))
    found["session_bytes_per_client"] = round((uses[Role.SESSION].memory() - before) / clients)
    spent, began = uses[Role.SESSION].seconds(), time.monotonic()
    await asyncio.sleep(QUIET_SECONDS)
    share = (uses[Role.SESSION].seconds() - spent) / (time.monotonic() - began)
    found["session_processor_us_per_client_second"] = round(share / clients * 1e6, 1)
    await _close(many)

    async with open_client(cluster.session_addresses, cluster.name) as provider:
        before_session, before_data = uses[Role.SESSION].memory(), uses[Role.DATA].memory()
        publications = [provider.publish(f"com.example.S{number}", PAYLOAD) for number in range(registrations)]
        await provider.flush()
        await asyncio.sleep(QUIET_SECONDS)
        found["session_bytes_per_registration"] = round((uses[Role.SESSION].memory() - before_session) / registrations)
        # Two copies: each data server has half of the registrations twice.
        found["data_bytes_per_copy"] = round((uses[Role.DATA].memory() - before_data) / registrations / 2)
        before_publishes = {role: use.seconds() for role, use in uses.items()}
        for publication in publications:
            publication.republish(PAYLOAD)
        await provider.flush()
        for role in (Role.SESSION, Role.DATA):
            each = (uses[role].seconds() - before_publishes[role]) / registrations
            found[f"{role}_processor_us_per_publish"] = round(each * 1e6, 1)

        consumers = [open_client(cluster.session_addresses, cluster.name) for _ in range(CONSUMERS)]
        await asyncio.gather(*(consumer.list("com.example.nothing") for consumer in consumers))
        before, each = uses[Role.SESSION].memory(), subscriptions // CONSUMERS
        watched = [one.subscribe(f"com.example.S{number}") for one in consumers for number in range(each)]
        await asyncio.gather(*(one.ready() for one in watched))
        found["session_bytes_per_subscription"] = round((uses[Role.SESSION].memory() - before) / len(watched))
        spent = uses[Role.SESSION].seconds()
        for publication in publications[:each]:
            publication.republish(PAYLOAD + b"!")
        await provider.flush()
        await asyncio.sleep(QUIET_SECONDS)
        used = uses[Role.SESSION].seconds() - spent - share * QUIET_SECONDS * CONSUMERS / clients
        pushed = used - each * found["session_processor_us_per_publish"] / 1e6
        found["session_processor_us_per_push"] = round(pushed / len(watched) * 1e6, 1)
        await _close(consumers)
    return found


async def _close(clients: Sequence[Client]) -> None:
    await asyncio.gather(*(client.close() for client in clients))


def main() -> None:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=1_000)
    parser.add_argument("--registrations", type=int, default=100_000)
    parser.add_argument("--subscriptions", type=int, default=50_000)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        LocalCluster(Path(directory) / "cluster", ClusterSize(1, 2, 1)) as cluster,
    ):
        figures = run_async(measured(cluster, given.clients, given.registrations, given.subscriptions))
    print(json.dumps({"clients": given.clients, "registrations": given.registrations, **figures}, indent=1))


if __name__ == "__main__":
    main()
