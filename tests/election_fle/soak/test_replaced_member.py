"""A dead meta server of a running cluster of real processes is replaced at another address, under load."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from slotreeve.model.nodes import Role
from slotreeve.ports import Transport
from slotreeve_client.administration import cluster_view
from slotreeve_harness.free_ports import free_address
from slotreeve_harness.processes import ClusterSize, LocalCluster, ServerProcess
from slotreeve_protocol.meta_messages import View

from tests.processes.under_load import configuration, leader, slotreeve, under_load, written_all_the_time

pytestmark = [pytest.mark.processes, pytest.mark.timed]

MOST_SECONDS = 2.0


def elsewhere(cluster: LocalCluster, name: str, state: Path) -> ServerProcess:
    """A server under this name at a free address, with a configuration of its own."""
    old = cluster.servers[name]
    address = free_address()
    flags = {"cluster.meta." + name: address, "node.advertise": address, "election.fle.data_dir": str(state)}
    flags |= {"election.fle.moved": "true"}
    command = [*old.command, *(part for key, value in flags.items() for part in ("--set", f"{key}={value}"))]
    return ServerProcess(Role.META, name, address, command, old.log.with_suffix(".elsewhere.log"))


async def members(cluster: LocalCluster) -> dict[str, dict[str, object]]:
    metas = [part for address in cluster.meta_addresses.values() for part in ("--meta", address)]
    command = [sys.executable, "-m", "slotreeve_cli", "election", "members", "list", "-o", "json"]
    command += ["--cluster", cluster.name, *metas]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    rows: list[dict[str, object]] = json.loads(done.stdout)
    assert done.returncode == (0 if all(row["leader"] for row in rows) else 1)
    return {str(row["member"]): row for row in rows}


async def all_take_part(cluster: LocalCluster, name: str, address: str) -> None:
    async with asyncio.timeout(20):
        while True:
            rows = await members(cluster)
            if rows[name]["address"] == address and all(row["leader"] for row in rows.values()):
                return


async def until_it_leads(cluster: LocalCluster, name: str) -> None:
    async with asyncio.timeout(30):
        while (await members(cluster))[name]["leader"] != name:
            with contextlib.suppress(AssertionError):  # there may be no leader at this moment
                await slotreeve(cluster, "election", "resign")


async def until_it_is_a_member(cluster: LocalCluster, transport: Transport, name: str, before: View) -> None:
    """The leader has taken the new process of a data server, so data servers find the leader."""
    old = {node.process_id for node in before.data}
    async with asyncio.timeout(30):
        while True:
            view = await cluster_view(transport, cluster.name, list(cluster.meta_addresses.values()))
            if any(node.name == name and node.process_id not in old for node in view.data):
                return
            await asyncio.sleep(0.1)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", ["meta-1"])
def test_a_dead_meta_server_is_replaced_on_another_machine_while_the_cluster_runs(tmp_path: Path, name: str) -> None:
    async def main(cluster: LocalCluster) -> None:
        async with under_load(cluster) as transport:
            await slotreeve(cluster, "provide", "put", "limits.rate", "100")
            metas = list(cluster.meta_addresses.values())
            view = await cluster_view(transport, cluster.name, metas)

            new = elsewhere(cluster, name, tmp_path / "cluster" / f"{name}.elsewhere")
            try:
                async with written_all_the_time(cluster, transport, f"{name} replaced"):
                    cluster.servers[name].kill()
                    shutil.rmtree(tmp_path / "cluster" / f"{name}.state")
                    before = await leader(cluster, transport)
                    new.start()
                    await all_take_part(cluster, name, new.address)
                    assert await leader(cluster, transport) == before  # nobody was disturbed
                assert (await cluster_view(transport, cluster.name, metas)).table == view.table

                # It is needed for a quorum, and leads; all other servers have its old address in their configuration.
                other, gone = sorted(set(cluster.meta_addresses) - {name}, key=lambda each: each == before.leader)
                cluster.servers[gone].kill()
                await until_it_leads(cluster, name)
                assert (await configuration(cluster))["limits.rate"] == "100"
                cluster.servers["data-1"].kill()
                cluster.servers["data-1"].start()
                await until_it_is_a_member(cluster, transport, "data-1", view)
                await cluster.ready(transport)
                assert (await leader(cluster, transport)).leader == name
                cluster.servers[gone].start()
                await all_take_part(cluster, name, new.address)
                cluster.servers[other].kill()
                cluster.servers[other].start()  # with the old configuration
                await all_take_part(cluster, name, new.address)
            finally:
                new.stop()

    with LocalCluster(tmp_path / "cluster", ClusterSize(meta=3, data=3, session=2)) as cluster:
        asyncio.run(main(cluster))
