"""Marts: tables that answer questions, made from ``cleaned``, each time as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from slotreeve.errors import ConfigError

from slotreeve_spark.pipeline.records import CLEANED
from slotreeve_spark.pipeline.warehouse import Warehouse
from slotreeve_spark.progress import JobProgress, Say, nothing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COME_AND_GO = ("registered", "unregistered", "expired")


def build(session: SparkSession, warehouse: Warehouse, names: Sequence[str] = (), say: Say = nothing) -> dict[str, int]:
    """Make these marts, else all; number of rows by name. ``say`` takes lines about the progress.

    Raises:
        ConfigError: there is no such mart, or no such warehouse.
        StorageError: a table cannot be written.
    """
    must_be_marts(names)
    cleaned = warehouse.table(session, "cleaned", CLEANED)
    progress, rows = JobProgress(say), dict[str, int]()
    progress.begin(len(names or MARTS))
    for name in names or MARTS:
        with progress.job(f"mart {name}", session):
            rows[name] = warehouse.write_mart(name, MARTS[name](cleaned)).count()
    return rows


def must_be_marts(names: Sequence[str]) -> None:
    """Raises ConfigError where a name is none of :data:`MARTS`."""
    if unknown := [name for name in names if name not in MARTS]:
        raise ConfigError(f"there is no mart {unknown[0]!r}; there are {', '.join(MARTS)}")


def service_timeline(cleaned: DataFrame) -> DataFrame:
    """Every coming and going of a provider: ``service, at, kind, register_id, node, providers``, the last being how
    many there are from then on. A registration that is repeated adds no provider."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    # Of one registration much can happen in a millisecond, but versions rise; it expires under its last.
    of_one = Window.partitionBy("service", "register_id").orderBy("at", "version", f.col("here").desc())
    # What happens in one millisecond has no order between registrations: it counts together.
    of_all = Window.partitionBy("service").orderBy("at").rangeBetween(Window.unboundedPreceding, Window.currentRow)
    here = f.when(f.col("kind") == "registered", 1).otherwise(0)
    return (
        cleaned.where(cleaned.kind.isin(*COME_AND_GO))
        .withColumn("here", here)
        .withColumn("change", f.col("here") - f.coalesce(f.lag("here").over(of_one), f.lit(0)))
        .withColumn("providers", f.sum("change").over(of_all))
        .where("change <> 0")
        .select("service", "at", "kind", "register_id", "node", "providers")
    )


def push_latency(cleaned: DataFrame) -> DataFrame:
    """Milliseconds from a session server's taking of a change to the push that carries it: ``service, minute, pushes,
    measured, p50_ms, p95_ms, p99_ms, longest_ms``. ``measured`` pushes are those whose change is in the log; of several
    changes in one push the oldest counts. Both ends are on the clocks of maybe two machines: their offset is part of
    the figure."""
    from pyspark.sql import functions as f

    pushes, sources = _push_origins(cleaned)
    matched = (pushes.register_id == sources.register_id) & pushes.version.eqNullSafe(sources.version)
    origin = (
        pushes.join(sources, matched & (pushes.service == sources.service) & (sources.changed_ms <= pushes.at_ms))
        .groupBy("push", pushes.register_id)
        .agg(f.max("changed_ms").alias("changed_ms"))
        .groupBy("push")
        .agg(f.min("changed_ms").alias("origin_ms"))
    )
    each = pushes.select("push", "service", "at", "at_ms").dropDuplicates(["push"]).join(origin, "push", "left")
    waited = each.withColumn("ms", f.col("at_ms") - f.col("origin_ms"))
    percentiles = (f.percentile_approx("ms", p / 100, 10_000).alias(f"p{p}_ms") for p in (50, 95, 99))
    return waited.groupBy("service", f.date_trunc("minute", "at").alias("minute")).agg(
        f.count("*").alias("pushes"), f.count("ms").alias("measured"), *percentiles, f.max("ms").alias("longest_ms")
    )


def _push_origins(cleaned: DataFrame) -> tuple[DataFrame, DataFrame]:
    """A row for each change of each push, and for each change as it was taken; version null for what is gone."""
    from pyspark.sql import functions as f

    pushes = cleaned.where("kind = 'pushed'").select(
        f.col("id").alias("push"), "service", "at", "at_ms", f.explode_outer("changes").alias("change")
    )
    gone = f.when(f.col("kind") == "registered", f.col("version"))
    sources = cleaned.where(cleaned.kind.isin(*COME_AND_GO)).select(
        "service", "register_id", gone.alias("version"), f.col("at_ms").alias("changed_ms")
    )
    return pushes.select("push", "service", "at", "at_ms", "change.register_id", "change.version"), sources


def slot_history(cleaned: DataFrame) -> DataFrame:
    """Holders of each slot over time: ``slot, epoch, term, valid_from, valid_until, leader, leader_epoch, followers``;
    ``valid_until`` is null for what holds now. It is in order of time, so that a reader skips what is later."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    of_slot = Window.partitionBy("slot").orderBy("epoch")
    rows = cleaned.where("kind = 'table'").select("at", "epoch", "term", f.explode("changed").alias("row"))
    return (
        rows.select("at", "epoch", "term", "row.*")
        .dropDuplicates(["slot", "epoch"])
        .withColumn("valid_until", f.lead("at").over(of_slot))
        .select(
            "slot",
            "epoch",
            "term",
            f.col("at").alias("valid_from"),
            "valid_until",
            "leader",
            "leader_epoch",
            "followers",
        )
        .orderBy("valid_from", "slot")
    )


def moves(cleaned: DataFrame) -> DataFrame:
    """Every move of a slot: ``at, epoch, slot, kind, source, target, reason, cause``; ``cause`` is the reason without
    names and numbers."""
    from pyspark.sql import functions as f

    rows = cleaned.where("kind = 'table'").select("at", "epoch", f.explode("moves").alias("move"))
    named = f.regexp_replace("reason", r"\b[A-Za-z]+-[\w.-]+|\b\d+(\.\d+)*(:\d+)?\b", "_")
    return rows.select("at", "epoch", "move.*").withColumn("cause", named)


def moves_by_cause(cleaned: DataFrame) -> DataFrame:
    """Moves counted: ``cause, kind, moves, first, last``."""
    from pyspark.sql import functions as f

    grouped = moves(cleaned).groupBy("cause", "kind")
    return grouped.agg(f.count("*").alias("moves"), f.min("at").alias("first"), f.max("at").alias("last"))


def membership(cleaned: DataFrame) -> DataFrame:
    """Data servers that joined and left: ``at, member, joined, zone, weight, reason``."""
    rows = cleaned.where("kind in ('node_joined', 'node_left') and role = 'data'")
    return rows.selectExpr("at", "member", "kind = 'node_joined' as joined", "zone", "weight", "reason")


def slot_loads(cleaned: DataFrame) -> DataFrame:
    """Loads of slots as meta leaders recorded them: ``at, slot, records, bytes, writes_per_second``. A slot has a row
    for each noticeable change."""
    from pyspark.sql import functions as f

    rows = cleaned.where("kind = 'loads'").select("at", f.explode("loads").alias("load"))
    return rows.select("at", "load.*").orderBy("at", "slot")


def staleness(cleaned: DataFrame) -> DataFrame:
    """Services by what their subscribers last saw: ``service, last_change, last_push, stale_seconds``, the last being
    how long the newest change has gone unpushed at the end of the log; 0 where a push came after it, null where nothing
    was ever pushed, as there may be no subscriber."""
    from pyspark.sql import functions as f

    change = f.max(f.when(f.col("kind").isin(*COME_AND_GO), f.col("at"))).alias("last_change")
    push = f.max(f.when(f.col("kind") == "pushed", f.col("at"))).alias("last_push")
    grouped = cleaned.where(cleaned.kind.isin("pushed", *COME_AND_GO)).groupBy("service").agg(change, push)
    latest = cleaned.agg(f.max("at").alias("end"))
    waited = f.when(
        f.col("last_change") > f.col("last_push"), f.unix_millis("end") / 1000 - f.unix_millis("last_change") / 1000
    ).otherwise(f.when(f.col("last_push").isNotNull(), f.lit(0.0)))
    return grouped.crossJoin(latest).withColumn("stale_seconds", waited).drop("end")


MARTS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "service_timeline": service_timeline,
    "push_latency": push_latency,
    "slot_history": slot_history,
    "moves": moves,
    "moves_by_cause": moves_by_cause,
    "membership": membership,
    "slot_loads": slot_loads,
    "staleness": staleness,
}
"""How each mart is made from ``cleaned``."""
