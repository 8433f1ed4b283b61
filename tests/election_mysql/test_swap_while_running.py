"""The election of a running cluster of real processes goes over from FLE to real databases and back, under load."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest
import slotreeve_transport_zmq
from slotreeve.errors import SlotreeveError
from slotreeve.model.nodes import Role
from slotreeve.ports import Transport
from slotreeve_client.administration import cluster_view, put_config
from slotreeve_client.election_swap import all_use
from slotreeve_client.tools import tool_context
from slotreeve_harness.processes import ClusterSize, LocalCluster
from slotreeve_harness.sql_backends import TIMES, fresh_tables

from tests.election_mysql.conftest import shared_server
from tests.election_mysql.test_another_election import Traffic, configuration, slotreeve

pytestmark = [pytest.mark.processes, pytest.mark.timed]

MOST_SECONDS = 2.0


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


def options(directory: Path) -> dict[str, object]:
    databases: dict[str, dict[str, object]] = {
        dialect: {**TIMES, **fresh_tables(), "dsn": shared_server(dialect).dsn()} for dialect in ("postgres", "mysql")
    }
    found = {f"election.{name}.{key}": value for name, of in databases.items() for key, value in of.items()}
    return {**found, "election.fle.data_dir": str(directory / "{node}.state")}


@pytest.mark.timeout(300)
def test_a_running_cluster_goes_over_to_each_election_and_nothing_is_lost(tmp_path: Path) -> None:
    async def main(cluster: LocalCluster) -> None:
        transport = slotreeve_transport_zmq.build(slotreeve_transport_zmq.ZmqOptions(), tool_context())
        await cluster.ready(transport)
        begun, ended = asyncio.Event(), asyncio.Event()
        traffic = Traffic(cluster)
        running = asyncio.create_task(traffic.run(begun, ended))
        await begun.wait()
        metas = list(cluster.meta_addresses.values())
        await slotreeve(cluster, "provide", "put", "limits.rate", "100")
        await slotreeve(cluster, "admin", "client-off", "10.0.0.9")
        for use in ("postgres", "mysql", "fle"):
            before, view = await configuration(cluster), await cluster_view(transport, cluster.name, metas)
            swapped = asyncio.Event()
            writer = Writer(cluster, transport)
            writing = asyncio.create_task(writer.run(swapped))
            (row,) = json.loads(await slotreeve(cluster, "election", "swap", "--to", use, "-o", "json"))
            swapped.set()
            await writing
            print(f"{row['from']} -> {use}: no write for {writer.longest:.3f} s, failures {writer.failures}, {row}")
            assert writer.longest <= MOST_SECONDS
            after = await configuration(cluster)
            assert {key: value for key, value in after.items() if key != "written"} == {
                key: value for key, value in before.items() if key != "written"
            }
            assert (await cluster_view(transport, cluster.name, metas)).table == view.table
            cluster.servers["meta-1"].kill()  # its configuration still says fle
            cluster.servers["meta-1"].start()
            assert len(await all_use(transport, cluster.name, metas, use)) == len(metas)
            rows = json.loads(await slotreeve(cluster, "election", "in-use", "-o", "json"))
            assert {(row["uses"], row["configured"]) for row in rows} == {(use, "fle")}
        cluster.servers["data-1"].kill()
        cluster.servers["data-1"].start()
        await cluster.ready(transport)
        ended.set()
        await running
        await transport.close()
        print(f"{traffic.rate:.0f} publishes a second, at least {traffic.fewest} of {len(traffic.publications)} seen")
        assert traffic.fewest == len(traffic.publications)

    size = ClusterSize(meta=3, data=3, session=2)
    with LocalCluster(tmp_path / "cluster", size, options(tmp_path / "cluster")) as cluster:
        asyncio.run(main(cluster))
        assert all(server.is_running for server in cluster.of(Role.META))
