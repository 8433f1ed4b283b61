"""One file for those who are to help."""

from __future__ import annotations

import json
import os
import signal
import stat
import tarfile
from pathlib import Path

import pytest
from slotreeve_client import ClientOptions
from slotreeve_client.threads import connect_blocking
from slotreeve_client.tools import run_async
from slotreeve_harness.processes import ClusterSize, LocalCluster

from tests.cli.real.registry_commands import command, ready

pytestmark = pytest.mark.processes


def test_a_bundle_has_state_and_history_and_no_secret_and_says_what_is_missing(tmp_path: Path) -> None:
    configuration = tmp_path / "cluster.toml"
    configuration.write_text('[election.postgres]\ndsn = "postgres://u:hunter2@db/x"\n[election]\nuse = "postgres"\n')
    with LocalCluster(tmp_path, ClusterSize(1, 2, 1)) as cluster:
        run_async(ready(cluster))
        with connect_blocking(*cluster.session_addresses, options=ClientOptions(cluster=cluster.name)) as client:
            client.publish("com.example.Greeter", "a-secret-payload").acknowledged(30)
            assert command(cluster, "provide", "put", "com.example.limits", "a-secret-value").returncode == 0
            path = tmp_path / "it.tar.gz"
            done = command(cluster, "debug", "bundle", "--to", str(path), "-c", str(configuration))
            assert done.returncode == 0, done.stderr
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        files = read(path)
        assert {
            "status.json",
            "slots.json",
            "counters.json",
            "clients.json",
            "delays.json",
            "events.jsonl",
            "changes.json",
        } <= set(files)
        assert "configuration/1-cluster.toml.json" in files
        whole = "".join(files.values())
        assert [secret for secret in ("hunter2", "a-secret-payload", "a-secret-value") if secret in whole] == []
        assert "com.example.limits" in files["configuration-keys.json"]
        assert json.loads(files["changes.json"])[0]["service"].startswith("com.example.Greeter")
        assert {json.loads(line)["kind"] for line in files["events.jsonl"].splitlines()} >= {"started", "configured"}
        pid = cluster.servers["data-1"].pid
        os.kill(pid, signal.SIGSTOP)
        done = command(cluster, "debug", "bundle", "--to", str(path))
        os.kill(pid, signal.SIGCONT)
        assert done.returncode == 1
        assert "data-1" in done.stderr
        assert json.loads(read(path)["status.json"])["servers"]
        wrong = command(cluster, "debug", "bundle", "--to", str(tmp_path / "none" / "it.tar.gz"))
        assert (wrong.returncode, "cannot be written" in wrong.stderr) == (1, True), wrong


def read(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        found = {}
        for member in archive.getmembers():
            file = archive.extractfile(member)
            assert file is not None
            found[member.name.partition("/")[2]] = file.read().decode()
        return found
