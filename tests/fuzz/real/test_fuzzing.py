"""Decoders under hostile input for some seconds each, guided by coverage: nothing but their own errors."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from slotreeve_fuzz.targets import TARGETS

SECONDS = 2
"""Of each target: two minutes for all of them, with the time that they take to begin."""


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_but_the_errors_that_are_documented(name: str, tmp_path: Path) -> None:
    if find_spec("atheris") is None:
        if os.environ.get("CI") == "true" and sys.version_info < (3, 14) and platform.machine() == "x86_64":
            raise AssertionError("atheris is missing; ./run setup installs it")
        pytest.skip("there is no atheris for this machine or this Python")
    command = [sys.executable, "-m", "slotreeve_fuzz", name, "--seconds", str(SECONDS), "--found", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["executions"] > 1_000
    assert list(tmp_path.iterdir()) == []
