"""Figures of the comparisons, from results in Parquet; Spark reduces them to a few hundred points first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from slotreeve_spark.compare.slot_functions import COUNTED
from slotreeve_spark.report.charts import Bar, Dot, Palette, Series, bars, lines, scatter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BINS = 40
POINTS = 60
PERCENTILES = 100
MOST_TRACES = 24


def keys_by_slot(counts: DataFrame, palette: Palette) -> Iterator[tuple[str, str]]:
    """How many slots hold how many keys: caption and plot for each number of slots. ``counts`` as
    :data:`~slotreeve_spark.compare.slot_functions.COUNTS`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    whole = Window.partitionBy("slots")
    width = f.greatest(f.lit(1.0), (f.max("value").over(whole) - f.min("value").over(whole)) / BINS)
    binned = (
        counts.where(counts.measure == COUNTED)
        .withColumn("bin", f.round(f.round(f.col("value") / width) * width, 1))
        .groupBy("slots", "function", "bin")
        .count()
        .orderBy("slots", "function", "bin")
    )
    found: dict[int, dict[str, list[tuple[float, float]]]] = {}
    for row in binned.collect():
        found.setdefault(row.slots, {}).setdefault(row.function, []).append((row.bin, row["count"]))
    for slots, by_function in found.items():
        series = [Series(name, points) for name, points in by_function.items()]
        yield f"{slots:,} slots: how many hold how many keys", lines(series, "keys in a slot", "slots", palette=palette)


def moves_over_time(results: DataFrame, palette: Palette) -> Iterator[tuple[str, str]]:
    """Moves so far against the time of the trace, mean of the seeds: caption and plot for each trace and size."""
    from pyspark.sql import functions as f

    flat = results.where("status in ('ok', 'invalid')").select(
        "slots", "servers", "trace", "competitor", "seed", f.explode("timeline").alias("point")
    )
    ends = flat.groupBy("slots", "servers", "trace").agg(f.max("point.at_seconds").alias("end"))
    places = f.explode(f.sequence(f.lit(0), f.lit(POINTS))).alias("place")
    grid = results.select("slots", "servers", "trace", "competitor", "seed").distinct().select("*", places)
    at = f.col("place") * f.col("end") / POINTS
    reached = f.col("point.at_seconds") <= at + 1e-9
    curve = (
        grid.join(ends, ["slots", "servers", "trace"])
        .join(flat, ["slots", "servers", "trace", "competitor", "seed"])
        .groupBy("slots", "servers", "trace", "competitor", "seed", "place", at.alias("at"))
        .agg(f.coalesce(f.max(f.when(reached, f.col("point.moves"))), f.lit(0)).alias("moves"))
        .groupBy("slots", "servers", "trace", "competitor", "place")
        .agg(f.avg("at").alias("at"), f.avg("moves").alias("moves"))
        .orderBy("slots", "servers", "trace", "competitor", "place")
    )
    chosen = [row.trace for row in results.select("trace").distinct().orderBy("trace").limit(MOST_TRACES).collect()]
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in curve.where(f.col("trace").isin(chosen)).collect():
        caption = f"{row.trace} ({row.slots} slots, {row.servers} servers)"
        found.setdefault(caption, {}).setdefault(row.competitor, []).append((row.at, row.moves))
    for caption, curves in found.items():
        series = [Series(name, points) for name, points in curves.items()]
        yield caption, lines(series, "seconds", "moves so far", steps=True, palette=palette)


def fail_over_distribution(results: DataFrame, palette: Palette) -> Iterator[tuple[str, str]]:
    """The share of fail-overs that took at most so many seconds (ECDF): caption and plot for each scenario and size."""
    from pyspark.sql import functions as f

    shares = [place / PERCENTILES for place in range(PERCENTILES + 1)]
    quantiles = (
        results.select("nodes", "scenario", "competitor", f.explode("fail_overs").alias("seconds"))
        .groupBy("nodes", "scenario", "competitor")
        .agg(f.percentile("seconds", f.array(*map(f.lit, shares))).alias("seconds"))
        .orderBy("nodes", "scenario", "competitor")
    )
    found: dict[str, list[Series]] = {}
    for row in quantiles.collect():
        caption = f"leader {row.scenario}, {row.nodes} nodes: time to the next"
        points = list(zip((second * 1000 for second in row.seconds), shares, strict=True))
        found.setdefault(caption, []).append(Series(row.competitor, points))
    for caption, series in found.items():
        yield caption, lines(series, "milliseconds", "share of fail-overs", steps=True, palette=palette)


def means(
    summary: Sequence[Mapping[str, object]], what: Mapping[str, str], palette: Palette
) -> Iterator[tuple[str, str, str]]:
    """The means of all competitors with their intervals, always in the same order: for each setting and criterion the
    setting, the caption and the plot."""
    found: dict[tuple[str, str], list[Bar]] = {}
    for row in summary:
        mean, low, high = (float(str(row[name])) for name in ("mean", "low", "high"))
        key = str(row["setting"]), str(row["criterion"])
        bar = Bar(str(row["competitor"]), mean, low, high, row["verdict"] != "not counted")
        found.setdefault(key, []).append(bar)
    for (setting, criterion), items in found.items():
        caption = f"{criterion.replace('_', ' ')}\n{what.get(criterion, '')}"
        yield setting, caption, bars(sorted(items, key=lambda bar: bar.name), "", palette)


def trade_offs(trades: Sequence[Mapping[str, object]], palette: Palette) -> Iterator[tuple[str, str]]:
    """The figures of a trade-off against each other: setting and plot for each setting. Down and to the left is better;
    the recommended competitor has a ring, and the front is joined by a line."""
    for setting in dict.fromkeys(str(row["setting"]) for row in trades):
        rows = [row for row in trades if row["setting"] == setting]
        pairs = [
            ("moves", "uneven share in the end", [_dot(row, "moves", "uneven_share", rows) for row in rows]),
            (
                "moves",
                "slot seconds led without the data",
                [_dot(row, "moves", "unready_slot_seconds", rows) for row in rows],
            ),
        ]
        yield setting, scatter(pairs, palette)


def _dot(row: Mapping[str, object], x: str, y: str, rows: Sequence[Mapping[str, object]]) -> Dot:
    """A competitor by two figures. The front is that of these two, because with a third figure it is no line, and of
    those that end even."""

    def figures(one: Mapping[str, object]) -> tuple[float, float]:
        return float(str(one[x])), float(str(one[y]))

    own = figures(row)
    others = [figures(one) for one in rows if one["ends_well"]]
    is_beaten = any(all(a <= b for a, b in zip(other, own, strict=True)) and other != own for other in others)
    counts, chosen = bool(row["ends_well"]), row["verdict"] == "recommended"
    return Dot(str(row["competitor"]), *own, front=counts and not is_beaten, counts=counts, chosen=chosen)
