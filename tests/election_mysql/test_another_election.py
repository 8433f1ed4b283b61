"""One word swaps the election: the steps of docs/choosing-an-election.md, on real processes and real databases."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import slotreeve_transport_zmq
from slotreeve.model.nodes import Role
from slotreeve.ports import Transport
from slotreeve_client import Publication, Subscription
from slotreeve_client.tools import open_client, tool_context
from slotreeve_harness.processes import ClusterSize, LocalCluster
from slotreeve_harness.sql_backends import TIMES, fresh_tables
from slotreeve_protocol.orders import ORDERS_KEY

from tests.election_mysql.conftest import shared_server

pytestmark = pytest.mark.processes

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


@pytest.mark.timeout(300)
def test_one_word_swaps_the_election_and_nothing_is_lost(tmp_path: Path) -> None:
    databases: dict[str, dict[str, object]] = {
        dialect: {**TIMES, **fresh_tables(), "dsn": shared_server(dialect).dsn()} for dialect in ("postgres", "mysql")
    }
    options = {f"election.{name}.{key}": value for name, of in databases.items() for key, value in of.items()}

    async def swap(cluster: LocalCluster, transport: Transport, use: str) -> None:
        """The steps of the documentation."""
        file = str(tmp_path / f"before-{use}.json")
        await slotreeve(cluster, "snapshot", "save", file)
        for server in cluster.of(Role.META):
            server.signal_stop()
        for server in cluster.of(Role.META):
            await asyncio.to_thread(server.stop)
        cluster.configure(Role.META, {"election.use": use})
        for server in cluster.of(Role.META):
            server.start()
        await cluster.ready(transport)
        await slotreeve(cluster, "snapshot", "restore", file, "--yes", "--delete-extra")

    async def main(cluster: LocalCluster) -> None:
        transport = slotreeve_transport_zmq.build(slotreeve_transport_zmq.ZmqOptions(), tool_context())
        await cluster.ready(transport)
        begun, ended = asyncio.Event(), asyncio.Event()
        traffic = Traffic(cluster)
        running = asyncio.create_task(traffic.run(begun, ended))
        await begun.wait()
        await slotreeve(cluster, "provide", "put", "limits.rate", "100")
        await slotreeve(cluster, "admin", "client-off", "10.0.0.9")
        before = await configuration(cluster)
        for use in ("postgres", "mysql", "fle"):
            await swap(cluster, transport, use)
            assert await configuration(cluster) == before
            cluster.servers["data-1"].kill()  # the new leader must be followed: it gives the slots to others
            cluster.servers["data-1"].start()
            await cluster.ready(transport)
            await slotreeve(cluster, "provide", "put", f"after.{use}", "1")
            before = await configuration(cluster)
        ended.set()
        await running
        await transport.close()
        assert before.keys() == {"limits.rate", ORDERS_KEY, "after.postgres", "after.mysql", "after.fle"}
        assert traffic.fewest == len(SERVICES)

    with LocalCluster(tmp_path / "cluster", ClusterSize(meta=3, data=3, session=2), options) as cluster:
        asyncio.run(main(cluster))
