"""Locations: local paths and those of other file systems, and what is said where Spark does not reach one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from slotreeve.errors import ConfigError, StorageError
from slotreeve_spark.location import File, Files, Location, explained

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("given", "text", "local", "uri"),
    [
        ("/a b/c/", "/a b/c", "/a b/c", "file:///a b/c"),
        ("file:///a/b", "file:///a/b", "/a/b", "file:///a/b"),
        ("/", "/", "/", "file:///"),
        ("s3a://bucket/a/", "s3a://bucket/a", None, "s3a://bucket/a"),
        ("hdfs://host:8020/a", "hdfs://host:8020/a", None, "hdfs://host:8020/a"),
    ],
)
def test_a_location_is_local_or_a_uri(given: str, text: str, local: str | None, uri: str) -> None:
    location = Location.of(given)
    assert (location.text, location.uri) == (text, uri)
    assert location.local == (None if local is None else Path(local))


def test_a_relative_path_is_told_apart_from_one_of_the_clusters_file_system() -> None:
    assert Location.of("a/b").child("c").uri == f"file://{Path.cwd()}/a/b/c"


@pytest.mark.parametrize("given", ["", " ", str(Path("s3a://bucket/a")), "hdfs:/a"])
def test_what_is_no_location_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match=r"expected a directory|two slashes"):
        Location.of(given)


@pytest.mark.parametrize(
    ("said", "kind", "message"),
    [
        ("java.nio.file.AccessDeniedException: s3a://b: status code: 403", StorageError, "credentials: --conf spark.h"),
        ("org.apache.hadoop.fs.s3a.UnknownStoreException: Bucket does not exist", ConfigError, "create it first"),
        (
            "java.net.ConnectException: Connection refused",
            StorageError,
            "check the endpoint: --conf spark.hadoop.fs.s3",
        ),
    ],
)
def test_an_error_of_a_store_says_what_to_pass(said: str, kind: type[Exception], message: str) -> None:
    error = explained(Location.of("s3a://b/w"), RuntimeError(said), "3.5.0")
    assert type(error) is kind
    assert message in str(error)
    assert "\n" not in str(error)


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
