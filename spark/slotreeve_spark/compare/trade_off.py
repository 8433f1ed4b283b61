"""Balancers by three figures at once: which of them no other beats in all, and which one the weights recommend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from slotreeve.errors import ConfigError

from slotreeve_spark.compare.chances import interval, share_above_zero
from slotreeve_spark.compare.competition import Rules, ranked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FIGURES = ("moves", "uneven_share", "unready_slot_seconds")
"""Columns of the cells; less is better."""
EVEN_WEIGHTS: Mapping[str, float] = dict.fromkeys(FIGURES, 1.0)

TRADE_OFF = (
    "setting string, competitor string, cells int, moves double, uneven_share double, unready_slot_seconds double, "
    "ends_well boolean, front boolean, beaten_by string, score double, behind double, behind_low double, "
    "behind_high double, confidence double, verdict string"
)
"""One row for each setting and competitor that is ranked.

moves, uneven_share, unready_slot_seconds: means of the cells. front: no other is as good in all three and better in
one; ``beaten_by`` is one that is. score: the weighted mean of the three figures, for those that end well; each figure
is measured by the mean of theirs, the uneven share by the tolerance where that is greater. behind: how much greater its
score is than that of the recommended one on the same trace and seed, with the 95 % interval, and confidence, the share
of the resamples in which it is greater: the paired bootstrap over cells. verdict: ``recommended``, ``within noise`` of
that where the interval holds 0, ``behind``, or ``ends uneven``.
"""
_TYPES = {"string": pa.string(), "int": pa.int32(), "double": pa.float64(), "boolean": pa.bool_()}
_ARROW = pa.schema([(name, _TYPES[kind]) for name, kind in (column.split() for column in TRADE_OFF.split(", "))])


def parse_weights(text: str) -> dict[str, float]:
    """``moves=2,uneven_share=1``; figures that are not named weigh nothing.

    Raises:
        ConfigError: it is none of that form, or no figure weighs anything.
    """
    weights = dict.fromkeys(FIGURES, 0.0)
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        try:
            weight = float(value)
        except ValueError:
            weight = -1.0
        if name not in FIGURES or not equals or not 0 <= weight < float("inf"):
            raise ConfigError(f"--weights {part.strip()}: expected FIGURE=NUMBER; figures: {', '.join(FIGURES)}")
        weights[name] = weight
    if not any(weights.values()):
        raise ConfigError(f"--weights {text}: at least one figure must weigh something")
    return weights


def trade_off(results: DataFrame, rules: Rules, weights: Mapping[str, float], even_within: float) -> DataFrame:
    """The competitors that are not disqualified, in the columns of :data:`TRADE_OFF`."""
    from pyspark.sql import functions as f

    def judge(table: pa.Table) -> pa.Table:
        return judged(table, weights, even_within)

    return (
        ranked(results)
        .select(
            f.expr(rules.setting).alias("setting"),
            "competitor",
            f.concat_ws("/", *(f.col(column).cast("string") for column in rules.pairing)).alias("pair"),
            f.expr(rules.ends_well).alias("ends_well"),
            *(f.col(figure).cast("double") for figure in FIGURES),
        )
        .groupBy("setting")
        .applyInArrow(judge, TRADE_OFF)
        .orderBy("setting", f.col("score").asc_nulls_last(), "competitor")
    )


def judged(table: pa.Table, weights: Mapping[str, float], even_within: float) -> pa.Table:
    """The rows of one setting; ``table`` has a row a cell: setting, competitor, pair, ends_well and the figures."""
    figures, ends_well = dict[str, dict[str, NDArray[np.float64]]](), dict[str, bool]()
    rows = table.to_pylist()
    for row in rows:
        figures.setdefault(row["competitor"], {})[row["pair"]] = np.array([row[name] for name in FIGURES], float)
        ends_well[row["competitor"]] = ends_well.get(row["competitor"], True) and bool(row["ends_well"])
    means = {name: np.mean([cells[pair] for pair in sorted(cells)], axis=0) for name, cells in figures.items()}
    fit = [means[name] for name in sorted(means) if ends_well[name]]
    scale = np.mean(fit, axis=0) if fit else np.ones(len(FIGURES))
    scale = np.maximum(scale, [even_within if name == "uneven_share" else 0.0 for name in FIGURES])
    factors = np.array([weights[name] for name in FIGURES]) / sum(weights.values()) / np.where(scale > 0, scale, 1.0)
    scores = {name: float(means[name] @ factors) for name in means if ends_well[name]}
    best = min(scores, key=lambda name: (scores[name], name), default=None)
    found = []
    for name in sorted(figures):
        beaten_by = next((other for other in sorted(means) if _beats(means[other], means[name])), None)
        found.append(
            {
                "setting": rows[0]["setting"],
                "competitor": name,
                "cells": len(figures[name]),
                **dict(zip(FIGURES, means[name].tolist(), strict=True)),
                "ends_well": ends_well[name],
                "front": beaten_by is None,
                "beaten_by": beaten_by,
                "score": scores.get(name),
                **_behind(figures[name], figures[best] if best is not None and name in scores else {}, factors),
                "verdict": "ends uneven",
            }
        )
        if name in scores:
            found[-1]["verdict"] = "recommended" if name == best else _verdict(found[-1])
    return pa.Table.from_pylist(found, schema=_ARROW)


def _beats(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    return bool((one <= other).all() and (one < other).any())


def _behind(
    own: Mapping[str, NDArray[np.float64]], best: Mapping[str, NDArray[np.float64]], factors: NDArray[np.float64]
) -> dict[str, float | None]:
    pairs = sorted(own.keys() & best.keys())
    if own is best or not pairs:
        return {}
    differences = np.array([float((own[pair] - best[pair]) @ factors) for pair in pairs])
    low, high = interval(differences)
    return {
        "behind": float(differences.mean()),
        "behind_low": low,
        "behind_high": high,
        "confidence": share_above_zero(differences),
    }


def _verdict(row: Mapping[str, object]) -> str:
    low = row.get("behind_low")
    return "behind" if isinstance(low, float) and low > 0 else "within noise"
