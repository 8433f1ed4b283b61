"""The example of a third party's distribution: its wheel, its own tests, and its place in the comparisons."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.conftest import EXAMPLE

if TYPE_CHECKING:
    pass


def test_its_own_tests_pass_on_what_its_wheel_holds(example_wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(example_wheel) as archive:
        archive.extractall(tmp_path / "installed")
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", EXAMPLE / "pyproject.toml", EXAMPLE / "tests"]
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    listed = subprocess.run(
        [sys.executable, "-m", "slotreeve_cli", "plugins", "list"],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    ).stdout
    assert "round_table" in listed
    assert "jump" in listed
