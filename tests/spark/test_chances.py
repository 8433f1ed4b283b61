"""The statistics of comparisons, against known figures."""

from __future__ import annotations

import numpy as np
import pytest
from slotreeve_spark.compare import chances


@pytest.mark.parametrize(
    ("statistic", "freedom", "expected"),
    [
        (3.841458820694124, 1, 0.05),
        (11.070497693516351, 5, 0.05),
        (124.34211340400407, 100, 0.05),
        (0.0, 7, 1.0),
        (255.0, 255, 0.48822252),
        (310.45738821990585, 255, 0.01),
    ],
)
def test_p_values_are_those_of_the_tables(statistic: float, freedom: int, expected: float) -> None:
    assert chances.p_value(statistic, freedom) == pytest.approx(expected, rel=1e-6)


def test_a_chi_square_of_an_even_spread_is_zero() -> None:
    assert chances.chi_square(np.array([5, 5, 5])) == 0
    assert chances.chi_square(np.array([4, 6])) == pytest.approx(0.4)


def test_p_values_of_random_keys_are_themselves_random() -> None:
    rng = np.random.default_rng(1)
    values = [
        chances.p_value(chances.chi_square(np.bincount(rng.integers(0, 64, 10_000), minlength=64)), 63)
        for _ in range(400)
    ]
    assert 0.4 < np.mean(values) < 0.6
    assert 0.02 < np.mean(np.array(values) < 0.05) < 0.09


def test_intervals_hold_the_mean_as_often_as_they_say() -> None:
    rng = np.random.default_rng(2)
    found = [chances.interval(rng.normal(10, 1, 50)) for _ in range(300)]
    assert 0.9 < np.mean([low < 10 < high for low, high in found]) < 0.98
    assert chances.interval(np.array([3.0])) == (3.0, 3.0)


def test_pairs_are_counted_as_by_hand() -> None:
    assert chances.pairs(np.array([0, 1, 3])) == 3
    assert chances.expected_pairs(4, 2) == 3
    assert chances.expected_empty(1, 4) == 3


def test_the_share_of_resamples_above_zero_is_that_of_the_sign() -> None:
    assert chances.share_above_zero(np.array([1.0, 2.0])) == 1.0
    assert chances.share_above_zero(np.array([-1.0])) == 0.0
    assert 0.4 < chances.share_above_zero(np.array([-1.0, 1.0] * 50 + [0.01])) < 0.6
