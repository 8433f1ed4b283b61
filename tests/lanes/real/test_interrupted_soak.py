"""A soak that somebody ends says what it did not reach."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lanes.lanes import ROOT

PATIENCE_SECONDS = 100.0


@pytest.mark.timeout(300)
def test_a_soak_that_is_interrupted_ends_with_its_page(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.lanes.soak", "--minutes", "60", "--out", str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "the first fresh seed is" in process.stdout.readline()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (tmp_path / "tests.log").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert "interrupted" in said
    read = json.loads((tmp_path / "soak.json").read_text())
    assert read["interrupted"]
    assert all(part["missed"] for part in read["parts"])
    assert (tmp_path / "soak.html").exists()
