"""A running cluster of real processes gets two more meta servers as members, and then loses two of the first ones."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from slotreeve.model.nodes import Role
from slotreeve_client.administration import cluster_view
from slotreeve_client.election_swap import all_use
from slotreeve_harness.processes import ClusterSize, LocalCluster

from tests.processes.under_load import configuration, leader, slotreeve, under_load, written_all_the_time

pytestmark = [pytest.mark.processes, pytest.mark.timed]

NEXT = "fle-of-five"


def with_five(directory: Path) -> dict[str, object]:
    """The file of docs/operating.md, "Other meta servers", as settings."""
    return {
        "election.fle.members": json.dumps(["meta-1", "meta-2", "meta-3"]),
        f"election.{NEXT}.plugin": "fle",
        f"election.{NEXT}.data_dir": str(directory / "{node}-of-five"),
        f"election.{NEXT}.port_shift": -1,
        f"election.{NEXT}.members": json.dumps([f"meta-{number}" for number in range(1, 6)]),
    }


@pytest.mark.timeout(240)
def test_two_meta_servers_are_added_under_load_and_two_of_the_first_may_die_then(tmp_path: Path) -> None:
    async def main(cluster: LocalCluster) -> None:
        async with under_load(cluster) as transport:
            await slotreeve(cluster, "provide", "put", "limits.rate", "100")
            first = list(cluster.meta_addresses)
            view = await cluster_view(transport, cluster.name, list(cluster.meta_addresses.values()))

            added = [cluster.add_meta(name) for name in ("meta-4", "meta-5")]
            cluster.configure(Role.META, with_five(cluster.directory))
            for name in first:
                cluster.servers[name].stop()
                cluster.servers[name].start()
                await all_use(transport, cluster.name, [cluster.meta_addresses[each] for each in first], "fle")
            for server in added:
                server.start()
            metas = list(cluster.meta_addresses.values())
            await all_use(transport, cluster.name, metas, "fle")
            await slotreeve(cluster, "election", "swap", "--to", NEXT, "--dry-run")
            async with written_all_the_time(cluster, transport, "five members"):
                await slotreeve(cluster, "election", "swap", "--to", NEXT)
            assert (await cluster_view(transport, cluster.name, metas)).table == view.table

            for name in first[:2]:  # of the first three, one is left
                cluster.servers[name].kill()
            assert (await leader(cluster, transport)).leader not in first[:2]
            await slotreeve(cluster, "provide", "put", "limits.rate", "200")
            assert (await configuration(cluster))["limits.rate"] == "200"

    with LocalCluster(tmp_path / "cluster", ClusterSize(meta=3, data=2, session=2)) as cluster:
        asyncio.run(main(cluster))
