"""A test of the lane check that starts a program fails, and a process that a test leaves behind is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.lanes.lanes import ROOT
from tests.lanes.programs import end_all, is_foreign, of_this_run

pytestmark = pytest.mark.processes

STARTS = """
import subprocess, sys

def test_a_server(): subprocess.run([sys.executable, "-m", "slotreeve_cli", "--help"], check=True)
def test_a_tool(): subprocess.run("true", check=True)
def test_some_lines(): subprocess.run([sys.executable, "-c", "pass"], check=True)
"""
LEAVES = """
import subprocess, sys

def test_that_leaves_a_grandchild():
    subprocess.run([sys.executable, "-c", "import subprocess; subprocess.Popen(['sleep', '100'])"], check=True)
"""


CRASHES = """
import os, subprocess

def test_that_ends_its_worker():
    subprocess.Popen(["sleep", "100"])
    os._exit(1)
"""


def run_pytest(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a test module with the rules of this tree."""
    (folder / "conftest.py").write_text(
        "from tests import conftest\nfrom tests.conftest import *\nconftest.END_SECONDS = 1.0\n"
    )
    (folder / "test_some.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", str(folder), *options, str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def test_a_test_of_check_may_run_lines_of_its_own_but_no_program(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, STARTS)
    assert "2 failed, 1 passed" in done.stdout
    assert done.stdout.count("the lane check starts no programs") >= 2


def test_below_real_it_may_start_programs(tmp_path: Path) -> None:
    folder = tmp_path / "real"
    folder.mkdir()
    assert "3 passed" in run_pytest(folder, STARTS).stdout


def test_what_is_left_running_is_an_error_and_is_ended(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, LEAVES)
    assert "1 passed, 1 error" in done.stdout, done.stdout
    assert has_ended(done.stdout)


def test_what_a_worker_that_crashed_left_running_is_ended(tmp_path: Path) -> None:
    folder = tmp_path / "real"
    folder.mkdir()
    done = run_pytest(folder, CRASHES, "-n", "1", "--max-worker-restart", "0")
    assert done.returncode == 1
    assert "still running after all workers" in done.stderr
    assert has_ended(done.stderr)


def has_ended(text: str) -> bool:
    """Whether the process that this output names is gone."""
    line = next(line for line in text.splitlines() if ": sleep 100" in line)
    pid = int(line.split(":")[0].split()[-1])
    return not Path(f"/proc/{pid}").exists() or "sleep" not in Path(f"/proc/{pid}/cmdline").read_text()


def test_only_what_exists_and_is_another_program_is_foreign() -> None:
    assert not is_foreign([])
    assert not is_foreign(["/nowhere/java", "-version"])
    assert not is_foreign([sys.executable, "docs/make_pages.py", "--check"])
    assert is_foreign([sys.executable, "-m", "pytest"])
    assert is_foreign(["sh", "-c", "true"])


def test_what_ends_in_time_is_not_left() -> None:
    assert of_this_run("a mark that nothing has") == []
    assert end_all("a mark that nothing has", 0.0) == []
