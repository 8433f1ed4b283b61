"""Decoders under hostile input for longer, each from another beginning than the last time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from slotreeve_fuzz.targets import TARGETS

from tests.lanes.progress import SEED

SECONDS, EXECUTIONS = int(os.environ.get("SLOTREEVE_FUZZ_SECONDS", "30")), 10_000_000
"""Of each target: what is reached first ends it. ``SLOTREEVE_FUZZ_SECONDS=3600`` lets all of them have the second."""


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_but_the_errors_that_are_documented_however_long_it_is_tried(name: str, tmp_path: Path) -> None:
    seed = 1 + int(os.environ.get(SEED, "1")) % 1_000_000
    limits = ["--seconds", str(SECONDS), "--runs", str(EXECUTIONS), "--seed", str(seed), "--found", str(tmp_path)]
    command = [sys.executable, "-m", "slotreeve_fuzz", name, *limits]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS + 300, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["executions"] > 1_000
    assert list(tmp_path.iterdir()) == []
