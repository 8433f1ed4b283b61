"""``slotreeve dev --keys``: a registry in one process that lets nobody in without a key."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from slotreeve_harness.processes import DevServer

pytestmark = pytest.mark.processes


def status(dev: DevServer, own_key: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "slotreeve_cli", "status", "--meta", f"meta-1@{dev.meta_address}"]
    environment = {**os.environ, "SLOTREEVE_OWN_KEY": own_key}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=300)


def test_a_tool_with_its_key_is_let_in_and_others_are_not_and_keys_are_kept(tmp_path: Path) -> None:
    secrets = []
    for _ in range(2):
        with DevServer("--keys", str(tmp_path)) as dev:
            good = status(dev, str(tmp_path / "operator.toml"))
            assert good.returncode == 0, good.stdout + good.stderr
            assert "The cluster is well" in good.stdout
            for other in ("", str(tmp_path / "program.toml")):
                assert status(dev, other).returncode != 0
        secrets.append((tmp_path / "operator.toml").read_bytes())
    assert secrets[0] == secrets[1]
