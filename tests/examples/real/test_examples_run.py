"""The examples' own tests pass, run as somebody who has copied the folder runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ("registered_app", "calling_by_httpx", "calling_by_grpc")


@pytest.mark.processes
@pytest.mark.parametrize("example", EXAMPLES)
def test_the_tests_of_an_example_pass(example: str, tmp_path: Path) -> None:
    folder = ROOT / "examples" / example
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    command = [sys.executable, "-m", "pytest", "-q", "-c", str(tmp_path / "pytest.ini"), "-p", "no:cacheprovider"]
    command += ["--import-mode=importlib", "--rootdir", str(folder), "--timeout", "120", str(folder / "tests")]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
