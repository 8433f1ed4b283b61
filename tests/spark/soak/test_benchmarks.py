"""The benchmarks of the Spark side, small: they run, and what they measure is right."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BENCHMARKS = Path(__file__).parents[3] / "proving/benchmarks"


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.spark
def test_counting_in_batches_is_right_and_much_faster_than_row_by_row(spark: SparkSession) -> None:
    figures = loaded("spark").slot_function_figures(spark, 400_000, 100_000, 1)
    assert figures["equal_to_a_single_process"]
    assert figures["times_faster"] > 2  # of so few keys, on a busy machine; the real figures are in docs/figures.md


@pytest.mark.processes
def test_the_cost_of_the_event_log_is_measured_on_what_it_really_wrote() -> None:
    command = [sys.executable, str(BENCHMARKS / "events.py"), "--publishers", "500", "--pairs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["registrations_told"] >= 500 * (1 + 3)
