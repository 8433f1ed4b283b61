"""Locations: local paths and those of other file systems, and what is said where Spark does not reach one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from slotreeve.errors import ConfigError, StorageError
from slotreeve_spark.location import Location, explained
from slotreeve_spark.pipeline.ingest import event_log
from slotreeve_spark.pipeline.warehouse import Warehouse

if TYPE_CHECKING:
    pass


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


@pytest.mark.parametrize("given", ["l[1]", "w*", "a?", "w{a,b}", "s3a://bucket/w*"])
def test_what_spark_would_take_for_a_pattern_is_refused_for_a_log_or_a_warehouse(given: str) -> None:
    for opened in (event_log, Warehouse.open, Warehouse.existing):
        with pytest.raises(ConfigError, match="as a pattern"):
            opened(given)
