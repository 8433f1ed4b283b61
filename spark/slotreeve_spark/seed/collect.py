"""Reads an incident from the warehouse.

The history before the incident is read, too: what was published long ago may be alive in it.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from slotreeve.errors import ConfigError

from slotreeve_spark.pipeline.history import in_words
from slotreeve_spark.pipeline.marts import COME_AND_GO
from slotreeve_spark.pipeline.records import CLEANED
from slotreeve_spark.pipeline.warehouse import Warehouse
from slotreeve_spark.seed.facts import (
    MOST_FACTS,
    Incident,
    MemberEvent,
    ProcessLife,
    RecordedLeader,
    RegistrationFact,
    SeedLimits,
    ServiceCounts,
    What,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

MOST_MEMBER_EVENTS = 10_000
TICK_MS = 100
"""What happens to one client and service in so many milliseconds is one fact."""
OF_CLIENTS = (What.ALIVE, What.PUBLISHED, What.RETURNED, What.EXPIRED)


def recorded_incident(
    session: SparkSession,
    warehouse: Warehouse,
    span: tuple[datetime, datetime],
    limits: SeedLimits,
    service: str | None = None,
) -> Incident:
    """What was recorded between two moments. ``service``: a data info id that is kept in any case.

    Raises:
        ConfigError: nothing was recorded between them, or nothing of that service.
    """
    began, ended = span
    cleaned = warehouse.table(session, "cleaned", CLEANED)
    _must_have_recorded(cleaned, span)
    cleaned = cleaned.where(cleaned["at"] < ended)
    start_ms = round(began.timestamp() * 1000)
    registrations = _registrations(cleaned, began, start_ms).persist()
    try:
        services, all_services = _services(registrations, limits.services, service)
        if service is not None and service not in services:
            raise ConfigError(f"--service {service}: nothing of it was recorded, nor was it there before")
        of_services = registrations.where(registrations.service.isin(list(services)))
        clients, all_clients = _clients(of_services, limits.clients)
        of_clients = of_services.where(of_services.client.isin(list(clients)))
        facts = _facts(of_clients, start_ms)
        counted = {row.service: _by_what(row) for row in _counted(of_clients, "service").collect()}
    finally:
        registrations.unpersist()
    slots, replicas = _shape(cleaned)
    return Incident(
        (ended - began).total_seconds(),
        began.isoformat(),
        ended.isoformat(),
        _members(cleaned, start_ms),
        _processes(cleaned, start_ms),
        _leaders(cleaned, start_ms),
        slots,
        replicas,
        tuple(ServiceCounts(name, counted.get(name, {})) for name in services),
        clients,
        facts,
        all_services,
        all_clients,
    )


def _must_have_recorded(cleaned: DataFrame, span: tuple[datetime, datetime]) -> None:
    from pyspark.sql import functions as f

    inside = f.count(f.when((f.col("at") >= span[0]) & (f.col("at") < span[1]), 1)).alias("inside")
    found = cleaned.agg(inside, f.min("at").alias("first"), f.max("at").alias("last"))
    row = in_words(in_words(found, "first"), "last").collect()[0]
    if row["first"] is None:
        raise ConfigError("the warehouse has no events; run `slotreeve spark ingest` first")
    if not row.inside:
        raise ConfigError(
            f"nothing was recorded between {span[0].isoformat()} and {span[1].isoformat()}; "
            f"the warehouse has events from {row['first']} to {row['last']}"
        )


# --- registrations ---------------------------------------------------------------------------------------------------


def _registrations(cleaned: DataFrame, began: datetime, start_ms: int) -> DataFrame:
    """``at_ms, what, client, service, node, register_id``: what was alive at the beginning, and all that happened."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    rows = cleaned.where(cleaned.kind.isin(*COME_AND_GO))
    rows = rows.select("at", "at_ms", "kind", "service", "node", "register_id", "version")
    order = f.struct("at_ms", "version", f.col("kind") == "expired")
    last = f.max_by(f.struct("kind", "service", "node"), order).alias("last")
    grouped = rows.where(f.col("at") < began).groupBy("register_id")
    before = grouped.agg(last, f.max("version").alias("version_before"))
    there = before.where("last.kind = 'registered'").select(
        f.lit(start_ms).cast("bigint").alias("at_ms"),
        f.lit(str(What.ALIVE)).alias("what"),
        "last.service",
        "last.node",
        "register_id",
    )
    earlier = Window.partitionBy("register_id").orderBy("at_ms", "version").rowsBetween(Window.unboundedPreceding, -1)
    previous = f.greatest(f.max("version").over(earlier), f.col("version_before"))
    within = rows.where(f.col("at") >= began).join(before.drop("last"), "register_id", "left")
    within = within.withColumn("previous", previous).withColumn("what", _what())
    both = there.unionByName(within.select("at_ms", "what", "service", "node", "register_id"))
    # A client numbers its registrations: the id of a registration is the client's id, a hyphen and the number.
    client = f.regexp_extract("register_id", r"^(.+)-\d+$", 1)
    return both.withColumn("client", f.when(client != "", client).otherwise(f.col("register_id")))


def _what() -> Column:
    from pyspark.sql import functions as f

    kind, version, previous = f.col("kind"), f.col("version"), f.col("previous")
    return (
        f.when(kind == "expired", str(What.EXPIRED))
        .when(kind == "unregistered", str(What.UNPUBLISHED))
        .when(previous.isNull(), str(What.PUBLISHED))
        .when(version > previous, str(What.REPUBLISHED))
        .otherwise(str(What.RETURNED))
    )


def _counted(registrations: DataFrame, name: str) -> DataFrame:
    """Distinct registrations by ``name``, a column for each :class:`What`."""
    from pyspark.sql import functions as f

    counts = [
        f.count_distinct(f.when(f.col("what") == str(what), f.col("register_id"))).alias(str(what))
        if what is not What.REPUBLISHED
        else f.count(f.when(f.col("what") == str(what), 1)).alias(str(what))
        for what in What
    ]
    return registrations.groupBy(name).agg(*counts)


def _by_what(row: Row) -> dict[What, int]:
    return {what: row[str(what)] for what in What}


def _services(registrations: DataFrame, most: int, wanted: str | None) -> tuple[tuple[str, ...], int]:
    from pyspark.sql import functions as f

    counted = _counted(registrations, "service").persist()
    changes = f.col("published") + f.col("republished") + f.col("unpublished")
    order = [f.col("expired").desc(), changes.desc(), f.col("alive").desc(), f.col("service")]
    if wanted is not None:
        order.insert(0, (f.col("service") == wanted).desc())
    found = tuple(row.service for row in counted.orderBy(*order).limit(most).collect())
    number = counted.count()
    counted.unpersist()
    return found, number


def _clients(registrations: DataFrame, most: int) -> tuple[tuple[str, ...], int]:
    from pyspark.sql import functions as f

    counted = _counted(registrations, "client").persist()
    order = (f.col("expired").desc(), f.col("alive").desc(), f.col("published").desc(), f.col("client"))
    found = tuple(row.client for row in counted.orderBy(*order).limit(most).collect())
    number = counted.count()
    counted.unpersist()
    return found, number


def _facts(registrations: DataFrame, start_ms: int) -> tuple[RegistrationFact, ...]:
    from pyspark.sql import functions as f

    tick = f.floor(f.col("at_ms") / TICK_MS).alias("tick")
    rows = (
        registrations.where(f.col("what").isin([str(what) for what in OF_CLIENTS]))
        .groupBy("client", "service", "node", "what", tick)
        .agg(f.min("at_ms").alias("at_ms"), f.count_distinct("register_id").alias("number"))
        .orderBy("at_ms", "client", "service", "what")
        .limit(MOST_FACTS)
        .collect()
    )
    return tuple(
        RegistrationFact(_seconds(r.at_ms, start_ms), What(r.what), r.client, r.service, r.node, r.number) for r in rows
    )


# --- servers ---------------------------------------------------------------------------------------------------------


def _members(cleaned: DataFrame, start_ms: int) -> tuple[MemberEvent, ...]:
    rows = cleaned.where("kind in ('node_joined', 'node_left')").orderBy("at_ms", "id").limit(MOST_MEMBER_EVENTS)
    return tuple(
        MemberEvent(_seconds(row.at_ms, start_ms), row.kind == "node_joined", row.member, row.role, row.reason or "")
        for row in rows.collect()
    )


def _processes(cleaned: DataFrame, start_ms: int) -> tuple[ProcessLife, ...]:
    from pyspark.sql import functions as f

    kind = f.col("kind")
    rows = (
        cleaned.groupBy("node", f.substring_index("id", "/", 1).alias("process"))
        .agg(
            f.min("at_ms").alias("first_ms"),
            f.max("at_ms").alias("last_ms"),
            f.max(kind.isin("leader", "table")).alias("is_meta"),
            f.max(kind.isin("registered", "unregistered", "pushed")).alias("is_session"),
        )
        .orderBy("first_ms", "node")
        .limit(MOST_MEMBER_EVENTS)
    )
    return tuple(
        ProcessLife(r.node, _seconds(r.first_ms, start_ms), _seconds(r.last_ms, start_ms), r.is_meta, r.is_session)
        for r in rows.collect()
    )


def _leaders(cleaned: DataFrame, start_ms: int) -> tuple[RecordedLeader, ...]:
    from pyspark.sql import functions as f

    rows = (
        cleaned.where("kind = 'leader' and leader is not null")
        .groupBy("term")
        .agg(f.min("at_ms").alias("at_ms"), f.min_by("leader", "at_ms").alias("leader"))
        .orderBy("term")
        .limit(MOST_MEMBER_EVENTS)
    )
    return tuple(RecordedLeader(_seconds(row.at_ms, start_ms), row.leader) for row in rows.collect())


def _shape(cleaned: DataFrame) -> tuple[int | None, int | None]:
    """Number of slots, and of copies of each.

    A slot has fewer copies after the death of a server, and one more for one table while it moves. So what counts for
    a slot is the most copies that it kept from one table to the next, and then what most slots have.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    rows = cleaned.where("kind = 'table'").select("epoch", f.explode("changed").alias("row"))
    copies = rows.select("epoch", "row.slot", (f.size("row.followers") + 1).alias("copies"))
    following = f.lead("copies").over(Window.partitionBy("slot").orderBy("epoch"))
    kept = copies.dropDuplicates(["slot", "epoch"]).withColumn("kept", f.least("copies", following))  # ignores null
    found = kept.groupBy("slot").agg(f.max("kept").alias("kept"))
    row = found.agg((f.max("slot") + 1).alias("slots"), f.mode("kept", deterministic=True).alias("replicas")).first()
    return (row.slots, row.replicas) if row is not None else (None, None)


def _seconds(at_ms: int, start_ms: int) -> float:
    return (at_ms - start_ms) / 1000
