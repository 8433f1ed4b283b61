"""File systems that Spark reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from slotreeve.errors import ConfigError, StorageError
from slotreeve_spark.location import File, Files, Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("s3a://bucket/w", r"pass --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:3\."),
        ("abfs://box@account.dfs.core.windows.net/w", r"packages=org.apache.hadoop:hadoop-azure:3\."),
        ("nonsense://a/b", "Spark has no file system for nonsense://"),
        ("hdfs:///a", "hdfs:///a: "),
    ],
)
def test_a_file_system_that_spark_lacks_is_named_with_its_library(
    spark: SparkSession, given: str, message: str
) -> None:
    with pytest.raises((ConfigError, StorageError), match=message) as raised:
        Files(spark).exists(Location.of(given))
    assert "\n" not in str(raised.value)


@pytest.mark.spark
def test_files_are_written_once_read_whole_and_listed(spark: SparkSession, tmp_path: Path) -> None:
    files, place = Files(spark), Location.of(f"{tmp_path}/a b")
    assert (files.exists(place), files.below(place), files.read(place.child("x"))) == (False, [], None)
    files.make(place)
    assert files.create(place.child("below/x"), b"one")
    assert not files.create(place.child("below/x"), b"two")
    assert files.read(place.child("below/x")) == b"one"
    (listed,) = files.below(place)
    assert listed == File("below/x", 3, listed.changed_ms)
    with pytest.raises(StorageError, match="a b/below/x/y: cannot be"):
        files.make(place.child("below/x/y"))
    files.delete(place)
    assert not files.exists(place)
