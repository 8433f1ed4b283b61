"""What processes write to their standard error: no secret is in it, whatever goes wrong."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from slotreeve_harness.free_ports import free_address

from tests.cli.test_no_output_has_a_secret import GOOD, Scene

pytestmark = pytest.mark.processes
PATIENCE = 60.0


@pytest.mark.parametrize("use", GOOD)
def test_a_meta_server_that_does_not_reach_its_database_says_so_without_the_password(use: str, tmp_path: Path) -> None:
    scene, address = Scene(tmp_path, use, GOOD[use]), free_address()
    flags = ["--set", f"cluster.meta.meta-1={address}", "--until-eof"]
    command = [sys.executable, "-m", "slotreeve_cli", "meta", "run", "-c", str(scene.file), *flags]
    log = tmp_path / "log"
    with open(log, "wb") as file, subprocess.Popen(command, stdin=subprocess.PIPE, stderr=file, stdout=file) as process:
        deadline = time.monotonic() + PATIENCE
        while "127.0.0.1:1" not in log.read_text() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(PATIENCE)
    text = log.read_text()
    assert "127.0.0.1:1" in text
    assert not any(secret in text for secret in scene.secrets)


def test_the_doctor_looks_at_a_configuration_and_does_not_show_its_secrets(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "postgres", GOOD["postgres"])
    command = [sys.executable, "-m", "slotreeve_cli", "doctor", "-c", str(scene.file), "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert "cluster.toml" in done.stdout
    assert not any(secret in done.stdout + done.stderr for secret in scene.secrets)
