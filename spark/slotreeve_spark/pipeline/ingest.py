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

from slotreeve_spark.location import Files, Location
from slotreeve_spark.pipeline.records import RAW, clean, parse
from slotreeve_spark.pipeline.warehouse import Warehouse
from slotreeve_spark.session import first_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

FINISHED_FILES, ALL_FILES = f"*{FINISHED}", f"*{{{FINISHED},{OPEN}}}"
FILES_A_BATCH = 200
LATENESS = "1 day"
ANY_AGE = "36500d"
"""By default Spark passes over files that are a week older than the newest one that it has seen."""
EVERY_SECONDS = 10
STORED = "stored"
"""Name of the count of rows that a batch stores."""


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


def event_log(given: str | Path) -> Location:
    """Where an event log is. Raises ConfigError if it is local and no directory."""
    location = Location.of(given).plain()
    if location.local is not None and not location.local.is_dir():
        raise _no_log(location)
    return location


def _no_log(location: Location) -> ConfigError:
    return ConfigError(f"{location}: there is no such directory of event logs; servers write one at [events] path")


def _prepare(session: SparkSession, log: Location, warehouse: Warehouse) -> None:
    if not Files(session).exists(log):
        raise _no_log(log)
    warehouse.make(session)


def ingest(
    session: SparkSession, log: str | Path, warehouse: Warehouse, lateness: str = LATENESS, unfinished: bool = False
) -> Ingested:
    """Take in everything that is new in the log, and return.

    ``unfinished`` segments are read too, as far as they are written: those of servers that were killed, for example.
    What a server adds to one later is read once the segment is finished; the ids of records prevent that one is stored
    twice.

    Raises:
        ConfigError: there is no such directory, or ``lateness`` is no interval.
        StorageError: Spark cannot read the log or write the tables.
    """
    place = event_log(log)
    _prepare(session, place, warehouse)
    landed = _run(_land(session, place, warehouse, ALL_FILES if unfinished else FINISHED_FILES))
    cleaned, quarantined = (_run(start) for start in _clean(session, warehouse, lateness))
    return Ingested(landed.read, cleaned.stored, quarantined.stored, cleaned.late)


def follow(
    session: SparkSession, log: str | Path, warehouse: Warehouse, lateness: str = LATENESS
) -> list[StreamingQuery]:
    """Go on taking in what comes, every few seconds; the running queries.

    Raises:
        ConfigError: there is no such directory.
    """
    place = event_log(log)
    _prepare(session, place, warehouse)
    _run(_land(session, place, warehouse))  # so that there is a table to read on from
    session.streams.resetTerminated()  # else wait() ends with that one
    every = f"{EVERY_SECONDS} seconds"
    starts = [_land(session, place, warehouse), *_clean(session, warehouse, lateness)]
    return [start(lambda writer: writer.trigger(processingTime=every)) for start in starts]


def wait(session: SparkSession) -> None:
    """Wait until one of the running queries stops. Raises StorageError: it cannot go on."""
    from pyspark.errors import StreamingQueryException

    try:
        session.streams.awaitAnyTermination()
    except StreamingQueryException as error:
        raise _stopped(error) from None


def _stopped(error: BaseException) -> StorageError:
    return StorageError(f"the pipeline stopped: {first_line(error)}")


Triggered = Callable[["DataStreamWriter"], "DataStreamWriter"]
Start = Callable[[Triggered], "StreamingQuery"]


def _land(session: SparkSession, log: Location, warehouse: Warehouse, files: str = FINISHED_FILES) -> Start:
    """Log -> raw."""
    from pyspark.sql import functions as f

    lines = (
        session.readStream.option("pathGlobFilter", files)
        .option("maxFilesPerTrigger", FILES_A_BATCH)
        .option("recursiveFileLookup", "true")
        .option("maxFileAge", ANY_AGE)
        .text(log.uri)
        .select(
            f.col("value").alias("line"),
            f.col("_metadata.file_name").alias("file"),
            f.current_timestamp().alias("taken"),
        )
        .where("line <> ''")
    )
    return _sink(lines, warehouse, "raw")


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
    from pyspark.sql import functions as f

    counted = frame.observe(STORED, f.count(f.lit(1)).alias(STORED))

    def start(triggered: Triggered) -> StreamingQuery:
        writer = counted.writeStream.format("parquet").option(
            "checkpointLocation", warehouse.place(f"checkpoints/{name}")
        )
        return triggered(writer.partitionBy(*partitions).queryName(name)).start(warehouse.place(name))

    return start


@dataclass(frozen=True)
class _Counts:
    """Rows that one run of a query read, stored, and dropped as too late."""

    read: int
    stored: int
    late: int


def _run(start: Start) -> _Counts:
    """Run a query over what is there. The counts are those of its batches: the tables are not read for them."""
    from pyspark.errors import PySparkException, StreamingQueryException

    try:
        query = start(lambda writer: writer.trigger(availableNow=True))
        query.awaitTermination()
    except StreamingQueryException as error:
        raise _stopped(error) from None
    except PySparkException as error:
        raise ConfigError(f"the pipeline does not start: {first_line(error)}") from None
    progress = query.recentProgress
    stored = (p["observedMetrics"].get(STORED) for p in progress)
    return _Counts(
        sum(int(p["numInputRows"]) for p in progress),
        sum(int(row[STORED]) for row in stored if row is not None),
        sum(int(s["numRowsDroppedByWatermark"]) for p in progress for s in p["stateOperators"]),
    )
