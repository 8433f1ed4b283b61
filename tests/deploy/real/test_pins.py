"""What ``constraints.txt`` pins can be installed on the oldest Python that the packages promise to run on.

Whoever works on a newer one does not notice: pip resolves for the Python that it runs on.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes
ROOT = Path(__file__).resolve().parents[3]
WITHOUT_WHEELS = {"pyspark"}
"""Only offered as source, of which pip would have to run code to learn what it needs."""


def test_every_pin_can_be_installed_on_the_oldest_python(tmp_path: Path) -> None:
    required = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    oldest = re.fullmatch(r">=(3\.\d+)", required)
    assert oldest is not None, required
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    wheels = [f"{name}=={version}" for name, version in pins.items() if name not in WITHOUT_WHEELS]
    assert len(wheels) == len(pins) - len(WITHOUT_WHEELS)
    (tmp_path / "pins.txt").write_text("\n".join(wheels), encoding="utf-8")
    for_oldest = ("--python-version", f"{oldest[1]}.0", "--only-binary=:all:", "--no-deps", "--target", str(tmp_path))
    command = (sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed", *for_oldest)
    of_pins = ("--requirement", str(tmp_path / "pins.txt"))
    found = subprocess.run([*command, *of_pins], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
