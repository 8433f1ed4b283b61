"""Chaos on real processes, a fixed seed; the full run is ``slotreeve chaos run --minutes 30``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

WITHOUT_PROCESSOR_FAULTS = (
    *("kill meta", "kill data", "kill session", "kill client", "kill two at once", "kill meta and its disk"),
    *("pause meta", "pause data", "pause session", "restart in order", "full disk", "delay", "throttle"),
    *("stall both ways", "stall one way", "reset connections", "refuse connections"),
    *("stall link", "stall link one way", "refuse link", "cut sessions off from meta", "cut data off from meta"),
    "cut herd off from session",
)
"""The machine that runs the tests has other work too: taking the processors away is for runs of their own."""


@pytest.mark.timed
@pytest.mark.timeout(600)
def test_a_minute_of_faults_break_no_invariant(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "slotreeve_cli",
            "chaos",
            "run",
            "--minutes",
            "1",
            "--seed",
            "4",
            "--directory",
            str(tmp_path / "chaos"),
            *[part for kind in WITHOUT_PROCESSOR_FAULTS for part in ("--only", kind)],
            "-o",
            "json",
        ],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.stdout, done.stderr
    verdict = json.loads(done.stdout)
    first = [f"{v['t']:.3f} s {v['invariant']}: {v['what']}" for v in verdict["violations"][:5]]
    assert first == [], f"{len(verdict['violations'])} violations in {tmp_path / 'chaos'}\n{done.stderr}"
    assert done.returncode == 0, done.stderr
    assert (verdict["missing"], verdict["stale"]) == (0, 0)
    assert sum(verdict["faults"].values()) > 7
    assert verdict["callbacks"] > 1_000
    assert (tmp_path / "chaos" / "report.html").read_text().startswith("<!doctype html>")


def test_a_kind_of_fault_that_there_is_not_is_named_with_those_there_are(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "slotreeve_cli", "chaos", "run", "--only", "flood", "-d", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 1
    assert "no such fault: flood; there are kill meta" in done.stderr
