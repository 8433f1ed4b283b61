"""From a Debian that holds nothing but Python to a cluster with keys, in five commands."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from slotreeve.model.nodes import Role
from slotreeve_harness.free_ports import free_address
from slotreeve_harness.processes import ServerProcess

from deploy.make_packages import build

pytestmark = pytest.mark.processes
SECONDS = 120.0
MOST_SECONDS = 180.0
"""From nothing to a cluster that is well; the aim of a quiet machine."""
COUNTS = {"meta": 3, "data": 3, "session": 2}
NAMES = {f"{role}-{number}": role for role, count in COUNTS.items() for number in range(1, count + 1)}
PROGRAM = "/opt/slotreeve/bin/slotreeve"


class Root:
    """A Debian below a directory, as the package manager of this machine makes it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        sources = [path for path in map(Path, SOURCES) if path.exists()]
        command = ["mmdebstrap", "--quiet", "--variant=minbase", "--include=python3,python3-venv,ca-certificates"]
        subprocess.run([*command, "bookworm", str(directory), *map(str, sources[:1])], check=True, timeout=SECONDS)
        # The machine's own way to a package index: its names, and whom it trusts.
        for path in ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs/ca-certificates.crt"):
            shutil.copy(path, directory / path[1:])

    def command(self, words: list[str], environment: Mapping[str, str] | None = None) -> list[str]:
        """A command of this machine that runs these words below the root."""
        kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_CERT", "SLOTREEVE_TEST"))}
        given = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root", **kept, **(environment or {})}
        return ["chroot", str(self.directory), "env", "-i", *(f"{name}={text}" for name, text in given.items()), *words]

    def run(self, line: str, environment: Mapping[str, str] | None = None) -> str:
        """What a line of the shell prints. It must succeed."""
        command = self.command(["sh", "-ec", line], environment)
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout


SOURCES = ("/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list")


def variables(text: str) -> dict[str, str]:
    """What lines ``NAME=VALUE`` say."""
    pairs = [line.removeprefix("export ").split("=", 1) for line in text.splitlines()]
    return {name: " ".join(shlex.split(value)) for name, value in pairs}


def test_five_commands_make_a_cluster_with_keys_from_an_empty_debian(tmp_path: Path) -> None:
    if shutil.which("mmdebstrap") is None or os.geteuid() != 0:
        assert not os.environ.get("CI"), "needs root and the package mmdebstrap"
        pytest.skip("needs root and the package mmdebstrap")
    root = Root(tmp_path / "root")
    build(root.directory / "dist", ["slotreeve-client", "slotreeve"])
    flags = [f"--{role}={name}={free_address()}" for name, role in NAMES.items()]
    began = time.monotonic()
    root.run("python3 -m venv /opt/slotreeve")
    root.run("/opt/slotreeve/bin/pip install --quiet --find-links /dist slotreeve")
    root.run(f"{PROGRAM} config init /etc/slotreeve --target /etc/slotreeve/127.0.0.1 {shlex.join(flags)}")
    place = root.directory / "etc/slotreeve/127.0.0.1"
    servers = []
    try:
        for name, role in NAMES.items():
            unit = (
                (place / f"systemd/slotreeve-{role}@.service").read_text().replace("%i", name).replace("%S", "/var/lib")
            )
            settings = dict(re.findall(r"^(\w+)=-?(.*)$", unit, re.MULTILINE))
            (root.directory / settings["WorkingDirectory"][1:]).mkdir(parents=True)
            given = variables((root.directory / settings["EnvironmentFile"][1:]).read_text())
            line = f"cd {settings['WorkingDirectory']} && exec {settings['ExecStart']} --until-eof"
            command = root.command(["sh", "-ec", line], given)
            servers.append(ServerProcess(Role(role), name, "", command, tmp_path / f"{name}.log"))
        for server in servers:
            server.start()
        operator = variables((root.directory / "etc/slotreeve/operator/env").read_text())
        status = ""
        while "is well" not in status:
            for server in servers:
                assert server.is_running, server.tail()
            assert time.monotonic() - began < SECONDS, status
            status = root.run(f"{PROGRAM} status || true", operator)
        took = time.monotonic() - began
        assert all(name in status for name in NAMES)
        assert "is well" not in root.run(f"{PROGRAM} status || true", {**operator, "SLOTREEVE_OWN_KEY": ""})
        published = f"{PROGRAM} publish com.example.Greeter 10.0.0.1:8080 --for 30 >/dev/null & P=$!; "
        seen = f"until {PROGRAM} get com.example.Greeter | grep 10.0.0.1:8080; do :; done; kill $P; wait $P || true"
        assert "10.0.0.1:8080" in root.run(published + seen, operator)
    finally:
        for server in reversed(servers):
            server.stop()
    print(f"from an empty Debian to a cluster that is well: {took:.0f} s")
    assert took < MOST_SECONDS
