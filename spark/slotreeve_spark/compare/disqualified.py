"""Competitors that are not ranked: in some cell they broke a rule, raised, or took too much time or memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DISQUALIFIED = ("competitor", "reason", "example", "cells")
"""Columns: who, why, the first cell in which that was seen, and in how many of its cells anything was wrong."""


def disqualified(results: DataFrame, example: str) -> DataFrame:
    """One row for each competitor that is not ranked, in the columns of :data:`DISQUALIFIED`.

    ``results`` has a row a cell, with the columns ``competitor``, ``status`` and ``error``; ``example`` is an SQL
    expression that names the cell of a row for people.
    """
    from pyspark.sql import functions as f

    bad = f.col("status") != "ok"
    first = f.min(f.when(bad, f.struct(f.expr(example).alias("example"), "status", "error"))).alias("first")
    reason = f.when(f.col("first.status") == "timed out", f.concat(f.lit("ran out of time: "), "first.error"))
    return (
        results.groupBy("competitor")
        .agg(first, f.count_if(bad).alias("bad"), f.count("*").alias("all"))
        .where("bad > 0")
        .select(
            "competitor",
            reason.otherwise(f.col("first.error")).alias("reason"),
            f.col("first.example").alias("example"),
            f.concat_ws("/", "bad", "all").alias("cells"),
        )
        .orderBy("competitor")
    )
