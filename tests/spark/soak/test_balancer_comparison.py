"""Balancers compared on Spark: a cell is a task, and what a plugin does costs its own cells."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from slotreeve.errors import ConfigError, PluginError
from slotreeve_spark.compare.balancers import BalancerQuestion, compare
from slotreeve_spark.compare.competition import Criterion, Rules, summarize
from slotreeve_spark.compare.guard import CellLimits
from slotreeve_spark.compare.traces import MembershipChange, MembershipTrace, fleet
from slotreeve_spark.compare.tuning import variants
from slotreeve_spark.comparisons import Judgement, compare_balancers, tune_balancer
from slotreeve_spark.report.results import Directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SMALL = ("scale out by one", "zone lost for 30 s")
MEASURED = {"decision_ms", "slowest_decision_ms"}


def test_cells_are_the_same_however_they_are_spread(spark: SparkSession) -> None:
    asked = BalancerQuestion(("even",), sizes=((16, 4),), seeds=2, kinds=SMALL)
    one, other = (
        [{k: v for k, v in row.asDict(True).items() if k not in MEASURED} for row in frame.collect()]
        for frame in (compare(spark, asked).coalesce(1), compare(spark, asked).repartition(3))
    )
    key = lambda row: (row["trace"], row["seed"])  # noqa: E731
    assert sorted(one, key=key) == sorted(other, key=key)


def test_balancers_that_misbehave_cost_only_their_own_cells(spark: SparkSession) -> None:
    asked = BalancerQuestion(
        ("even", "raising", "hanging", "crashing", "invalid"),
        ("even",),
        sizes=((8, 3),),
        seeds=1,
        kinds=("scale out by one",),
        limits=CellLimits(2.0),
    )
    rows = {row.balancer: row for row in compare(spark, asked).collect()}
    assert rows["even"].status == "ok"
    assert rows["even"].error is None
    assert rows["hanging"].status == "timed out"
    assert rows["hanging"].moves is None
    assert (rows["crashing"].status, rows["crashing"].error) == ("failed", "its process died (exit code 7)")
    assert (rows["raising"].status, rows["raising"].violations) == ("invalid", 2)
    assert rows["raising"].error == "balancer: raised ValueError: this table is not to my taste"
    assert rows["invalid"].status == "invalid"
    assert "balancer: invalid table: slot 0 has 0 followers" in rows["invalid"].error


def test_a_comparison_in_which_all_are_disqualified_says_so(spark: SparkSession, tmp_path: Path) -> None:
    asked = BalancerQuestion(("raising", "invalid"), sizes=((8, 3),), seeds=1, kinds=("scale out by one",))
    outcome = compare_balancers(spark, asked, Directory.make(tmp_path / "out"))
    assert {row["competitor"] for row in outcome.disqualified} == {"raising + default", "invalid + default"}
    assert outcome.tables == {"summary": [], "trade_off": []}
    assert outcome.lines == ["no competitor is left to be ranked"]
    assert "Disqualified" in outcome.report.read_text()


def test_tuning_compares_options_and_ends_in_a_configuration(spark: SparkSession, tmp_path: Path) -> None:
    asked = BalancerQuestion(
        ("even",),
        sizes=((32, 6),),
        seeds=1,
        kinds=("scale out by one",),
        options=variants("moves_per_server=1|16,tolerance=0|20"),
    )
    outcome = tune_balancer(spark, asked, Directory.make(tmp_path / "out"), Judgement(one_setting=True))
    trades = {str(row["competitor"]): row for row in outcome.tables["trade_off"]}
    assert len(trades) == 4
    assert trades["even moves_per_server=16 tolerance=20"]["verdict"] == "ends uneven"
    assert trades["even moves_per_server=16 tolerance=20"]["moves"] == 0
    recommended = tomllib.loads(outcome.snippet)["balancer"]
    assert recommended["use"] == "even"
    assert recommended["even"]["tolerance"] == 0
    moves = [row for row in outcome.tables["summary"] if row["criterion"] == "moves"]
    assert {row["verdict"] for row in moves if "tolerance=20" in str(row["competitor"])} == {"not counted"}


def test_a_given_trace_is_replayed_as_it_is(spark: SparkSession) -> None:
    trace = MembershipTrace("mine", fleet(3), (MembershipChange(5.0, leaves=("data-001",)),))
    (row,) = compare(spark, BalancerQuestion(("even",), sizes=((9, 3),), seeds=1, traces=(trace,))).collect()
    assert (row.trace, row.servers, row.changes, row.status) == ("mine", 3, 1, "ok")
    assert row.slot_seconds_without_leader == 3


def test_unknown_plugins_and_traces_are_refused_before_anything_runs(spark: SparkSession) -> None:
    with pytest.raises(PluginError, match="did you mean 'even'"):
        BalancerQuestion(("evn",))
    with pytest.raises(ConfigError, match="there is no generated trace 'nonsense'"):
        BalancerQuestion(("even",), kinds=("nonsense",))


def test_a_difference_is_told_apart_from_noise(spark: SparkSession) -> None:
    rows = [(who, "ok", seed, value(seed)) for who, value in VALUES.items() for seed in range(30)]
    frame = spark.createDataFrame(rows, "competitor string, status string, seed int, cost double")
    found = summarize(frame, Rules((Criterion("cost", "cost"),), "'all'", ("seed",))).collect()
    assert {row.competitor: row.verdict for row in found} == {
        "low": "best",
        "alike": "within noise",
        "a little more": "behind",
        "more": "behind",
    }


VALUES: dict[str, Callable[[int], float]] = {
    "low": lambda seed: 100.0 + seed,
    "alike": lambda seed: 100.05 + seed + (1 if seed % 2 else -1),
    "a little more": lambda seed: 101.0 + seed,  # always: pairs of seeds show it, means alone would not
    "more": lambda seed: 300.0 - seed,
}
