"""From the event log to the tables ``raw``, ``cleaned`` and ``quarantine``, by Structured Streaming.

Three queries, each with a checkpoint, each into a Parquet sink that commits whole batches: run again, or killed and run
again, nothing is stored twice and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from slotreeve.errors import ConfigError, StorageError
from slotreeve_events.segments import FINISHED, OPEN

from slotreeve_spark.pipeline.records import CLEANED, QUARANTINE, RAW, clean, parse
from slotreeve_spark.report.results import Directory
from slotreeve_spark.session import first_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

FINISHED_FILES, ALL_FILES = f"*{FINISHED}", f"*{{{FINISHED},{OPEN}}}"
FILES_A_BATCH = 200
LATENESS = "1 day"
EVERY_SECONDS = 10


@dataclass(frozen=True)
class Ingested:
    """What one run did.

    Attributes:
        lines: new lines read from the log.
        cleaned: good records stored, duplicates left out.
        quarantined: bad lines stored with their problem.
        late: good records that came later than the allowed lateness, and were dropped.
    """

    lines: int
    cleaned: int
    quarantined: int
    late: int


@dataclass(frozen=True)
class Warehouse:
    """A directory of tables: ``raw``, ``cleaned``, ``quarantine``, ``marts/...``, and the ``checkpoints``."""

    directory: Directory

    @classmethod
    def open(cls, path: Path) -> Warehouse:
        """Create the directory if it is missing. Raises StorageError if it cannot be written."""
        return cls(Directory.make(path))

    @classmethod
    def existing(cls, path: Path) -> Warehouse:
        """One to read from. Raises ConfigError if there is none."""
        if not path.is_dir():
            raise ConfigError(f"{path}: there is no such warehouse; `slotreeve spark ingest` makes one")
        return cls(Directory(path))

    def place(self, name: str) -> str:
        """Where a table is."""
        return str(self.directory.path / name)

    def table(self, session: SparkSession, name: str, columns: str) -> DataFrame:
        """A table as it is stored; empty where nothing has been stored yet."""
        if not (self.directory.path / name).exists():
            return session.createDataFrame([], columns)
        return session.read.schema(columns).parquet(self.place(name))


def must_be_a_log(path: Path) -> None:
    """Raises ConfigError if it is no directory."""
    if not path.is_dir():
        raise ConfigError(f"{path}: there is no such directory of event logs; servers write one at [events] path")


def ingest(
    session: SparkSession, log: Path, warehouse: Warehouse, lateness: str = LATENESS, unfinished: bool = False
) -> Ingested:
    """Take in everything that is new in the log, and return.

    ``unfinished`` segments are read too, as far as they are written: those of servers that were killed, for example.
    What a server adds to one later is read once the segment is finished; the ids of records prevent that one is stored
    twice.

    Raises:
        ConfigError: there is no such directory, or ``lateness`` is no interval.
        StorageError: Spark cannot read the log or write the tables.
    """
    must_be_a_log(log)
    before = _counts(session, warehouse)
    lines = sum(_run(start) for start in _land(session, log, warehouse, ALL_FILES if unfinished else FINISHED_FILES))
    late = [0]
    for start in _clean(session, warehouse, lateness):
        _run(start, late)
    after = _counts(session, warehouse)
    return Ingested(lines, after[0] - before[0], after[1] - before[1], late[0])


def follow(session: SparkSession, log: Path, warehouse: Warehouse, lateness: str = LATENESS) -> list[StreamingQuery]:
    """Go on taking in what comes, every few seconds; the running queries.

    Raises:
        ConfigError: there is no such directory.
    """
    must_be_a_log(log)
    for start in _land(session, log, warehouse):
        _run(start)  # so that there is a table to read on from
    every = f"{EVERY_SECONDS} seconds"
    starts = [*_land(session, log, warehouse), *_clean(session, warehouse, lateness)]
    return [start(lambda writer: writer.trigger(processingTime=every)) for start in starts]


Triggered = Callable[["DataStreamWriter"], "DataStreamWriter"]
Start = Callable[[Triggered], "StreamingQuery"]


def _land(session: SparkSession, log: Path, warehouse: Warehouse, files: str = FINISHED_FILES) -> list[Start]:
    """Log -> raw."""
    from pyspark.sql import functions as f

    lines = (
        session.readStream.option("pathGlobFilter", files)
        .option("maxFilesPerTrigger", FILES_A_BATCH)
        .option("recursiveFileLookup", "true")
        .text(str(log))
        .select(f.col("value").alias("line"), f.col("_metadata.file_name").alias("file"))
        .where("line <> ''")
    )
    return [_sink(lines, warehouse, "raw")]


def _clean(session: SparkSession, warehouse: Warehouse, lateness: str) -> list[Start]:
    """Raw -> cleaned and quarantine."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    raw = session.readStream.schema(RAW).parquet(warehouse.place("raw"))
    try:
        unique = clean(parse(raw)).withWatermark("at", lateness).dropDuplicatesWithinWatermark(["id"])
    except PySparkException:
        raise ConfigError(f"--lateness {lateness!r} is no interval; expected e.g. '1 day' or '90 minutes'") from None
    bad = parse(raw).where("problem is not null").select("line", "file", "problem")
    day = unique.withColumn("day", f.to_date("at"))
    return [_sink(day, warehouse, "cleaned", "day"), _sink(bad, warehouse, "quarantine")]


def _sink(frame: DataFrame, warehouse: Warehouse, name: str, *partitions: str) -> Start:
    def start(triggered: Triggered) -> StreamingQuery:
        writer = frame.writeStream.format("parquet").option(
            "checkpointLocation", warehouse.place(f"checkpoints/{name}")
        )
        return triggered(writer.partitionBy(*partitions).queryName(name)).start(warehouse.place(name))

    return start


def _run(start: Start, late: list[int] | None = None) -> int:
    """Run a query over what is there; how many rows it read. Adds the late ones to ``late``."""
    from pyspark.errors import PySparkException, StreamingQueryException

    try:
        query = start(lambda writer: writer.trigger(availableNow=True))
        query.awaitTermination()
    except StreamingQueryException as error:
        raise StorageError(f"the pipeline stopped: {first_line(error)}") from None
    except PySparkException as error:
        raise ConfigError(f"the pipeline does not start: {first_line(error)}") from None
    progress = query.recentProgress
    if late is not None:
        late[0] += sum(int(s["numRowsDroppedByWatermark"]) for p in progress for s in p["stateOperators"])
    return sum(int(p["numInputRows"]) for p in progress)


def _counts(session: SparkSession, warehouse: Warehouse) -> tuple[int, int]:
    return (
        warehouse.table(session, "cleaned", CLEANED).count(),
        warehouse.table(session, "quarantine", QUARANTINE).count(),
    )
