"""A cluster of 3 meta, 3 data and 2 session servers with keys, by what ``slotreeve config init`` writes, by hand."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from slotreeve.model.nodes import Role
from slotreeve_harness.free_ports import free_address
from slotreeve_harness.processes import ServerProcess

pytestmark = pytest.mark.processes
PATIENCE = 120.0
COUNTS = {"meta": 3, "data": 3, "session": 2}


def slotreeve(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "slotreeve_cli", *arguments]
    given = {**os.environ, **(environment or {})}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=given, timeout=PATIENCE)


def variables(path: Path) -> dict[str, str]:
    """What a file of ``NAME=VALUE`` lines says, with or without ``export``."""
    lines = path.read_text(encoding="utf-8").splitlines()
    pairs = [line.removeprefix("export ").split("=", 1) for line in lines]
    return {name: " ".join(shlex.split(value)) for name, value in pairs}


def test_the_servers_of_the_files_are_a_cluster_that_lets_in_only_who_has_a_key(tmp_path: Path) -> None:
    top = tmp_path / "cluster"
    names = {f"{role}-{number}": role for role, count in COUNTS.items() for number in range(1, count + 1)}
    flags = [f"--{role}={name}={free_address()}" for name, role in names.items()]
    done = slotreeve("config", "init", str(top), "--target", str(top / "127.0.0.1"), *flags)
    assert done.returncode == 0, done.stderr
    place = top / "127.0.0.1"
    file = place / "slotreeve.toml"
    operator = variables(top / "operator/env")
    servers = []
    try:
        for name, role in names.items():
            (tmp_path / name).mkdir()
            mine = variables(place / f"{name}.env")
            checked = slotreeve("config", "check", "-c", str(file), "--set", f"node.name={name}", environment=mine)
            assert checked.returncode == 0, checked.stderr
            command = ["env", "-C", str(tmp_path / name), *(f"{key}={value}" for key, value in mine.items())]
            command += [sys.executable, "-m", "slotreeve_cli"]
            command += [role, "run", "-c", str(file), "--name", name, "--until-eof"]
            servers.append(ServerProcess(Role(role), name, "", command, tmp_path / f"{name}.log"))
        for server in servers:
            server.start()
        deadline = time.monotonic() + PATIENCE
        while (status := slotreeve("status", environment=operator)).returncode or "is well" not in status.stdout:
            assert time.monotonic() < deadline, status.stdout + status.stderr
            time.sleep(0.5)
        assert all(name in status.stdout for name in names)
        stranger = slotreeve("status", environment={**operator, "SLOTREEVE_OWN_KEY": ""})
        assert stranger.returncode != 0
    finally:
        for server in reversed(servers):
            server.stop()
