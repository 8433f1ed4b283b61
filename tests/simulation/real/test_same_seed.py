"""The same seed is the same run, in processes with other hashes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import tests.simulation.planted_bugs  # noqa: F401 - adds its bugs


@pytest.mark.parametrize(("scenario", "minutes"), [("mixed", "0.5"), ("handover", "1.0")])
def test_the_same_seed_is_the_same_run_whatever_the_hash_seed(scenario: str, minutes: str) -> None:
    hashes = set()
    for hash_seed in ("0", "1", "4711"):
        command = [sys.executable, "-m", "slotreeve_cli", "sim", "run", "--scenario", scenario, "--seed", "5"]
        command += ["--minutes", minutes, "-o", "json"]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        hashes.add(json.loads(done.stdout)["trace_hash"])
    assert len(hashes) == 1
