"""A new cluster that is forced from what one server has left, with processes."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from pathlib import Path

import pytest
from slotreeve_client.administration import cluster_leader, cluster_view
from slotreeve_election_fle.left_directory import SKIPPED_EPOCHS
from slotreeve_harness.processes import ClusterSize, LocalCluster

from tests.election_fle.test_force_new_cluster import forced
from tests.processes.under_load import configuration, leader, slotreeve, under_load


@pytest.mark.processes
@pytest.mark.timeout(200)
def test_a_cluster_that_has_lost_two_of_three_directories_goes_on_and_no_registration_is_lost(tmp_path: Path) -> None:
    async def main(cluster: LocalCluster) -> None:
        async with under_load(cluster) as transport:
            await slotreeve(cluster, "provide", "put", "limits.rate", "100")
            await slotreeve(cluster, "admin", "client-off", "10.0.0.9")
            metas = list(cluster.meta_addresses.values())
            before, view = await configuration(cluster), await cluster_view(transport, cluster.name, metas)
            old = await leader(cluster, transport)
            state = {name: tmp_path / "cluster" / f"{name}.state" for name in cluster.meta_addresses}
            survivor, late, lost = sorted(state, key=lambda name: name == old.leader)

            for name in (late, lost):
                cluster.servers[name].kill()
            shutil.copytree(state[late], tmp_path / "late")
            for name in (late, lost):
                shutil.rmtree(state[name])
            in_use = await asyncio.to_thread(forced, state[survivor], "--yes")
            assert "stop its meta server" in str(in_use.exception)
            cluster.servers[survivor].kill()
            done = await asyncio.to_thread(forced, state[survivor], "--yes", "-o", "json")
            assert done.exit_code == 0, done.output
            (row,) = json.loads(done.stdout)
            assert row["accepted epoch"] >= old.term
            shutil.copytree(state[survivor], state[lost])
            for name in (survivor, lost):
                cluster.servers[name].start()
            new = await leader(cluster, transport)
            assert new.term > old.term + SKIPPED_EPOCHS
            await cluster.ready(transport)
            assert await configuration(cluster) == before
            assert (await cluster_view(transport, cluster.name, metas)).table == view.table

            shutil.copytree(tmp_path / "late", state[late])  # an old member comes back
            cluster.servers[late].start()
            await asyncio.to_thread(wait_for_line, cluster.servers[late].log, "from before slotreeve election force")
            await slotreeve(cluster, "provide", "put", "limits.rate", "200")
            assert (await leader(cluster, transport)).term == new.term
            assert (await cluster_leader(transport, cluster.name, [cluster.meta_addresses[late]])).leader is None
            cluster.servers[late].kill()
            shutil.rmtree(state[late])
            cluster.servers[late].start()  # with an empty directory, as its message says
            other = survivor if new.leader == lost else lost
            await leader(cluster, transport, cluster.meta_addresses[late])
            cluster.servers[other].kill()
            await slotreeve(cluster, "provide", "put", "limits.rate", "300")  # it counts
            cluster.servers["data-1"].kill()
            cluster.servers["data-1"].start()
            await cluster.ready(transport)

    with LocalCluster(tmp_path / "cluster", ClusterSize(meta=3, data=3, session=2)) as cluster:
        asyncio.run(main(cluster))


def wait_for_line(log: Path, text: str) -> None:
    until = time.monotonic() + 20
    while text not in log.read_text():
        assert time.monotonic() < until, log.read_text()[-2000:]
        time.sleep(0.1)
