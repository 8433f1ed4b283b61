"""``pytest --election``, run as an outsider would: in an empty directory, in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

SHAMELESS = '''
"""An election of which every node leads at once."""

from slotreeve.ports import Leadership, Versioned
from slotreeve_conformance.election_backend import ElectionBackend


class Nothing:
    def read(self, key): return None
    def keys(self): return []
    async def write(self, key, value, expected_version, term): return 1
    def watch(self, changed): return lambda: None


class Shameless:
    def __init__(self, context):
        self.context, self.state, self.leads = context, Nothing(), False

    def leadership(self):
        return Leadership(self.context.node, 1, self.leads, self.context.clock.now() + 1.0, "elected")

    async def start(self, changed):
        self.leads = True
        changed(self.leadership())

    async def resign(self): self.leads = False
    async def stop(self): self.leads = False


class ShamelessBackend(ElectionBackend):
    def build(self, context): return Shameless(context)
'''


def suite(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(directory), "COLUMNS": "200"}
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def mark(done: subprocess.CompletedProcess[str], sentence: str) -> str:
    """The cell of the matrix in the row of this property."""
    (row,) = (line for line in done.stdout.splitlines() if line.startswith(f"{sentence} "))
    return row.removeprefix(sentence).strip()


def test_an_installed_election_is_tested_from_an_empty_directory_and_a_matrix_is_printed(tmp_path: Path) -> None:
    sizes = ["--election-rivals=5", "--election-rounds=6", "--election-storms=2", "--election-first-storm=7"]
    done = suite(tmp_path, "--election=fle", "--election-option", "lease_ms=300", *sizes)
    assert done.returncode == 0, done.stdout
    assert mark(done, "many rivals never lead at once over many changes") == "ok"
    assert re.search(r"^    fle: 5 nodes, 6 changes, \d+ samples; a new leader after", done.stdout, re.MULTILINE)
    assert re.search(r"^    fle: 2 storms from seed 7, \d+ operations", done.stdout, re.MULTILINE)
    assert mark(done, "one node leads and all know it (5)") == "ok"
    assert re.search(
        r"^no node leads without the store and nothing is lost after the outage +-$", done.stdout, re.MULTILINE
    )


def test_an_election_that_breaks_the_invariants_fails(tmp_path: Path) -> None:
    (tmp_path / "shameless.py").write_text(SHAMELESS)
    done = suite(
        tmp_path, "--election=mine", "--election-backend=shameless:ShamelessBackend", "-k", "know_it or many_rivals"
    )
    assert done.returncode == 1, done.stdout
    assert mark(done, "one node leads and all know it (3)") == "FAILED"
    assert mark(done, "many rivals never lead at once over many changes") == "FAILED"


def test_wrong_options_are_errors_with_the_reason(tmp_path: Path) -> None:
    for arguments, message in [
        (["--election=flee"], "there is no election 'flee'; available: .*fle"),
        (["--election=fle", "--election-option", "lease_ns=1"], "lease_ns.*did you mean 'lease_ms'"),
        (["--election=fle", "--election-option", "lease_ms"], "--election-option lease_ms: expected key=value"),
        (["--election=fle", "--election-option", "x.lease_ms=1"], "'x' is not one of fle"),
        (["--election=fle", "--election-backend=os:path"], "--election-backend os:path: is not an ElectionBackend"),
        (["--election=fle", "--election-backend=nowhere:X"], "--election-backend nowhere:X: No module named 'nowhere'"),
    ]:
        done = suite(tmp_path, *arguments)
        assert done.returncode != 0
        assert re.search(message, done.stdout + done.stderr), done.stdout + done.stderr
