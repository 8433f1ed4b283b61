"""The election of a running cluster of real processes goes over from FLE to real databases and back, under load."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from slotreeve.model.nodes import Role
from slotreeve_chaos.sql_backends import TIMES, fresh_tables
from slotreeve_client.administration import cluster_view
from slotreeve_client.election_swap import all_use
from slotreeve_harness.processes import ClusterSize, LocalCluster

from tests.election_mysql.conftest import shared_server
from tests.processes.under_load import configuration, slotreeve, under_load, written_all_the_time

pytestmark = [pytest.mark.processes, pytest.mark.timed]


def options(directory: Path) -> dict[str, object]:
    databases: dict[str, dict[str, object]] = {
        dialect: {**TIMES, **fresh_tables(), "dsn": shared_server(dialect).dsn()} for dialect in ("postgres", "mysql")
    }
    found = {f"election.{name}.{key}": value for name, of in databases.items() for key, value in of.items()}
    return {**found, "election.fle.data_dir": str(directory / "{node}.state")}


@pytest.mark.timeout(300)
def test_a_running_cluster_goes_over_to_each_election_and_nothing_is_lost(tmp_path: Path) -> None:
    async def main(cluster: LocalCluster) -> None:
        async with under_load(cluster) as transport:
            metas = list(cluster.meta_addresses.values())
            await slotreeve(cluster, "provide", "put", "limits.rate", "100")
            await slotreeve(cluster, "admin", "client-off", "10.0.0.9")
            for use in ("postgres", "mysql", "fle"):
                before, view = await configuration(cluster), await cluster_view(transport, cluster.name, metas)
                async with written_all_the_time(cluster, transport, f"swap to {use}"):
                    (row,) = json.loads(await slotreeve(cluster, "election", "swap", "--to", use, "-o", "json"))
                assert row["to"] == use
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

    size = ClusterSize(meta=3, data=3, session=2)
    with LocalCluster(tmp_path / "cluster", size, options(tmp_path / "cluster")) as cluster:
        asyncio.run(main(cluster))
        assert all(server.is_running for server in cluster.of(Role.META))
