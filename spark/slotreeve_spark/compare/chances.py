"""What chance would do: chi-square, bootstrap, and what to expect of keys thrown at random."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2_000
CONFIDENCE = 0.95
_LONGEST = 100_000
_PRECISION = 1e-14
_TINY = 1e-300


def chi_square(counts: NDArray[np.int64]) -> float:
    """Pearson's statistic of ``counts`` against an even spread; 0 where there is nothing."""
    mean = float(counts.mean()) if counts.size else 0.0
    return float(((counts - mean) ** 2).sum() / mean) if mean else 0.0


def p_value(statistic: float, freedom: int) -> float:
    """How likely a chi-square of ``freedom`` degrees (>= 1) is at least ``statistic``: the regularised upper incomplete
    gamma function Q(freedom / 2, statistic / 2), by series or continued fraction (Lentz)."""
    shape, x = freedom / 2, statistic / 2
    if x <= 0:
        return 1.0
    scale = math.exp(shape * math.log(x) - x - math.lgamma(shape))
    if x < shape + 1:
        return 1.0 - scale * _series(shape, x)
    return scale * _continued_fraction(shape, x)


def _series(shape: float, x: float) -> float:
    term = total = 1.0 / shape
    for step in range(1, _LONGEST):
        term *= x / (shape + step)
        total += term
        if term < total * _PRECISION:
            break
    return total


def _continued_fraction(shape: float, x: float) -> float:
    b = x + 1.0 - shape
    c, d = 1.0 / _TINY, 1.0 / b
    result = d
    for step in range(1, _LONGEST):
        a = -step * (step - shape)
        b += 2.0
        d = 1.0 / _not_zero(a * d + b)
        c = _not_zero(b + a / c)
        result *= d * c
        if abs(d * c - 1.0) < _PRECISION:
            break
    return result


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def interval(values: NDArray[np.float64], seed: int = 0) -> tuple[float, float]:
    """The 95 % confidence interval of the mean of ``values`` by the bootstrap, seeded; both ends equal for one value.

    Memory: values times a hundred floats at a time.
    """
    if values.size < 2:
        only = float(values[0]) if values.size else math.nan
        return only, only
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(_resampled_means(values, seed), [tail, 1 - tail])
    return float(low), float(high)


def share_above_zero(values: NDArray[np.float64], seed: int = 0) -> float:
    """The share of the bootstrap's resamples of ``values`` (at least one), seeded, whose mean is greater than 0."""
    return float((_resampled_means(values, seed) > 0).mean())


def _resampled_means(values: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    return np.concatenate(
        [values[rng.integers(0, values.size, (RESAMPLES // 20, values.size))].mean(axis=1) for _ in range(20)]
    )


def expected_empty(keys: int, slots: int) -> float:
    """Slots that stay empty when ``keys`` are thrown at random."""
    return slots * (1 - 1 / slots) ** keys


def pairs(counts: NDArray[np.int64]) -> int:
    """Pairs of keys that share a slot."""
    return int((counts * (counts - 1) // 2).sum())


def expected_pairs(keys: int, slots: int) -> float:
    """Pairs of keys that share a slot when ``keys`` are thrown at random."""
    return keys * (keys - 1) / 2 / slots
