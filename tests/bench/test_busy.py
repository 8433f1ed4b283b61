"""The settings of the demonstration beside busy loops."""

from __future__ import annotations

import pytest
from slotreeve_bench.busy import Setting


def test_the_share_of_a_run_falls_with_the_loops_on_each_of_its_processors() -> None:
    assert Setting(frozenset({0}), 0).share == 1.0
    assert Setting(frozenset({0}), 3).share == 0.25
    assert Setting(frozenset({0, 1}), 4).share == pytest.approx(1 / 3)
