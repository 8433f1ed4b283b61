"""Elections compared in simulation on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from slotreeve.errors import ConfigError
from slotreeve_spark.compare.elections import SCENARIOS, ElectionCell, ElectionQuestion, simulate

if TYPE_CHECKING:
    pass


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("backend", ["fle", "lock"])
def test_a_cell_is_the_same_every_time_and_nothing_is_broken(backend: str, scenario: str) -> None:
    first = simulate(ElectionCell(backend, 3, scenario, 5), 3, {})
    assert first.violations == 0, first.first_violation
    assert len(first.fail_overs) == 3
    assert 0 < first.fail_over_seconds <= first.longest_seconds < 2
    assert 0 < first.unavailable_share < 1
    assert first.leaders >= 1
    assert first.messages > 0
    assert simulate(ElectionCell(backend, 3, scenario, 5), 3, {}) == first


def test_unknown_scenarios_and_lone_nodes_are_refused() -> None:
    with pytest.raises(ConfigError, match="there is no scenario 'hit'"):
        ElectionQuestion(("fle",), scenarios=("hit",))
    with pytest.raises(ConfigError, match="at least 2 nodes"):
        ElectionQuestion(("fle",), nodes=(1,))
