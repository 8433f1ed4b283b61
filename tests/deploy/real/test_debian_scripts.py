"""What the Debian package is made from: its scripts are good shell, and its configuration is good for each role."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes
ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "deploy/debian"


@pytest.mark.parametrize("name", ["postinst", "prerm", "postrm"])
def test_a_script_is_good_shell_that_ends_with_the_first_failure(name: str) -> None:
    script = FOLDER / name
    lines = script.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "#!/bin/sh"
    assert "set -e" in lines
    assert subprocess.run(["sh", "-n", str(script)], capture_output=True, check=False).returncode == 0
    wrong = subprocess.run(["sh", str(script), "no-such-argument"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 1
    assert f"{name} called with unknown argument 'no-such-argument'" in wrong.stderr


def test_config_check_takes_the_configuration_that_is_installed(tmp_path: Path) -> None:
    conffiles = (FOLDER / "conffiles").read_text(encoding="utf-8").split()
    assert conffiles == ["/etc/slotreeve/slotreeve.toml"]
    file = FOLDER / Path(conffiles[0]).name
    assert tomllib.loads(file.read_text(encoding="utf-8"))["http"]["enabled"] is True
    command = [sys.executable, "-m", "slotreeve_cli", "config", "check", "-c", str(file)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_fields_of_the_package_are_those_that_dpkg_asks_for() -> None:
    control = (FOLDER / "control").read_text(encoding="utf-8")
    fields = [line.partition(":")[0] for line in control.splitlines() if not line.startswith(" ")]
    assert {"Package", "Version", "Architecture", "Maintainer", "Description", "Depends"} <= set(fields)
    assert all(len(line) <= 80 for line in control.splitlines())
