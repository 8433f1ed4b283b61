"""Slot functions compared on Spark: the counts are right, whatever the partitions, whatever a plugin does."""

from __future__ import annotations

import zipfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from slotreeve.errors import ConfigError, PluginError, StorageError
from slotreeve_slotfunc.crc32c import Crc32c
from slotreeve_spark.compare import keys as sources
from slotreeve_spark.compare.slot_functions import SlotFunctionQuestion, count, probe
from slotreeve_spark.report.results import Directory
from slotreeve_spark.slot_function_comparison import compare_slot_functions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def counted(session: SparkSession, source: str, asked: SlotFunctionQuestion) -> dict[tuple[str, int, int], int]:
    rows = count(sources.open_keys(session, source), asked).where("measure = 'counted' and value > 0").collect()
    return {(row.function, row.slots, row.slot): row.value for row in rows}


def test_generated_keys_are_counted_one_by_one(spark: SparkSession) -> None:
    number = sources.BLOCK + 17
    keys = [f"com.example.team{n & 63}.Service{n}#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP" for n in range(number)]
    assert sorted(sources.generated(5, 1_234).to_pylist()) == sorted(keys[5:1_234])
    expected = Counter(("crc32c", 64, Crc32c(64).slot_of(key)) for key in keys)
    assert counted(spark, f"generated:{number}", SlotFunctionQuestion(("crc32c",), (64,))) == dict(expected)


def test_a_column_of_parquet_gives_keys(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(10).selectExpr("concat('k', id) as name", "id").write.parquet(str(tmp_path / "p"))
    keys = sources.open_keys(spark, f"parquet:{tmp_path / 'p'}", "name").frame
    assert sorted(row.key for row in keys.collect()) == [f"k{n}" for n in range(10)]
    with pytest.raises(ConfigError, match="there is no column 'nam'; there are name, id"):
        sources.open_keys(spark, f"parquet:{tmp_path / 'p'}", "nam")


def test_functions_that_misbehave_cost_only_their_own_rows(spark: SparkSession, tmp_path: Path) -> None:
    functions = ("crc32c", "raising", "hanging", "crashing", "outside", "disagreeing")
    asked = SlotFunctionQuestion(functions, (16, 32), timeout_seconds=1.0)
    outcome = compare_slot_functions(spark, "generated:1000", "", asked, Directory.make(tmp_path / "out"))
    assert [(row["function"], row["keys"]) for row in outcome.tables["spread"]] == [("crc32c", 1000)] * 2
    failed = {row["competitor"]: str(row["reason"]) for row in outcome.disqualified}
    assert failed["raising"] == "ValueError: this key is not to my taste"
    assert failed["hanging"] == "not done after 1 s"
    assert failed["crashing"] == "its process died (exit code 7)"
    assert "slot 16; there are 16" in failed["outside"]
    assert "its slots_of gives keys other slots than its slot_of" in failed["disagreeing"]


def test_a_function_that_fails_only_later_costs_only_its_own_rows(spark: SparkSession, tmp_path: Path) -> None:
    asked = SlotFunctionQuestion(("crc32c", "raising", "hanging"), (16,), timeout_seconds=0.5)
    rows = count(sources.open_keys(spark, "generated:100"), asked).where("measure = 'broken'").collect()
    assert {(row.function, row.error) for row in rows} == {
        ("raising", "ValueError: this key is not to my taste"),
        ("hanging", "not done after 0.5 s"),
    }


def test_a_constant_function_is_reported_as_uneven(spark: SparkSession, tmp_path: Path) -> None:
    asked = SlotFunctionQuestion(("constant", "crc32c"), (16,))
    outcome = compare_slot_functions(spark, "generated:1000", "", asked, Directory.make(tmp_path / "out"))
    rows = {row["function"]: row for row in outcome.tables["spread"]}
    assert rows["constant"]["empty"] == 15
    assert rows["constant"]["p_value"] == 0.0
    assert rows["constant"]["collisions"] == 1000 * 999 // 2
    assert rows["constant"]["plugin"] == "slotreeve_bad_plugins 0.1.0"
    (bad,) = outcome.disqualified
    assert bad["reason"] == "less even than chance by chi-square (p < 1e-06): varies by 387% beyond it"
    assert bad["for"] == "speed and moves"
    assert rows["constant"]["nanoseconds_per_key"] is None


def test_class_names_of_jars_are_keys_and_an_unreadable_jar_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    jars = tmp_path / "jars"
    jars.mkdir()
    with zipfile.ZipFile(jars / "good.jar", "w") as jar:
        for name in ("org/x/A.class", "org/x/A$B.class", "META-INF/versions/9/org/x/A.class", "org/x/readme.txt"):
            jar.writestr(name, "")
    (jars / "bad.jar").write_bytes(b"no jar")
    keys = sources.open_keys(spark, f"jars:{jars}")
    assert sorted(row.key for row in keys.frame.collect()) == ["org.x.A", "org.x.A$B"]
    outcome = compare_slot_functions(
        spark, f"jars:{jars}", "", SlotFunctionQuestion(("md5",), (4,)), Directory.make(tmp_path / "o")
    )
    assert [row["place"] for row in outcome.unreadable] == ["bad.jar"]
    assert "cannot be read as a jar" in str(outcome.unreadable[0]["problem"])


def test_sparks_own_jars_hold_over_a_hundred_thousand_names(spark: SparkSession) -> None:
    assert sources.open_keys(spark, "jars").frame.count() > 100_000


@pytest.mark.parametrize("source", ["generated:none", "jars:nowhere", "nowhere.txt", "parquet:nowhere"])
def test_a_source_that_is_none_is_a_clear_error(spark: SparkSession, source: str) -> None:
    with pytest.raises(ConfigError, match=f"--keys {source}"):
        sources.open_keys(spark, source)


def test_an_empty_source_is_a_clear_error(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(ConfigError, match="there are no keys in it"):
        compare_slot_functions(
            spark,
            str(tmp_path / "empty.txt"),
            "",
            SlotFunctionQuestion(("md5",), (4,)),
            Directory.make(tmp_path / "out"),
        )


def test_an_output_that_cannot_be_written_is_reported_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="choose another --out"):
        Directory.make(tmp_path / "file" / "out")


def test_unknown_functions_and_wrong_numbers_are_refused_at_once(spark: SparkSession) -> None:
    with pytest.raises(PluginError, match="did you mean 'crc32c'"):
        SlotFunctionQuestion(("crc32",), (4,))
    with pytest.raises(ConfigError, match="ascending"):
        SlotFunctionQuestion(("crc32c",), (8, 4))


def test_what_moves_is_counted_key_by_key(spark: SparkSession, tmp_path: Path) -> None:
    out = Directory.make(tmp_path / "out")
    outcome = compare_slot_functions(spark, "generated:3000", "", SlotFunctionQuestion(("crc32c",), (16, 24)), out)
    keys = sources.generated(0, 3_000).to_pylist()
    few, many = Crc32c(16).slot_of, Crc32c(24).slot_of
    (row,) = outcome.tables["moves"]
    assert row["moved"] == sum(few(key) != many(key) for key in keys)
    assert row["least_share"] == pytest.approx(1 / 3)


def test_probing_finds_nothing_wrong_with_the_built_ins(spark: SparkSession) -> None:
    assert probe(spark, SlotFunctionQuestion(("crc32c", "md5"), (1, 1_000))) == {}
