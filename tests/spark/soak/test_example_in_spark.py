"""The example of a third party's distribution in the comparisons."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from slotreeve_spark.compare.slot_functions import SlotFunctionQuestion
from slotreeve_spark.report.results import Directory
from slotreeve_spark.slot_function_comparison import compare_slot_functions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_its_slot_function_moves_as_few_keys_as_can_be(spark: SparkSession, tmp_path: Path) -> None:
    asked = SlotFunctionQuestion(("crc32c", "jump"), (64, 96))
    outcome = compare_slot_functions(spark, "generated:20_000", "", asked, Directory.make(tmp_path / "out"))
    assert outcome.disqualified == []
    assert {row["plugin"] for row in outcome.tables["spread"]} == {
        f"slotreeve {version('slotreeve')}",
        "slotreeve-round-table 0.1.0",
    }
    shares = {row["function"]: float(str(row["moved_share"])) for row in outcome.tables["moves"]}
    assert shares["jump"] == pytest.approx(1 / 3, abs=0.02)
    assert shares["crc32c"] > 0.6
    assert "64 to 96 slots: jump moves fewest keys (33%, where 33% must)" in outcome.lines
