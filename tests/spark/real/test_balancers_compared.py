"""The comparison of balancers on small input."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from slotreeve_spark.compare.balancers import BalancerQuestion
from slotreeve_spark.comparisons import compare_balancers
from slotreeve_spark.report.results import Directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

from tests.spark.soak.test_balancer_comparison import SMALL

pytestmark = pytest.mark.spark


def test_the_built_ins_are_compared_and_a_winner_is_named(spark: SparkSession, tmp_path: Path) -> None:
    asked = BalancerQuestion(("default", "even", "round_table"), sizes=((32, 6),), seeds=2, kinds=SMALL)
    outcome = compare_balancers(spark, asked, Directory.make(tmp_path / "out"))
    assert outcome.disqualified == []
    stored = spark.read.parquet(str(tmp_path / "out" / "cells")).collect()
    assert len(stored) == 3 * 2 * 2
    assert {row.plugin for row in stored if row.competitor.startswith("round_table")} == {"slotreeve-round-table 0.1.0"}
    spreads = {str(r["competitor"]): r for r in outcome.tables["summary"] if r["criterion"] == "leader_spread"}
    assert set(spreads) == {"default", "even", "round_table + default"}
    assert sum(row["verdict"] == "best" for row in spreads.values()) == 1
    assert any(line.startswith("32 slots, 6 servers, moves: ") for line in outcome.lines)
    assert "<svg" in outcome.report.read_text()
    assert '"seeds": 2' in (tmp_path / "out" / "parameters.json").read_text()
