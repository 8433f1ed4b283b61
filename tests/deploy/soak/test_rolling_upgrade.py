"""A cluster of the last release becomes one of this tree, server by server under load, and is put back again."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from slotreeve_bench.restart import measure_rolling_restart
from slotreeve_harness.processes import ClusterSize, LocalCluster

from deploy.make_packages import build
from tests.deploy.environments import SECONDS, EmptyEnvironment
from tests.lints.rooms import ROOT

pytestmark = pytest.mark.processes
OURS = ("slotreeve-client", "slotreeve")
RATE = 500.0


def last_release() -> str:
    """The commit of the last release: RELEASING.md says how its subject begins."""
    command = ["git", "log", "-1", "--format=%H", "--grep=^Release [0-9]", "HEAD"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    assert found, "no commit of the history begins with 'Release': is this a whole clone?"
    return found


def build_release(commit: str, tree: Path, files: Path) -> None:
    """Build the packages of a commit with its own script."""
    tree.mkdir()
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x"], cwd=tree, input=archive.stdout, check=True)
    only = [part for name in OURS for part in ("--only", name)]
    command = [sys.executable, "-m", "deploy.make_packages", "--out", str(files), *only]
    subprocess.run(command, cwd=tree, check=True, stdout=subprocess.DEVNULL, timeout=SECONDS)


def test_every_server_is_replaced_by_the_next_version_and_back_under_load_and_nothing_is_lost(tmp_path: Path) -> None:
    build_release(last_release(), tmp_path / "tree", tmp_path / "old")
    build(tmp_path / "new", OURS)
    pythons = []
    for version in ("old", "new"):
        environment = EmptyEnvironment(tmp_path / f"environment-{version}")
        (wheel,) = (tmp_path / version).glob("slotreeve-*.whl")
        environment.install(str(wheel), files=tmp_path / version)
        pythons.append(str(environment.python))
    old, new = pythons
    cluster = LocalCluster(tmp_path / "cluster", ClusterSize(3, 3, 2))
    cluster.use_keys()
    for server in cluster.servers.values():
        server.command[0] = old
    with cluster:
        for python in (new, old):
            figures = asyncio.run(measure_rolling_restart(cluster, RATE, python=python))
            print(figures)
            assert (figures["failed"], figures["missing"], figures["differing_at_the_end"]) == (0, 0, 0)
            programs = {psutil.Process(server.pid).cmdline()[0] for server in cluster.servers.values()}
            assert programs == {python}
            published, took = figures["publishes"], figures["restart_seconds"]
            assert isinstance(published, int)
            assert isinstance(took, dict)
            assert published > 0.8 * RATE * sum(took.values()), "the load must go on all the time"
