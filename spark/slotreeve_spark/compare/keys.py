"""Where the keys of a comparison come from: generated, class names in jars, text, Parquet, recorded events."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from slotreeve.errors import ConfigError

from slotreeve_spark.location import Files, Location
from slotreeve_spark.pipeline.records import CLEANED
from slotreeve_spark.pipeline.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Numbers = NDArray[np.unsignedinteger[Any]]

KEY = "key"
JARS, GENERATED, PARQUET, EVENTS, TEXT = "jars", "generated", "parquet", "events", "text"
BLOCK = 65_536
"""Generated keys that are in memory at a time."""
PARTITIONS_PER_CORE = 4
TEAMS = 64
"""In the names of generated keys."""


@dataclass(frozen=True)
class Keys:
    """Keys as a frame, and how a task makes arrays of text from its batches.

    Attributes:
        name: what was asked for.
        frame: what ``expand`` takes.
        expand: an Arrow batch of ``frame`` to arrays of keys, a bounded number of keys each.
        unreadable: what could not be read, as (place, reason) rows; None where nothing can be unreadable.
    """

    name: str
    frame: DataFrame
    expand: Callable[[pa.RecordBatch], Iterator[pa.Array]]
    unreadable: DataFrame | None = None


def open_keys(session: SparkSession, source: str, column: str = "") -> Keys:
    """The keys of ``source``: ``jars:DIR``, ``generated:COUNT``, ``parquet:PATH``, ``events:WAREHOUSE``, ``text:PATH``
    or the path of a text file, one key a line, or of a Parquet file. ``jars`` alone means Spark's own.

    ``column`` is the Parquet column; default: the only one, or ``key``.

    Raises:
        ConfigError: the source is none of these, or does not exist.
    """
    kind, _, rest = source.partition(":")
    if kind == JARS:
        return _jars(session, Path(rest) if rest else spark_jars(), source)
    if kind == GENERATED:
        return _generated(session, rest, source)
    if kind == EVENTS:
        return _recorded(session, rest, source)
    if kind == PARQUET or source.endswith(".parquet"):
        return _column(session, rest if kind == PARQUET else source, column, source)
    return _text(session, rest if kind == TEXT else source, source)


def spark_jars() -> Path:
    """The jars of the pyspark that is installed: well over 100,000 class names."""
    import pyspark

    return Path(pyspark.__file__).parent / "jars"


# --- generated -------------------------------------------------------------------------------------------------------


def _generated(session: SparkSession, count: str, source: str) -> Keys:
    try:
        number = int(count.replace("_", "").replace(",", ""))
    except ValueError:
        number = 0
    if number < 1:
        raise ConfigError(f"--keys {source}: expected a number of keys, e.g. generated:10_000_000")
    blocks = -(-number // BLOCK)
    parts = min(blocks, session.sparkContext.defaultParallelism * PARTITIONS_PER_CORE)
    frame = session.range(0, blocks, 1, parts)

    def expand(batch: pa.RecordBatch) -> Iterator[pa.Array]:
        for block in batch.column(0).to_pylist():
            yield generated(block * BLOCK, min(number, (block + 1) * BLOCK))

    return Keys(source, frame, expand)


def generated(start: int, end: int) -> pa.Array:
    """The generated keys of the numbers ``start`` .. ``end`` - 1, in any order, alike to interface names with instance
    and group: ``com.example.team5.Service69#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP``. Takes about 40 ns for each."""
    arrays = []
    while start < end:
        longer = min(end, 10 ** len(str(start)))  # the first number with more digits
        # A division of four bytes takes a third of the time that one of eight takes.
        numbers = np.arange(start, longer, dtype=np.uint32 if longer <= 2**32 else np.uint64)
        teams = numbers % TEAMS
        are_short = teams < 10
        arrays += [_of_one_width(teams[alike], numbers[alike]) for alike in (are_short, ~are_short)]
        start = longer
    return pa.concat_arrays(arrays)


def _of_one_width(teams: Numbers, numbers: Numbers) -> pa.Array:
    """The keys of numbers that are equal in length, and of teams that are. Their text is written by column: there is no
    Python object for a key."""
    if not len(numbers):
        return pa.array([], pa.string())
    team, number = str(teams[0]), str(numbers[0])
    template = f"com.example.team{team}.Service{number}#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"
    keys = np.full(len(numbers), template.encode())
    texts = keys.view(np.uint8).reshape(len(numbers), len(template))
    _write_digits(texts, template.index(f"{team}."), len(team), teams)
    _write_digits(texts, template.index(f"{number}#"), len(number), numbers)
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * np.int32(len(template))
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(keys))


def _write_digits(texts: NDArray[np.uint8], at: int, width: int, values: Numbers) -> None:
    for place in reversed(range(at, at + width)):
        tens = values // 10
        texts[:, place] = values - 10 * tens + ord("0")
        values = tens


# --- read ------------------------------------------------------------------------------------------------------------


def _only_column(batch: pa.RecordBatch) -> Iterator[pa.Array]:
    yield batch.column(0)


def _text(session: SparkSession, path: str, source: str) -> Keys:
    frame = session.read.text(_must_exist(session, path, source)).withColumnRenamed("value", KEY).where("key <> ''")
    return Keys(source, frame.distinct(), _only_column)


def _column(session: SparkSession, path: str, column: str, source: str) -> Keys:
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    place = _must_exist(session, path, source)
    try:
        frame = session.read.parquet(place)
    except PySparkException as error:
        raise ConfigError(f"--keys {source}: {path} cannot be read as Parquet: {error.getCondition()}") from None
    column = column or (frame.columns[0] if len(frame.columns) == 1 else KEY)
    if column not in frame.columns:
        raise ConfigError(f"--keys {source}: there is no column {column!r}; there are {', '.join(frame.columns)}")
    chosen = frame.select(f.col(column).cast("string").alias(KEY)).where(f.col(KEY).isNotNull())
    return Keys(source, chosen.distinct(), _only_column)


def _recorded(session: SparkSession, warehouse: str, source: str) -> Keys:
    """Every service in the event log, once."""
    cleaned = Warehouse.existing(warehouse).table(session, "cleaned", CLEANED)
    services = cleaned.where("service is not null").select(cleaned.service.alias(KEY))
    return Keys(source, services.distinct(), _only_column)


def _jars(session: SparkSession, directory: Path, source: str) -> Keys:
    """Every class name in the jars of a directory that the executors see too, once each."""
    paths = sorted(str(path) for path in directory.glob("*.jar"))
    if not paths:
        raise ConfigError(f"--keys {source}: there are no .jar files in {directory}")
    parts = min(len(paths), session.sparkContext.defaultParallelism * PARTITIONS_PER_CORE)
    listed = session.createDataFrame(pa.table({"path": paths})).repartition(parts)
    names = listed.mapInArrow(_classes, "key string, place string, problem string")
    return Keys(
        source,
        names.where("problem is null").select(KEY).distinct(),
        _only_column,
        names.where("problem is not null").select("place", "problem"),
    )


def _classes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for path in batch.column(0).to_pylist():
            names, problem = list[str](), None
            try:
                with zipfile.ZipFile(path) as jar:
                    names = [_class_name(entry) for entry in jar.namelist() if entry.endswith(".class")]
            except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile) as error:
                problem = f"cannot be read as a jar: {error}"
            rows = len(names) if problem is None else 1
            yield pa.record_batch(
                {
                    "key": pa.array(names if problem is None else [None], pa.string()),
                    "place": pa.array([Path(path).name] * rows, pa.string()),
                    "problem": pa.array([problem] * rows, pa.string()),
                }
            )


def _class_name(entry: str) -> str:
    """``META-INF/versions/9/org/x/Y$Z.class`` and ``org/x/Y$Z.class`` are ``org.x.Y$Z``."""
    parts = entry.removesuffix(".class").split("/")
    if parts[:2] == ["META-INF", "versions"]:
        parts = parts[3:]
    return ".".join(parts)


def _must_exist(session: SparkSession, path: str, source: str) -> str:
    """What Spark is told."""
    location = Location.of(path)
    if not Files(session).exists(location):
        raise ConfigError(f"--keys {source}: {path} does not exist")
    return location.uri
