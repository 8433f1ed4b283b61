"""Time travel: the slot table at an instant, what differs between two, and recorded history as a trace to replay."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from slotreeve import Server, SlotLoad
from slotreeve.errors import ConfigError

from slotreeve_spark.compare.traces import MembershipChange, MembershipTrace
from slotreeve_spark.pipeline.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def instant(text: str) -> datetime:
    """A moment from ISO 8601 (UTC unless a zone is given) or milliseconds since 1970.

    Raises:
        ConfigError: it is neither.
    """
    try:
        if text.isdigit():
            return datetime.fromtimestamp(int(text) / 1000, UTC)
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        raise ConfigError(f"{text!r} is no moment; expected e.g. 2026-11-21T12:00:00Z, or milliseconds") from None


def table_at(session: SparkSession, warehouse: Warehouse, moment: datetime) -> DataFrame:
    """The slot table at ``moment``: ``slot, leader, followers, leader_epoch, epoch, since``, a row for each slot that
    was assigned by then. Of several rows of a slot the one of the greatest epoch counts: a meta leader's clock may be
    behind that of the one before it.

    Raises:
        ConfigError: there are no marts yet.
    """
    from pyspark.sql import functions as f

    rows = warehouse.mart(session, "slot_history").where(f.col("valid_from") <= f.lit(moment))
    row = f.struct("leader", "followers", "leader_epoch", "epoch", f.col("valid_from").alias("since"))
    return rows.groupBy("slot").agg(f.max_by(row, "epoch").alias("row")).select("slot", "row.*").orderBy("slot")


def in_words(frame: DataFrame, column: str) -> DataFrame:
    """The frame with a column of moments as texts in UTC. Spark hands moments over in the time of the machine."""
    from pyspark.sql import functions as f

    return frame.withColumn(column, f.date_format(column, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"))


def difference(session: SparkSession, warehouse: Warehouse, first: datetime, second: datetime) -> DataFrame:
    """Slots held differently at two moments: ``slot, leader_before, leader_after, followers_before, followers_after``.

    Raises:
        ConfigError: there are no marts yet.
    """
    from pyspark.sql import functions as f

    before, after = (
        table_at(session, warehouse, moment).select(
            "slot", f.col("leader").alias(f"leader_{name}"), f.col("followers").alias(f"followers_{name}")
        )
        for moment, name in ((first, "before"), (second, "after"))
    )
    same = f.col("leader_before").eqNullSafe(f.col("leader_after")) & f.col("followers_before").eqNullSafe(
        f.col("followers_after")
    )
    columns = ("slot", "leader_before", "leader_after", "followers_before", "followers_after")
    return before.join(after, "slot", "full").where(~same).select(*columns).orderBy("slot")


def recorded_trace(session: SparkSession, warehouse: Warehouse, name: str = "recorded") -> MembershipTrace:
    """The recorded joining and leaving of data servers, to be replayed with the last loads of the slots: a shadow run.
    It begins with the first slot table and those who had joined by then; a leaving of the last one is left out, for
    there is nothing to decide without servers.

    Raises:
        ConfigError: there are no marts yet, or no server ever joined.
    """
    from pyspark.sql import functions as f

    # As many rows as servers ever joined or left: small, and every task needs all of it.
    members = warehouse.mart(session, "membership").withColumn("at_ms", f.unix_millis("at"))
    rows = members.orderBy("at_ms", "member").drop("at").collect()
    if not any(row.joined for row in rows):
        raise ConfigError(f"{warehouse.location}: no data server ever joined, so there is no history to replay")
    first_join = next(row.at_ms for row in rows if row.joined)
    first_table = warehouse.mart(session, "slot_history").agg(f.unix_millis(f.min("valid_from"))).collect()[0][0]
    start_ms = max(first_join, first_table or first_join)
    live: dict[str, Server] = {}
    beginning: tuple[Server, ...] = ()
    changes: list[MembershipChange] = []
    for row in rows:
        joins, leaves = tuple[Server, ...](), tuple[str, ...]()
        if row.joined and row.member not in live:
            live[row.member] = Server(row.member, row.zone or "", row.weight or 1.0)
            joins = (live[row.member],)
        elif not row.joined and row.member in live and len(live) > 1:
            del live[row.member]
            leaves = (row.member,)
        if row.at_ms <= start_ms:
            beginning = tuple(live.values())
        elif joins or leaves:
            changes.append(MembershipChange((row.at_ms - start_ms) / 1000, joins, leaves))
    return MembershipTrace(name, beginning, tuple(changes), _last_loads(session, warehouse))


def _last_loads(session: SparkSession, warehouse: Warehouse) -> dict[int, SlotLoad]:
    """The last recorded load of each slot. Marts that an older version made have none."""
    from pyspark.sql import functions as f

    if not warehouse.has(session, "marts/slot_loads"):
        return {}
    load = f.struct("records", "bytes", "writes_per_second")
    last = warehouse.mart(session, "slot_loads").groupBy("slot").agg(f.max_by(load, "at").alias("load"))
    return {row.slot: SlotLoad(*row["load"]) for row in last.collect()}
