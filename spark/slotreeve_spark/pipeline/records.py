"""The event log's records as columns, and what is wrong with those that are not fit.

A log is a directory of ``*.jsonl`` files, one JSON object a line, each file finished when it has that name. Every
record has ``v`` (schema version), ``id`` (unique), ``at_ms`` (wall clock of the node), ``node`` and ``kind``; the
other fields depend on the kind. Fields that this version does not know are left alone, so that newer
writers of the same version can be read. Registrations come in columns, many a line, and are rows of their own once
cleaned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

VERSION = 1
"""The newest schema version that can be read."""

_HEAD = "v int, id string, at_ms bigint, node string, kind string, service string"
_COLUMNS = "services array<string>, register_ids array<string>, versions array<bigint>"
_TAIL = (
    "subscribers int, "
    "changes array<struct<register_id: string, version: bigint>>, "
    "epoch bigint, term bigint, reason string, "
    "changed array<struct<slot: int, leader: string, leader_epoch: bigint, followers: array<string>>>, "
    "moves array<struct<slot: int, kind: string, source: string, target: string, reason: string>>, "
    "member string, role string, zone string, weight double, leader string"
)
RECORD = f"{_HEAD}, {_COLUMNS}, {_TAIL}"
"""Of a record, as in the log."""

_IN_COLUMNS = ("services", "register_ids", "versions")

NEEDED: dict[str, tuple[str, ...]] = {
    "registered": _IN_COLUMNS,
    "unregistered": _IN_COLUMNS,
    "expired": _IN_COLUMNS,
    "pushed": ("service",),
    "table": ("epoch", "changed"),
    "node_joined": ("member", "role"),
    "node_left": ("member", "role"),
    "leader": ("term",),
}
"""Kinds of records, and the fields without which one makes no sense."""

RAW = "line string, file string"
CLEANED = f"at timestamp, {_HEAD}, register_id string, version bigint, {_TAIL}"
QUARANTINE = "line string, file string, problem string"


def parse(raw: DataFrame) -> DataFrame:
    """``raw`` (:data:`RAW`) with the columns ``record`` (struct), ``at`` and ``problem``, which is null where all is
    well."""
    from pyspark.sql import functions as f

    # SQL's own parser: no Python runs for a record.
    parsed = raw.withColumn(
        "record",
        f.from_json(
            "line",
            f"{RECORD}, corrupt string",
            {
                "mode": "PERMISSIVE",
                "columnNameOfCorruptRecord": "corrupt",
            },
        ),
    )
    return parsed.withColumn("problem", problem()).withColumn("at", f.timestamp_millis(f.col("record.at_ms")))


def clean(parsed: DataFrame) -> DataFrame:
    """The good ones of :func:`parse`, in the columns of :data:`CLEANED`: a row for each registration, whose id is that
    of its line and its place there; else a row a line."""
    from pyspark.sql import functions as f

    good = parsed.where("problem is null").select("at", "record.*")
    many = f.arrays_zip(*_IN_COLUMNS)
    rows = good.select("*", f.posexplode_outer(many).alias("place", "one"))
    return rows.select(
        "at",
        "v",
        f.concat_ws("+", "id", "place").alias("id"),
        "at_ms",
        "node",
        "kind",
        f.coalesce("one.services", "service").alias("service"),
        f.col("one.register_ids").alias("register_id"),
        f.col("one.versions").alias("version"),
        *_names(_TAIL),
    )


def _names(columns: str) -> list[str]:
    from pyspark.sql.types import StructType

    described = StructType.fromDDL(columns)
    assert isinstance(described, StructType)
    return described.names


def problem() -> Column:
    """Why a parsed line is no good record; null where it is one."""
    from pyspark.sql import functions as f

    record = f.col("record")
    found = f.when(record.isNull() | record["corrupt"].isNotNull(), f.lit("not a JSON record (torn or damaged)"))
    found = found.when(record["v"].isNull(), f.lit("no schema version v"))
    found = found.when(
        record["v"] > VERSION,
        f.concat(f.lit("schema version "), record["v"], f.lit(f" is newer than {VERSION}: update slotreeve")),
    )
    found = found.when(record["v"] < 1, f.concat(f.lit("there is no schema version "), record["v"]))
    for name in ("id", "at_ms", "node", "kind"):
        found = found.when(record[name].isNull(), f.lit(f"no {name}"))
    found = found.when(~record["kind"].isin(*NEEDED), f.concat(f.lit("unknown kind "), record["kind"]))
    for kind, names in NEEDED.items():
        for name in names:
            found = found.when((record["kind"] == kind) & record[name].isNull(), f.lit(f"{kind} without {name}"))
    sizes = [f.size(record[name]) for name in _IN_COLUMNS]
    return found.when(
        (sizes[0] != sizes[1]) | (sizes[1] != sizes[2]), f.lit(f"{', '.join(_IN_COLUMNS)} differ in length")
    )
