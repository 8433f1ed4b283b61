"""The example of a third party's distribution: its wheel, its own tests, and its place in the comparisons."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from slotreeve_spark.compare.slot_functions import SlotFunctionQuestion
from slotreeve_spark.report.results import Directory
from slotreeve_spark.slot_function_comparison import compare_slot_functions

from tests.spark.conftest import EXAMPLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_its_own_tests_pass_on_what_its_wheel_holds(example_wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(example_wheel) as archive:
        archive.extractall(tmp_path / "installed")
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", EXAMPLE / "pyproject.toml", EXAMPLE / "tests"]
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    listed = subprocess.run(
        [sys.executable, "-m", "slotreeve_cli", "plugins", "list"],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert "round_table" in listed
    assert "jump" in listed


@pytest.mark.spark
def test_its_slot_function_moves_as_few_keys_as_can_be(spark: SparkSession, tmp_path: Path) -> None:
    asked = SlotFunctionQuestion(("crc32c", "jump"), (64, 96))
    outcome = compare_slot_functions(spark, "generated:20_000", "", asked, Directory.make(tmp_path / "out"))
    assert outcome.disqualified == []
    assert {row["plugin"] for row in outcome.tables["spread"]} == {"slotreeve 0.1.0", "slotreeve-round-table 0.1.0"}
    shares = {row["function"]: float(str(row["moved_share"])) for row in outcome.tables["moves"]}
    assert shares["jump"] == pytest.approx(1 / 3, abs=0.02)
    assert shares["crc32c"] > 0.6
    assert "64 to 96 slots: jump moves fewest keys (33%, where 33% must)" in outcome.lines
