"""A cluster of real processes whose clients and operators are at work, for tests of what they may not notice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator

import slotreeve_transport_zmq
from slotreeve.errors import SlotreeveError, Unreachable
from slotreeve.ports import Transport
from slotreeve_client import Publication, Subscription
from slotreeve_client.administration import cluster_leader, put_config
from slotreeve_client.tools import open_client, tool_context
from slotreeve_harness.processes import LocalCluster
from slotreeve_protocol.meta_messages import LeaderIs

MOST_SECONDS = 2.0
"""Without a stored write of the meta state."""
SERVICES = [f"swap.Service{number}" for number in range(20)]
PAUSE_SECONDS = 0.01
A_TURN = 6
"""So many are published after each pause: about 500 a second, unless the machine is busy."""


class Traffic:
    """A provider that republishes all the time, and a consumer that must never see less than there is.

    Attributes:
        fewest: the lowest number of services that had an instance.
        rate: publishes a second, once :meth:`run` has ended.
    """

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self.publications: list[Publication] = []
        self.subscriptions: list[Subscription] = []
        self.fewest = len(SERVICES)
        self.rate = 0.0
        self._is_watching = False

    def _changed(self, _subscription: Subscription) -> None:
        if self._is_watching:
            self.fewest = min(self.fewest, sum(len(subscription.instances) for subscription in self.subscriptions))

    async def run(self, begun: asyncio.Event, ended: asyncio.Event) -> None:
        """Until ``ended``; then everything must be stored and seen."""
        addresses, name = self._cluster.session_addresses, self._cluster.name
        async with open_client(addresses, name) as provider, open_client(addresses, name) as consumer:
            self.publications = [provider.publish(service, "0") for service in SERVICES]
            await provider.flush()
            self.subscriptions = [consumer.subscribe(service, self._changed) for service in SERVICES]
            await asyncio.gather(*(subscription.ready() for subscription in self.subscriptions))
            self._is_watching = True
            begun.set()
            number, since = 0, time.monotonic()
            while not ended.is_set():
                for _ in range(A_TURN):
                    number += 1
                    self.publications[number % len(SERVICES)].republish(str(number))
                await asyncio.sleep(PAUSE_SECONDS)
            self.rate = number / (time.monotonic() - since)
            await provider.flush()
            wanted = [publication.data for publication in self.publications]
            async with asyncio.timeout(20):
                while [s.instances[0].data if s.instances else None for s in self.subscriptions] != wanted:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)


class Writer:
    """Writes one key of the meta state all the time; ``longest`` is the longest time without a stored write."""

    def __init__(self, cluster: LocalCluster, transport: Transport) -> None:
        self._cluster, self._transport = cluster, transport
        self.longest, self.version = 0.0, 0
        self.failures: list[str] = []

    async def run(self, ended: asyncio.Event) -> None:
        addresses, last = list(self._cluster.meta_addresses.values()), time.monotonic()
        number = 0
        while not ended.is_set():
            number += 1
            try:
                entry = await put_config(self._transport, self._cluster.name, addresses, "written", b"%d" % number)
            except SlotreeveError as error:
                self.failures.append(str(error))
                continue
            assert entry.version > self.version
            self.version = entry.version
            now = time.monotonic()
            self.longest, last = max(self.longest, now - last), now
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def under_load(cluster: LocalCluster) -> AsyncIterator[Transport]:
    """Wait until the cluster is ready, and publish until the end of the block. Then everything must be there, and must
    have been all the time. In the block: the transport of a tool."""
    transport = slotreeve_transport_zmq.build(slotreeve_transport_zmq.ZmqOptions(), tool_context())
    await cluster.ready(transport)
    begun, ended = asyncio.Event(), asyncio.Event()
    traffic = Traffic(cluster)
    running = asyncio.create_task(traffic.run(begun, ended))
    await begun.wait()
    yield transport
    ended.set()
    await running
    await transport.close()
    print(f"{traffic.rate:.0f} publishes a second, at least {traffic.fewest} of {len(SERVICES)} services seen")
    assert traffic.fewest == len(SERVICES)


@contextlib.asynccontextmanager
async def written_all_the_time(cluster: LocalCluster, transport: Transport, what: str) -> AsyncIterator[None]:
    """Write to the meta state until the end of the block. It must take writes all the time but for
    :data:`MOST_SECONDS`."""
    ended = asyncio.Event()
    writer = Writer(cluster, transport)
    writing = asyncio.create_task(writer.run(ended))
    yield
    ended.set()
    await writing
    print(f"{what}: no write for {writer.longest:.3f} s, failures {writer.failures}")
    assert writer.longest <= MOST_SECONDS


async def slotreeve(cluster: LocalCluster, *arguments: str) -> str:
    metas = [part for address in cluster.meta_addresses.values() for part in ("--meta", address)]
    command = [sys.executable, "-m", "slotreeve_cli", *arguments, "--cluster", cluster.name, *metas]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


async def configuration(cluster: LocalCluster) -> dict[str, str]:
    """Provided configuration and standing orders."""
    rows: list[dict[str, str]] = json.loads(await slotreeve(cluster, "provide", "get", "-o", "json"))
    return {row["key"]: row["value"] for row in rows}


async def leader(cluster: LocalCluster, transport: Transport, *metas: str) -> LeaderIs:
    """The leader, as one of these meta servers knows it, or any."""
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(Unreachable):  # none of them listens yet
                known = await cluster_leader(transport, cluster.name, metas or list(cluster.meta_addresses.values()))
                if known.leader is not None:
                    return known
            await asyncio.sleep(0.05)
