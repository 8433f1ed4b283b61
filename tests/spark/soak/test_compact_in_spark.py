"""Tables that are compacted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from slotreeve.errors import ConfigError
from slotreeve_spark.compare.keys import open_keys
from slotreeve_spark.location import Files
from slotreeve_spark.pipeline import compact as compaction
from slotreeve_spark.pipeline.compact import Compacted, compact, plan, publish, rewrite, sweep
from slotreeve_spark.pipeline.ingest import ingest
from slotreeve_spark.pipeline.manifests import Manifest, encode
from slotreeve_spark.pipeline.records import CLEANED, QUARANTINE
from slotreeve_spark.pipeline.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


START_MS = 1_700_000_000_000

DAY_MS = 86_400_000


def leader(number: int, day: int) -> str:
    known = {"v": 1, "id": f"n/{number}", "at_ms": START_MS + day * DAY_MS + number, "node": "m", "kind": "leader"}
    return json.dumps({**known, "term": number})


def written(log: Path, name: str, lines: Sequence[str]) -> None:
    log.mkdir(exist_ok=True)
    (log / f"{name}.jsonl").write_text("\n".join(lines))


def ids(spark: SparkSession, store: Warehouse) -> list[str]:
    """Of every record that a reader sees, duplicates too."""
    return sorted(row.id for row in store.table(spark, "cleaned", CLEANED).select("id").collect())


def small_files(store: Warehouse) -> int:
    assert store.location.local is not None
    return len(list(store.location.local.glob("cleaned/day=*/*.parquet")))


def ingested_days(spark: SparkSession, tmp_path: Path) -> Warehouse:
    """Days 0, 1, 3 and 4 in two runs of ingest, at a path with a space; a bad line in each."""
    store = Warehouse.open(f"{tmp_path}/a warehouse/")
    written(tmp_path / "log", "a", [leader(1, 0), leader(2, 1), leader(3, 3), "bad"])
    ingest(spark, tmp_path / "log", store, "9 days")
    written(tmp_path / "log", "b", [leader(4, 0), leader(5, 1), leader(6, 4), "worse"])
    ingest(spark, tmp_path / "log", store, "9 days")
    return store


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path) -> Warehouse:
    return ingested_days(spark, tmp_path)


@pytest.mark.spark
def test_a_run_that_is_killed_at_any_point_loses_and_doubles_nothing(
    spark: SparkSession, store: Warehouse, tmp_path: Path
) -> None:
    before, files = ids(spark, store), small_files(store)
    assert before == [f"n/{number}" for number in range(1, 7)]
    jobs = plan(spark, store, "cleaned")
    assert [job.directory.partition("/")[0] for job in jobs] == [f"day=2023-11-{day}" for day in (14, 15, 17)]

    rewrite(spark, store, jobs[0])
    assert ids(spark, store) == before, "written, but not published"
    assert sweep(spark, store, "cleaned", 1) == 0, "it may still be published"
    assert publish(spark, store, jobs[0])
    assert (ids(spark, store), small_files(store)) == (before, files), "published, and the small files still there"
    assert not publish(spark, store, jobs[0]), "a day is replaced once"

    # Killed while it wrote a manifest, and while it wrote large files.
    manifests = store.manifest_place("cleaned")
    torn = encode(Manifest(2, (1,), jobs[1].directory, jobs[1].files))[:-9]
    assert Files(spark).create(manifests.child("00000002"), torn)
    assert not publish(spark, store, jobs[1]), "there are no large files"
    orphan = rewrite(spark, store, jobs[1])
    assert ids(spark, store) == before

    first = compact(spark, store, keep_hours=1)
    assert first == [Compacted("cleaned", 2, len(jobs[1].files) + len(jobs[2].files), 2, 0), *first[1:]]
    assert first[1] == Compacted("quarantine", 1, 2, 1, 0)
    assert (ids(spark, store), small_files(store)) == (before, files)

    # The torn manifest turns out to have been late only: it still means nothing.
    Files(spark).delete(manifests.child("00000002"))
    assert Files(spark).create(manifests.child("00000002"), encode(Manifest(2, (1,), "nowhere", jobs[1].files)))
    assert ids(spark, store) == before

    swept = compact(spark, store, keep_hours=0)
    replaced = sum(len(job.files) for job in jobs)
    assert [(each.days, each.files_before) for each in swept] == [(0, 0), (0, 0)], "again, there is nothing to rewrite"
    assert swept[0].deleted == replaced + orphan + 1  # _SUCCESS
    assert (ids(spark, store), small_files(store)) == (before, files - replaced)
    assert {row.line for row in store.table(spark, "quarantine", QUARANTINE).collect()} == {"bad", "worse"}
    assert compact(spark, store, keep_hours=0) == [Compacted(name, 0, 0, 0, 0) for name in compaction.TABLES]

    # Ingest goes on: a late record of a compacted day, and a duplicate of one that is in a large file.
    written(tmp_path / "log", "c", [leader(7, 0), leader(1, 0), leader(8, 5)])
    assert ingest(spark, tmp_path / "log", store, "9 days").cleaned == 2
    after = sorted([*before, "n/7", "n/8"])
    assert ids(spark, store) == after
    assert [each.days for each in compact(spark, store, keep_hours=0)] == [2, 0]
    assert ids(spark, store) == after
    days = store.table(spark, "cleaned", CLEANED).groupBy("day").count().collect()
    assert {(str(row.day), row["count"]) for row in days} == {
        ("2023-11-14", 3),
        ("2023-11-15", 2),
        ("2023-11-17", 1),
        ("2023-11-18", 1),
        ("2023-11-19", 1),
    }
    assert open_keys(spark, f"events:{store.location}").frame.count() == 0, "no event of these is of a service"


@pytest.mark.spark
def test_of_two_compactions_of_the_same_day_one_wins(spark: SparkSession, store: Warehouse, tmp_path: Path) -> None:
    before = ids(spark, store)
    ours, *_ = plan(spark, store, "cleaned")
    written(tmp_path / "log", "c", [leader(7, 0)])
    ingest(spark, tmp_path / "log", store, "9 days")  # while compaction runs
    theirs, *_ = plan(spark, store, "cleaned")
    assert set(ours.files) < set(theirs.files)
    rewrite(spark, store, ours)
    rewrite(spark, store, theirs)
    assert publish(spark, store, theirs)
    assert not publish(spark, store, ours)
    assert ids(spark, store) == sorted([*before, "n/7"])
    assert sweep(spark, store, "cleaned", 0) == len(theirs.files) + 2
    assert ids(spark, store) == sorted([*before, "n/7"])


@pytest.mark.spark
def test_a_warehouse_without_events_or_days_is_left_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    empty = Warehouse.open(tmp_path / "empty")
    nothing = [Compacted(name, 0, 0, 0, 0) for name in compaction.TABLES]
    assert compact(spark, empty) == nothing
    ingest(spark, tmp_path / "log", empty)
    assert compact(spark, empty, keep_hours=0) == nothing
    old = Warehouse.open(tmp_path / "old")
    spark.sql("select timestamp'2026-01-01' as at, 'n/1' as id, 'leader' as kind").write.parquet(old.place("cleaned"))
    assert compact(spark, old, keep_hours=0) == nothing
    assert ids(spark, old) == ["n/1"]
    with pytest.raises(ConfigError, match="--keep-hours -1: expected 0 or more"):
        compact(spark, old, keep_hours=-1)
