"""Compaction: the many small files that ingest writes become few large ones, and every reader sees each record once.

The small files of a finished day are rewritten beside the table, sorted so that a reader of a few kinds of events skips
the rest; a manifest that is written last says which files the new ones replace. The files that are replaced are deleted
by a later run, so that no reader loses what it reads. Killed at any point, a run has changed nothing that readers see
(before the manifest) or everything (after it); the next run does what is left.

``raw`` stays as it is: the streaming queries read it file by file, and everything can be made from it again.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slotreeve.errors import ConfigError, StorageError

from slotreeve_spark.location import Files
from slotreeve_spark.pipeline.manifests import Manifest, encode
from slotreeve_spark.pipeline.records import CLEANED, QUARANTINE
from slotreeve_spark.pipeline.warehouse import RUN, Warehouse
from slotreeve_spark.session import first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = {"cleaned": (CLEANED, ("kind", "at", "id")), "quarantine": (QUARANTINE, ("file", "line"))}
"""By table that is compacted: its columns, and the order of its rows in the large files."""
FILE_BYTES = 256 * 2**20
KEEP_HOURS = 24.0
_DAY = re.compile(r"(day=[^/]+)/[^/]+")
_FLAT = re.compile(r"[^/=]+")
_STARTED = re.compile(rf"(?:day=[^/]+/)?{RUN}=(\d+)-")


@dataclass(frozen=True)
class Rewrite:
    """Files of one day, or of a table without days, that become one group of large files.

    Attributes:
        files: below the table's place.
        directory: of the new files, below the table's place in ``compacted``; new for every attempt.
        parts: number of the new files.
    """

    table: str
    files: tuple[str, ...]
    directory: str
    parts: int


@dataclass(frozen=True)
class Compacted:
    """What one run did with a table: days rewritten (a table without days counts as one), files before and after, and
    files that earlier runs had replaced and this one deleted."""

    table: str
    days: int
    files_before: int
    files_after: int
    deleted: int


def compact(
    session: SparkSession, warehouse: Warehouse, keep_hours: float = KEEP_HOURS, file_bytes: int = FILE_BYTES
) -> list[Compacted]:
    """Rewrite every finished day, and delete what was replaced more than ``keep_hours`` ago.

    A second run at the same time does no harm: of two that rewrite the same day one wins.

    Raises:
        ConfigError: there is no such warehouse, or ``keep_hours`` is negative.
        StorageError: a table cannot be read or written.
    """
    if keep_hours < 0:
        raise ConfigError(f"--keep-hours {keep_hours:g}: expected 0 or more")
    warehouse.must_exist(session)
    done = []
    for table in TABLES:
        days = before = after = 0
        for job in plan(session, warehouse, table, file_bytes):
            written = rewrite(session, warehouse, job)
            if publish(session, warehouse, job):
                days, before, after = days + 1, before + len(job.files), after + written
        done.append(Compacted(table, days, before, after, sweep(session, warehouse, table, keep_hours)))
    return done


def plan(session: SparkSession, warehouse: Warehouse, table: str, file_bytes: int = FILE_BYTES) -> list[Rewrite]:
    """What there is to do: each day but the newest, as far as it is not compacted; days are those of the records. Files
    that no streaming query committed are left alone."""
    columns = TABLES[table][0]
    if not warehouse.has(session, table):
        return []
    whole = session.read.schema(columns).parquet(warehouse.place(table))
    replaced = {file for part in warehouse.manifests(session, table) for file in part.files}
    groups: dict[str, list[str]] = {}
    every_day = set[str]()
    for file in warehouse.files(whole, table):
        dated = _DAY.fullmatch(file)
        if dated or _FLAT.fullmatch(file):
            name = dated[1] if dated else ""
            every_day.add(name)
            if file not in replaced:
                groups.setdefault(name, []).append(file)
    newest = max(every_day, default="")
    sizes = {file.name: file.size for file in Files(session).below(warehouse.location.child(table))}
    jobs = []
    for day, files in sorted(groups.items()):
        alone = not day and len(files) == 1
        if alone or (day and day == newest):
            continue
        run = f"{RUN}={round(time.time() * 1000)}-{uuid.uuid4().hex[:12]}"
        parts = -(-sum(sizes.get(file, 0) for file in files) // file_bytes)
        jobs.append(Rewrite(table, tuple(files), f"{day}/{run}" if day else run, max(1, parts)))
    return jobs


def rewrite(session: SparkSession, warehouse: Warehouse, job: Rewrite) -> int:
    """Write the large files; nobody sees them yet. How many there are.

    Raises:
        StorageError: they cannot be written, or do not have as many rows as the small ones.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    columns, order = TABLES[job.table]
    small = warehouse.read_files(session, job.table, columns, list(job.files))
    target = warehouse.compacted(job.table).child(job.directory)
    ranged = small.coalesce(1) if job.parts == 1 else small.repartitionByRange(job.parts, *order)
    try:
        # The day is in the name of the directory.
        ranged.drop("day").sortWithinPartitions(*order).write.mode("overwrite").parquet(target.uri)
        large = session.read.parquet(target.uri)
        expected, found = small.count(), large.count()
    except (Py4JJavaError, PySparkException) as error:
        raise StorageError(f"{target}: cannot be compacted: {first_line(error)}") from None
    if found != expected:
        raise StorageError(f"{target}: {found:,} rows were written of {expected:,}; the small files stay in use")
    return len(large.inputFiles())


def publish(session: SparkSession, warehouse: Warehouse, job: Rewrite) -> bool:
    """Put the large files in the place of the small ones, for every reader that begins from now on. False if another
    compaction did so first; the large files are of no use then, and are swept later."""
    files, place = Files(session), warehouse.manifest_place(job.table)
    if not files.exists(warehouse.compacted(job.table).child(f"{job.directory}/_SUCCESS")):
        return False
    parts = warehouse.manifests(session, job.table)
    if {file for part in parts for file in part.files} & set(job.files):
        return False
    # A number that is taken by a torn manifest is taken, too.
    number = max((int(file.name) for file in files.below(place) if file.name.isdigit()), default=0) + 1
    manifest = Manifest(number, tuple(part.number for part in parts), job.directory, job.files)
    files.make(place)
    return files.create(place.child(f"{number:08d}"), encode(manifest))


def sweep(session: SparkSession, warehouse: Warehouse, table: str, keep_hours: float) -> int:
    """Delete small files that were replaced more than ``keep_hours`` ago, and large ones of runs that were killed or
    came second, if those began as long ago. How many files it deleted."""
    files, before_ms = Files(session), (time.time() - 3_600 * keep_hours) * 1_000
    parts = warehouse.manifests(session, table)
    manifests = files.below(warehouse.manifest_place(table))
    published = {int(file.name): file.changed_ms for file in manifests if file.name.isdigit()}
    replaced = {file for part in parts if published[part.number] <= before_ms for file in part.files}
    place, root = warehouse.location.child(table), warehouse.compacted(table)
    doomed = [place.child(file.name) for file in files.below(place) if file.name in replaced]
    used = {part.directory for part in parts}
    unused = list(_unused((file.name for file in files.below(root)), used, before_ms))
    for location in [*doomed, *(root.child(name) for name in unused)]:
        files.delete(location)
    return len(doomed) + len(unused)


def _unused(names: Iterator[str], used: set[str], before_ms: float) -> Iterator[str]:
    """Files in directories that no manifest names, of attempts that began before then."""
    for name in names:
        started = _STARTED.match(name)
        if started and int(started[1]) <= before_ms and name.rpartition("/")[0] not in used:
            yield name
