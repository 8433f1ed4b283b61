"""Percentiles, the same way everywhere."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` (0 .. 1) of ``values`` do not exceed (nearest rank); NaN if empty."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def spread_of(values: Sequence[float]) -> dict[str, float | int]:
    """Count, p50, p90, p99 and maximum, in the unit of ``values``, rounded to three decimals."""
    named = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    return {"count": len(values)} | {name: round(percentile(values, share), 3) for name, share in named.items()}
