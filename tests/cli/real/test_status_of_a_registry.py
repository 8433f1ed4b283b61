"""Whether a registry is well, and what a plugin would do with its table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from slotreeve_client import ClientOptions
from slotreeve_client.threads import connect_blocking
from slotreeve_client.tools import run_async
from slotreeve_harness.processes import ClusterSize, LocalCluster

from tests.cli.real.registry_commands import command, ready

pytestmark = pytest.mark.processes


def until_well(cluster: LocalCluster) -> None:
    """Servers that have just come get slots, and copy them."""
    for _ in range(100):
        done = command(cluster, "status")
        if done.returncode == 0:
            return
    pytest.fail(done.stdout)


def test_a_server_that_dies_is_named_and_the_table_can_be_planned_with(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, ClusterSize(1, 3, 1)) as cluster:
        run_async(ready(cluster))
        until_well(cluster)
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


def test_a_server_is_drained_and_the_order_is_undone(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, ClusterSize(1, 3, 1)) as cluster:
        run_async(ready(cluster))
        until_well(cluster)
        tried = command(cluster, "drain", "data-2", "--dry-run")
        assert (tried.returncode, "which 2 others take over" in tried.stdout) == (0, True), tried.stderr
        assert json.loads(command(cluster, "status", "-o", "json").stdout)["well"]
        done = command(cluster, "drain", "data-2")
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == "data-2 holds nothing any more; slotreeve admin unban data-2 undoes it"
        said = json.loads(command(cluster, "status", "-o", "json").stdout)
        assert said["problems"] == ["data-2 is not well: banned."]
        (row,) = (row for row in said["servers"] if row["name"] == "data-2")
        assert (row["leads"], row["follows"]) == (0, 0)
        assert command(cluster, "admin", "unban", "data-2").returncode == 0
        until_well(cluster)
        nobody = command(cluster, "drain", "data-9")
        assert (nobody.returncode, nobody.stderr) == (
            3,
            "data-9 is no member; members are data-1, data-2, data-3, session-1\n",
        )
        alone = command(cluster, "drain", "session-1")
        assert (alone.returncode, "is the only session server that may" in alone.stderr) == (1, True)


def test_the_clients_of_a_session_server_that_is_drained_move_away(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, ClusterSize(1, 1, 2)) as cluster:
        run_async(ready(cluster))
        addresses = [cluster.servers[name].address for name in ("session-1", "session-2")]
        with connect_blocking(*addresses, options=ClientOptions(cluster=cluster.name)) as client:
            client.publish("a.Service", "x").acknowledged(30)
            listed = json.loads(command(cluster, "clients", "-o", "json").stdout)
            server = next(row["server"] for row in listed if row["records"])
            done = command(cluster, "drain", server)
            assert done.returncode == 0, done.stderr
            listed = json.loads(command(cluster, "clients", "-o", "json").stdout)
            assert {row["server"] for row in listed} == {"session-1", "session-2"} - {server}
