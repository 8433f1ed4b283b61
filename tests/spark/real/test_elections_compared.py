"""The comparison of elections on small input."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from slotreeve_spark.compare.elections import ElectionCell, ElectionQuestion, compare, simulate
from slotreeve_spark.comparisons import compare_elections
from slotreeve_spark.report.results import Directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_back_ends_are_compared_and_one_that_cannot_be_built_costs_its_cells(
    spark: SparkSession, tmp_path: Path
) -> None:
    asked = ElectionQuestion(("fle", "lock", "postgres"), scenarios=("killed", "resigned"), seeds=2, rounds=2)
    outcome = compare_elections(spark, asked, Directory.make(tmp_path / "out"))
    assert {(row["competitor"], row["cells"]) for row in outcome.disqualified} == {("postgres", "4/4")}
    means = {(str(r["setting"]), str(r["criterion"]), str(r["competitor"])): r for r in outcome.tables["summary"]}
    killed = means["leader killed, 3 nodes", "fail_over_seconds", "fle"]
    assert killed["verdict"] == "best"
    rows = compare(spark, asked).where("competitor = 'fle' and scenario = 'killed'").orderBy("seed").collect()
    for row in rows:
        here = msgspec.structs.asdict(simulate(ElectionCell("fle", 3, "killed", row.seed), 2, {}))
        assert {name: row[name] for name in here} == here
