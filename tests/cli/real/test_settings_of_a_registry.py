"""Settings of processes that run, changed by commands."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from slotreeve_harness.processes import ClusterSize, LocalCluster

from tests.cli.real.registry_commands import command, ready

SOON = 20.0
PLACE = "session.push_window_seconds"


def rows(cluster: LocalCluster, name: str) -> list[Any]:
    """Waits until every server follows the newest table."""
    deadline = time.monotonic() + SOON
    while True:
        shown = command(cluster, "settings", "show", name, "-o", "json")
        if shown.returncode == 0 or time.monotonic() > deadline:
            assert shown.returncode == 0, shown.stderr
            found: list[Any] = json.loads(shown.stdout)
            return found


@pytest.mark.processes
def test_a_setting_is_changed_while_processes_run_survives_their_restart_and_is_unset(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, ClusterSize(3, 1, 1, 0), {"log.level": "warning"}) as cluster:
        asyncio.run(ready(cluster))
        (row,) = rows(cluster, PLACE)
        assert (row["value"], row["live"], row["origin"], row["servers"]) == (0.002, "no", "default", ["session-1"])
        tried = command(cluster, "settings", "set", PLACE, "0.25", "--dry-run")
        assert f"{PLACE} becomes 0.25 at session-1, where it is 0.002 (default)." in tried.stdout, tried.stderr
        assert f"It would be undone by: slotreeve settings unset {PLACE}" in tried.stdout
        assert rows(cluster, PLACE) == [row]
        done = json.loads(command(cluster, "settings", "set", PLACE, "0.25", "-o", "json").stdout)
        assert (done["done"], done["undo"]["command"]) == (True, f"slotreeve settings unset {PLACE}")
        level = command(cluster, "settings", "set", "log.level", "info")
        assert level.returncode == 0, level.stderr
        # A question writes what waits in memory; a killed leader would take the last half second with it.
        events = command(cluster, "events", "--kind", "configured", "-o", "json").stdout
        assert "the live settings are: log.level='info', session.push_window_seconds=0.25" in events, events
        for name in ("session-1", cluster_leader(cluster)):
            cluster.servers[name].kill()
            cluster.servers[name].start()
        asyncio.run(ready(cluster))
        said = "".join(server.tail(200) for server in cluster.servers.values())
        assert '"level": "info"' in said, said
        (row,) = rows(cluster, PLACE)
        assert (row["value"], row["live"], row["configured"]) == (0.25, "yes", 0.002)
        refused = command(cluster, "settings", "set", PLACE, "61")
        assert (refused.returncode, f"the setting {PLACE} is 61.0; expected 0 to 60" in refused.stderr) == (2, True)
        unset = command(cluster, "settings", "unset", PLACE)
        assert f"Undo: slotreeve settings set {PLACE} 0.25" in unset.stdout, unset.stderr
        (row,) = rows(cluster, PLACE)
        assert (row["value"], row["live"]) == (0.002, "no")
        levels = rows(cluster, "log.level")
        assert [(one["value"], one["configured"]) for one in levels] == [("info", "warning")]
        assert command(cluster, "settings", "show", "nothing").returncode == 3


def cluster_leader(cluster: LocalCluster) -> str:
    found = json.loads(command(cluster, "leader", "-o", "json").stdout)
    return str(found[0]["leader"])
