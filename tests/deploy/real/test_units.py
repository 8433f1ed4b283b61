"""The units of systemd: by its own tool, and what they start, as the service manager would."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from slotreeve_harness.free_ports import free_address

pytestmark = pytest.mark.processes
ROOT = Path(__file__).resolve().parents[3]
UNITS = sorted((ROOT / "deploy/systemd").glob("*.service"))
PATIENCE = 60.0


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_takes_the_unit(unit: Path, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd-analyze on this machine")
    copy = tmp_path / unit.name.replace("@", "@one")
    copy.write_text(unit.read_text(encoding="utf-8").replace("/opt/slotreeve/bin/slotreeve", "/bin/true"))
    done = subprocess.run([analyze, "verify", str(copy)], capture_output=True, text=True, check=False, timeout=60)
    about = [line for line in (done.stdout + done.stderr).splitlines() if copy.name in line]
    assert about == []


def test_what_a_unit_starts_says_that_it_is_ready_and_that_it_stops(tmp_path: Path) -> None:
    (unit,) = [path for path in UNITS if "-meta@" in path.name]
    (command,) = re.findall(r"^ExecStart=\S+ (.*)$", unit.read_text(encoding="utf-8"), re.MULTILINE)
    file = tmp_path / "slotreeve.toml"
    file.write_text(
        f"""
[cluster.meta]
meta-1 = "{free_address()}"
[election.fle]
data_dir = "{tmp_path}/state"
[history]
directory = "{tmp_path}/history"
"""
    )
    arguments = shlex.split(command.replace("%i", "meta-1").replace("/etc/slotreeve/slotreeve.toml", str(file)))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE)
        process = subprocess.Popen(
            [sys.executable, "-m", "slotreeve_cli", *arguments],
            env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")},
        )
        try:
            assert manager.recv(100) == b"READY=1"
            process.send_signal(signal.SIGTERM)
            assert manager.recv(100) == b"STOPPING=1"
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
            process.wait()
