"""What ``slotreeve plugins new`` writes is clean, installs, and keeps the contract of its port."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from slotreeve_cli.new_plugin import MOST_LETTERS, PortName

from tests.lanes.programs import MARK

pytestmark = pytest.mark.processes
SECONDS = 100
PIP = ("pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check")


def run(directory: Path, *arguments: str) -> str:
    """Run a module of this Python in ``directory``, with the packages that are installed beside it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SLOTREEVE", "PYTEST"))}
    environment |= {"PYTHONPATH": str(directory.parent / "site"), MARK: os.environ[MARK]}
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert done.returncode == 0, f"{arguments}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("port", PortName)
def test_a_new_plugin_installs_and_keeps_the_contract_of_its_port(port: PortName, tmp_path: Path) -> None:
    plugin = tmp_path / "stock"
    plugin.mkdir()
    run(plugin, "slotreeve_cli", "plugins", "new", port, str(plugin))
    run(plugin, *PIP, "--target", str(tmp_path / "site"), str(plugin))
    assert re.search("stock *good", run(plugin, "slotreeve_cli", "plugins", "check", "stock"))
    assert re.search(r"[1-9]\d* passed", run(plugin, "pytest", "-q", "-p", "no:cacheprovider", "-n0", str(plugin)))


@pytest.mark.parametrize("name", ["a", "stock", "x" * MOST_LETTERS])
def test_every_new_plugin_is_as_the_linter_and_the_formatter_want_it(name: str, tmp_path: Path) -> None:
    for port in PortName:
        run(tmp_path, "slotreeve_cli", "plugins", "new", port, str(tmp_path / port), "--name", name)
    run(tmp_path, "ruff", "check", "--no-cache", str(tmp_path))
    run(tmp_path, "ruff", "format", "--check", "--no-cache", str(tmp_path))


def test_a_new_plugin_of_each_port_has_the_types_that_its_port_wants(tmp_path: Path) -> None:
    for port in PortName:
        run(tmp_path, "slotreeve_cli", "plugins", "new", port, str(tmp_path / port), "--name", f"my_{port}")
    found = [str(tmp_path / port / f"slotreeve_my_{port}") for port in PortName]
    run(tmp_path, "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), *found)
