"""Whether a registry is well, and what a plugin would do with its table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from slotreeve_client.tools import open_transport, run_async
from slotreeve_harness.processes import ClusterSize, LocalCluster

pytestmark = pytest.mark.processes


def command(cluster: LocalCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    asked = {
        "SLOTREEVE_META": ",".join(cluster.meta_addresses.values()),
        "SLOTREEVE_CLUSTER": cluster.name,
        "COLUMNS": "120",
    }
    return subprocess.run(
        [sys.executable, "-m", "slotreeve_cli", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **asked},
        timeout=60,
        check=False,
    )


async def ready(cluster: LocalCluster) -> None:
    transport = open_transport(cluster.transport)
    await cluster.ready(transport)
    await transport.close()


def test_a_server_that_dies_is_named_and_the_table_can_be_planned_with(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, ClusterSize(1, 3, 1)) as cluster:
        run_async(ready(cluster))
        well = command(cluster, "status")
        assert (well.returncode, well.stdout.splitlines()[0]) == (0, "The cluster is well."), well.stdout + well.stderr
        planned = command(cluster, "plan", "converge", "--plugin", "even", "--live", "-o", "table")
        assert "slots and follows" in planned.stdout, planned.stderr
        cluster.servers["data-2"].kill()
        for _ in range(100):
            said = json.loads(command(cluster, "status", "-o", "json").stdout)
            if said["problems"] and "left at" in said["problems"][0]:
                break
        assert not said["well"]
        assert said["problems"][0].startswith("data server data-2 left at ")
        assert said["problems"][0].endswith(" UTC: connection lost.")
        assert {row["name"] for row in said["servers"]} == {"meta-1", "data-1", "data-3", "session-1"}
        assert command(cluster, "status").returncode == 1
