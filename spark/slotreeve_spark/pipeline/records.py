"""The event log's records as columns, and what is wrong with those that are not fit.

A log is a directory of ``*.jsonl`` files, one JSON object a line, each file finished when it has that name. Every
record has ``v`` (schema version), ``id`` (unique), ``at_ms`` (wall clock of the node), ``node`` and ``kind``; the
other fields depend on the kind. Fields that this version does not know are left alone, so that newer
writers of the same version can be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

VERSION = 1
"""The newest schema version that can be read."""

RECORD = (
    "v int, id string, at_ms bigint, node string, kind string, "
    "service string, register_id string, version bigint, subscribers int, "
    "changes array<struct<register_id: string, version: bigint>>, "
    "epoch bigint, term bigint, reason string, "
    "changed array<struct<slot: int, leader: string, leader_epoch: bigint, followers: array<string>>>, "
    "moves array<struct<slot: int, kind: string, source: string, target: string, reason: string>>, "
    "member string, role string, zone string, weight double, leader string"
)
"""Of a record, as in the log."""

NEEDED: dict[str, tuple[str, ...]] = {
    "registered": ("service", "register_id"),
    "unregistered": ("service", "register_id"),
    "expired": ("service", "register_id"),
    "pushed": ("service",),
    "table": ("epoch", "changed"),
    "node_joined": ("member", "role"),
    "node_left": ("member", "role"),
    "leader": ("term",),
}
"""Kinds of records, and the fields without which one makes no sense."""

RAW = "line string, file string"
CLEANED = f"at timestamp, {RECORD}"
QUARANTINE = "line string, file string, problem string"


def parse(raw: DataFrame) -> DataFrame:
    """``raw`` (:data:`RAW`) with the columns ``record`` (struct), ``at`` and ``problem``, which is null where all is
    well."""
    from pyspark.sql import functions as f

    # A leap into SQL's own parser: no Python touches a record.
    parsed = raw.withColumn("record", f.from_json("line", f"{RECORD}, corrupt string", {
        "mode": "PERMISSIVE", "columnNameOfCorruptRecord": "corrupt",
    }))  # fmt: skip
    return parsed.withColumn("problem", problem()).withColumn("at", f.timestamp_millis(f.col("record.at_ms")))


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
    return found
