"""Which competitor is best by each criterion, and whether the difference is more than noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slotreeve_spark.compare.chances import interval

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Criterion:
    """A figure by which competitors are compared; less is better.

    Attributes:
        column: of the results.
        what: for a person.
        measured: it differs from run to run, as times of the machine do.
        rewards_rest: who does nothing is best by it, so it counts among those only who end well.
    """

    column: str
    what: str
    measured: bool = False
    rewards_rest: bool = False


SUMMARY = (
    "setting string, criterion string, competitor string, cells int, mean double, low double, high double, "
    "median double, behind double, behind_low double, behind_high double, verdict string"
)
"""One row for each competitor, criterion and setting.

mean, low, high: of the cells, with the 95 % confidence interval. behind: mean of how much more it took than the one
with the lowest mean on the same trace and seed, with its interval; null where there is none. verdict: ``best``;
``within noise`` of the best where that interval holds 0; ``behind``; ``not counted``: the criterion rewards doing
nothing, and this competitor does not end well in every cell of the setting.
"""
ALWAYS = "true"
"""As ``ends_well``: every competitor does."""
_ARROW = pa.schema(
    [
        (name, {"string": pa.string(), "int": pa.int32(), "double": pa.float64()}[kind])
        for name, kind in (column.split() for column in SUMMARY.split(", "))
    ]
)


@dataclass(frozen=True)
class Rules:
    """How cells are compared.

    Attributes:
        criteria: columns of the cells.
        setting: SQL expression that names the setting of a cell: only what has the same is compared.
        pairing: columns by which cells of different competitors belong together.
        ends_well: SQL expression: the cell ended as it should.
    """

    criteria: tuple[Criterion, ...]
    setting: str
    pairing: tuple[str, ...]
    ends_well: str = ALWAYS


def summarize(results: DataFrame, rules: Rules) -> DataFrame:
    """Competitors side by side, in the columns of :data:`SUMMARY`.

    ``results`` has a row a cell, with the columns ``competitor`` and ``status`` and those of the criteria. A competitor
    with a cell whose status is not ``ok`` has no row: it is disqualified.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    criteria, pairing = rules.criteria, rules.pairing
    own = Window.partitionBy("setting", "competitor")
    pair = f.concat_ws("/", *(f.col(column).cast("string") for column in pairing))
    rests = [criterion.column for criterion in criteria if criterion.rewards_rest]
    long = (
        ranked(results)
        .withColumn("setting", f.expr(rules.setting))
        .withColumn("ends_well", f.min(f.expr(rules.ends_well)).over(own))
        .select(
            "setting",
            "competitor",
            "ends_well",
            pair.alias("pair"),
            f.explode(
                f.create_map(*(part for c in criteria for part in (f.lit(c.column), f.col(c.column).cast("double"))))
            ).alias("criterion", "value"),
        )
        .withColumn("counts", f.col("ends_well") | ~f.col("criterion").isin(rests))
    )
    order = {criterion.column: number for number, criterion in enumerate(criteria)}
    place = f.create_map(*(f.lit(part) for pair_ in order.items() for part in pair_))
    return (
        long.where("value is not null")
        .groupBy("setting", "criterion")
        .applyInArrow(_verdicts, SUMMARY)
        .orderBy("setting", place[f.col("criterion")], "mean", "competitor")
    )


def ranked(results: DataFrame) -> DataFrame:
    """The cells of the competitors that are not disqualified."""
    bad = results.where("status <> 'ok'").select("competitor").distinct()
    return results.join(bad, "competitor", "left_anti")


def _verdicts(table: pa.Table) -> pa.Table:
    rows = table.to_pydict()
    values: dict[str, dict[str, float]] = {}
    for competitor, pair, value in zip(rows["competitor"], rows["pair"], rows["value"], strict=True):
        values.setdefault(competitor, {})[pair] = value
    means = {name: float(np.mean([by_pair[pair] for pair in sorted(by_pair)])) for name, by_pair in values.items()}
    counts = {name for name, counts in zip(rows["competitor"], rows["counts"], strict=True) if counts}
    best = min(counts, key=lambda name: (means[name], name), default=None)
    found = []
    for name in sorted(values):
        own = np.array([values[name][pair] for pair in sorted(values[name])])
        best_values = values[best] if best is not None and name in counts else {}
        shared = sorted(values[name].keys() & best_values.keys())
        differences = np.array([values[name][pair] - best_values[pair] for pair in shared])
        low, high = interval(own)
        behind_low, behind_high = interval(differences)
        verdict = "best" if name == best else "within noise" if not behind_low > 0 else "behind"
        if name not in counts:
            verdict = "not counted"
        found.append(
            {
                "setting": rows["setting"][0],
                "criterion": rows["criterion"][0],
                "competitor": name,
                "cells": own.size,
                "mean": means[name],
                "low": low,
                "high": high,
                "median": float(np.median(own)),
                "behind": float(differences.mean()) if differences.size else None,
                "behind_low": behind_low,
                "behind_high": behind_high,
                "verdict": verdict,
            }
        )
    return pa.Table.from_pylist(found, schema=_ARROW)
