"""The event log's lines as columns, and what is wrong with the lines that are unusable.

A log is a directory of ``*.jsonl`` files with one JSON object a line. Its schema is :mod:`slotreeve_events.schema`.
Fields that this version does not know are ignored, so that the lines of newer writers of the same schema version can
be read. A line holds many registrations; the cleaned table has one row for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slotreeve_events.schema import COMMON, KINDS, REGISTRATION_LISTS, VERSION, Event

from slotreeve_spark.pipeline.columns import event_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_HEAD = (*COMMON, "service")
_TAIL = tuple(name for name in Event.__struct_fields__ if name not in {*_HEAD, *REGISTRATION_LISTS})

EVENT = event_columns()
"""The columns of an event, as in the log."""
LATEST_MS = 253_402_300_799_999
"""The end of the year 9999, in milliseconds since 1970."""
AHEAD_MS = 86_400_000
"""A clock may be ahead by so many milliseconds of the one by which lines are taken in. A line from farther ahead would
let all others count as late."""
RAW = "line string, file string, taken timestamp"
CLEANED = f"at timestamp, {event_columns(_HEAD)}, register_id string, version bigint, {event_columns(_TAIL)}"
"""The columns of the cleaned table: those of an event, but one row for each registration."""
QUARANTINE = "line string, file string, problem string"


def parse(raw: DataFrame) -> DataFrame:
    """``raw`` (:data:`RAW`) with the columns ``record`` (struct), ``at`` and ``problem``, which is null for a good
    line."""
    from pyspark.sql import functions as f

    # Spark's own JSON parser: no Python code runs for a line.
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "corrupt"}
    parsed = raw.withColumn("record", f.from_json("line", f"{EVENT}, corrupt string", options))
    at = f.when(f.col("problem").isNull(), f.timestamp_millis(f.col("record.at_ms")))
    return parsed.withColumn("problem", problem()).withColumn("at", at)


def clean(parsed: DataFrame) -> DataFrame:
    """The good lines of :func:`parse` in the columns of :data:`CLEANED`.

    A line of registrations becomes one row for each, whose id is the line's id and the place in the line. Any other
    line becomes one row.
    """
    from pyspark.sql import functions as f

    good = parsed.where("problem is null").select("at", "record.*")
    rows = good.select("*", f.posexplode_outer(f.arrays_zip(*REGISTRATION_LISTS)).alias("place", "one"))
    changed = {
        "id": f.concat_ws("+", "id", "place").alias("id"),
        "service": f.coalesce("one.services", "service").alias("service"),
    }
    head = [changed.get(name, f.col(name)) for name in _HEAD]
    one = [f.col("one.register_ids").alias("register_id"), f.col("one.versions").alias("version")]
    return rows.select("at", *head, *one, *_TAIL)


def problem() -> Column:
    """Why a parsed line is unusable; null for a good line."""
    from pyspark.sql import functions as f

    record = f.col("record")
    found = f.when(record.isNull() | record["corrupt"].isNotNull(), f.lit("not a JSON record (torn or damaged)"))
    found = found.when(record["v"].isNull(), f.lit("no schema version v"))
    found = found.when(
        record["v"] > VERSION,
        f.concat(f.lit("schema version "), record["v"], f.lit(f" is newer than {VERSION}: update slotreeve")),
    )
    found = found.when(record["v"] < 1, f.concat(f.lit("there is no schema version "), record["v"]))
    for name in COMMON[1:]:
        found = found.when(record[name].isNull(), f.lit(f"no {name}"))
    found = found.when(~record["kind"].isin(*KINDS), f.concat(f.lit("unknown kind "), record["kind"]))
    for kind, names in KINDS.items():
        for name in names:
            found = found.when((record["kind"] == kind) & record[name].isNull(), f.lit(f"{kind} without {name}"))
    at_ms = record["at_ms"]
    found = found.when(~at_ms.between(0, LATEST_MS), f.lit("at_ms is no moment from 1970 to 9999"))
    ahead = at_ms > f.unix_millis("taken") + AHEAD_MS
    found = found.when(ahead, f.lit("at_ms is over a day ahead of the clock of who took the line in"))
    sizes = [f.size(record[name]) for name in REGISTRATION_LISTS]
    found = found.when(
        (sizes[0] != sizes[1]) | (sizes[1] != sizes[2]), f.lit(f"{', '.join(REGISTRATION_LISTS)} differ in length")
    )
    for name in REGISTRATION_LISTS:
        empty = (f.size(record[name]) == 0) | f.exists(record[name], lambda one: one.isNull())
        found = found.when(record[name].isNotNull() & empty, f.lit(f"{name} is empty, or has a hole"))
    return found
