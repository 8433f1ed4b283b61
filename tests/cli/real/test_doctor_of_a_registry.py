"""``slotreeve doctor`` beside a registry that runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from slotreeve_harness.processes import DevServer

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def dev() -> Iterator[DevServer]:
    with DevServer() as server:
        yield server


def doctor(dev: DevServer, *settings: str) -> tuple[int, dict[str, dict[str, str]]]:
    given = (f"cluster.meta.meta-1={dev.meta_address}", "node.name=meta-1", *settings)
    flags = [part for setting in given for part in ("--set", setting)]
    command = [sys.executable, "-m", "slotreeve_cli", "doctor", *flags, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, {row["check"]: row for row in json.loads(done.stdout)["checks"]}


def test_a_registry_that_runs_is_fit_and_all_its_servers_answer(dev: DevServer) -> None:
    code, rows = doctor(dev)
    assert code == 0, rows
    assert "the meta server meta-1 runs: process " in rows[f"port {dev.meta_address}"]["found"]
    assert rows["clock of meta-1"]["verdict"] == "ok"
    answering = [what for what, row in rows.items() if what.startswith("server ") and "answers" in row["found"]]
    assert len(answering) == 3


def test_a_configuration_with_other_slots_fails_at_every_server(dev: DevServer) -> None:
    code, rows = doctor(dev, "cluster.slots=64")
    assert code == 1
    assert rows["server meta-1"]["found"] == "slots is 256 there and 64 in the configuration"


def test_a_server_of_another_cluster_has_the_port(dev: DevServer) -> None:
    code, rows = doctor(dev, "cluster.name=other")
    assert code == 1
    assert rows[f"port {dev.meta_address}"]["verdict"] == "fail"
    assert "cluster 'slotreeve', not 'other'" in rows["server meta-1"]["found"]
