"""Figures as short text."""

from __future__ import annotations

import math


def number(value: float) -> str:
    """A figure with three digits or so: ``0.0123``, ``4.56``, ``1,234``, ``1.23e+09``."""
    if value != value or abs(value) == math.inf:
        return "-"
    if value == 0 or 0.001 <= abs(value) < 1_000:
        return f"{value:.3g}"
    return f"{value:,.0f}" if 1_000 <= abs(value) < 10_000_000 else f"{value:.3g}"
