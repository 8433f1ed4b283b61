"""Which competitor is best by each criterion, and whether the difference is more than noise."""

from __future__ import annotations

from collections.abc import Sequence
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
    """

    column: str
    what: str
    measured: bool = False


SUMMARY = (
    "setting string, criterion string, competitor string, cells int, mean double, low double, high double, "
    "median double, behind double, behind_low double, behind_high double, verdict string"
)
"""One row for each competitor, criterion and setting.

mean, low, high: of the cells, with the 95 % confidence interval. behind: mean of how much more it took than the one
with the lowest mean on the same trace and seed, with its interval. verdict: ``best``; ``within noise`` of the best
where that interval holds 0; ``behind``.
"""
_ARROW = pa.schema(
    [
        (name, {"string": pa.string(), "int": pa.int32(), "double": pa.float64()}[kind])
        for name, kind in (column.split() for column in SUMMARY.split(", "))
    ]
)


def summarize(results: DataFrame, criteria: Sequence[Criterion], setting: str, pairing: Sequence[str]) -> DataFrame:
    """Competitors side by side, in the columns of :data:`SUMMARY`.

    ``results`` has a row a cell, with the columns ``competitor`` and ``status`` and those of ``criteria``; cells
    without figures do not count. ``setting`` is an SQL expression: only what has the same is compared. Cells of two
    competitors that agree in the columns ``pairing`` are compared with each other.
    """
    from pyspark.sql import functions as f

    pair = f.concat_ws("/", *(f.col(column).cast("string") for column in pairing))
    long = results.where(f.col("status").isin("ok", "invalid")).select(
        f.expr(setting).alias("setting"),
        "competitor",
        pair.alias("pair"),
        f.explode(
            f.create_map(*(part for c in criteria for part in (f.lit(c.column), f.col(c.column).cast("double"))))
        ).alias("criterion", "value"),
    )
    order = {criterion.column: number for number, criterion in enumerate(criteria)}
    place = f.create_map(*(f.lit(part) for pair_ in order.items() for part in pair_))
    return (
        long.where("value is not null")
        .groupBy("setting", "criterion")
        .applyInArrow(_verdicts, SUMMARY)
        .orderBy("setting", place[f.col("criterion")], "mean", "competitor")
    )


def _verdicts(table: pa.Table) -> pa.Table:
    rows = table.to_pydict()
    values: dict[str, dict[str, float]] = {}
    for competitor, pair, value in zip(rows["competitor"], rows["pair"], rows["value"], strict=True):
        values.setdefault(competitor, {})[pair] = value
    means = {name: float(np.mean([by_pair[pair] for pair in sorted(by_pair)])) for name, by_pair in values.items()}
    best = min(means, key=lambda name: (means[name], name))
    found = []
    for name in sorted(values):
        own = np.array([values[name][pair] for pair in sorted(values[name])])
        shared = sorted(values[name].keys() & values[best].keys())
        differences = np.array([values[name][pair] - values[best][pair] for pair in shared])
        low, high = interval(own)
        behind_low, behind_high = interval(differences)
        verdict = "best" if name == best else "within noise" if not behind_low > 0 else "behind"
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
