"""Each script in ``proving/benchmarks`` still runs: here in its smallest form, which measures nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

ROOT = Path(__file__).resolve().parents[3]
BENCHMARKS = ROOT / "proving" / "benchmarks"
SMALLEST = {
    "balancing": "--runs 1",
    "cli_start": "--runs 1 --no-bounds",
    "election": "--nodes 3 --rounds 1 --writes 50 --concurrency 4",
    "events": "--publishers 500 --pairs 1",
    "gateway": "--runs 1",
    "gateway_dns": "--runs 1 --seconds 0.5",
    "gateway_waiting": "--waiting 100 --woken 10 --changes 1 --rounds 1",
    "handlers": "--registrations 200 --seconds 2",
    "history": "--hours 0.01 --rate 100 --services 20 --gigabytes 1",
    "leases": "",
    "lock_election": "--rounds 1",
    "many_slots": "--slots 256",
    "onlookers": "--publishers 500 --pairs 1 --consoles 1",
    "overload": "--rounds 1 --seconds 1",
    "sizing": "--clients 10 --registrations 1000 --subscriptions 500",
    "transport": "",
    "turns": "--instances 5000",
}
ELSEWHERE = {
    "console": "needs a browser; tests/console has one",
    "instructions": "needs valgrind, and two checkouts that are set up",
    "pairs": "needs two checkouts that are set up",
    "spark": "tests/spark runs each job",
}
PRINTS_LINES = {"leases", "turns"}
"""They print a line for each figure, the others one JSON document."""


def test_every_script_is_named_here() -> None:
    assert {path.stem for path in BENCHMARKS.glob("*.py")} == SMALLEST.keys() | ELSEWHERE.keys()


@pytest.mark.parametrize("name", SMALLEST)
def test_a_benchmark_runs_in_its_smallest_form_and_prints_figures(name: str) -> None:
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), *SMALLEST[name].split()]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    if name in PRINTS_LINES:
        assert any(character.isdigit() for character in done.stdout)
    else:
        assert json.loads(done.stdout)
