"""Three in the morning: what happened is found by commands, on real processes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from slotreeve_client import ClientOptions
from slotreeve_client.threads import connect_blocking
from slotreeve_client.tools import run_async
from slotreeve_harness.processes import ClusterSize, LocalCluster

from tests.cli.real.registry_commands import command, ready

pytestmark = pytest.mark.processes
SERVICE = "com.example.Greeter"


def until_told(cluster: LocalCluster, wanted: str, *arguments: str) -> str:
    for _ in range(60):
        done = command(cluster, *arguments)
        if wanted in done.stdout:
            return done.stdout
    pytest.fail(f"{arguments} never said {wanted!r}: {done.stdout}{done.stderr}")


def test_who_ended_when_and_why_is_told_also_after_the_server_that_knew_has_died(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, ClusterSize(1, 3, 1)) as cluster:
        run_async(ready(cluster))
        options = ClientOptions(cluster=cluster.name)
        with connect_blocking(*cluster.session_addresses, options=options) as stays:
            stays.publish(SERVICE, "10.0.0.1:8080")
            with connect_blocking(*cluster.session_addresses, options=options) as goes:
                goes.publish(SERVICE, "10.0.0.2:8080")
                stays.flush(30)
                goes.flush(30)
                both = until_told(cluster, "10.0.0.2:8080", "get", SERVICE, "--at", "now")
                assert "10.0.0.1:8080" in both
                then = datetime.now(UTC).isoformat()
            story = until_told(cluster, "ended", "why", SERVICE)
            assert "10.0.0.2:8080" in story
            assert "its client left" in story
            leader = story.splitlines()[0].rpartition("Told by ")[2].rstrip(".")
            cluster.servers[leader].kill()
            until_told(cluster, f"data server {leader} left: ", "events")
            past = command(cluster, "get", SERVICE, "--at", then, "-o", "json")
            assert sorted(row["data"] for row in json.loads(past.stdout)) == ["10.0.0.1:8080", "10.0.0.2:8080"], past
            assert "ended" in command(cluster, "why", "10.0.0.2:8080").stdout
            gone = command(cluster, "diff", then, "now", SERVICE, "-o", "json")
            assert [(row["what"], row["provider"][:13]) for row in json.loads(gone.stdout)] == [
                ("went", "10.0.0.2:8080")
            ], gone
            moved = command(cluster, "events", "--kind", "table", "-o", "json").stdout.splitlines()
            assert any(leader in json.dumps(json.loads(line).get("moves", [])) for line in moved)


def test_nothing_that_is_known_is_exit_code_3_and_no_time_is_wrong_usage(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, ClusterSize(1, 1, 1)) as cluster:
        run_async(ready(cluster))
        assert command(cluster, "why", "com.example.Nobody").returncode == 3
        assert command(cluster, "diff", "1h", "now").returncode == 3
        for wrong in (["get", SERVICE, "--at", "soon"], ["why", "slot", "x"], ["events", "--kind", "x"]):
            done = command(cluster, *wrong)
            assert (done.returncode, "expected" in done.stderr, "Traceback" in done.stderr) == (2, True, False), done
