"""The simulator can fail: every planted bug is found within a bounded number of seeds."""

from __future__ import annotations

import pytest
from slotreeve_simulator.runner import simulate
from slotreeve_simulator.scenario import load_scenario

from tests.simulation.planted_bugs import BUGS, planted

MOST_SEEDS = 12


def test_there_are_at_least_twenty_bugs_to_find() -> None:
    assert len(BUGS) >= 20


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    scenario = load_scenario(BUGS[name].scenario)
    with planted(name):
        for seed in range(MOST_SEEDS):
            if simulate(scenario, seed).violation is not None:
                return
    pytest.fail(f"{name} is not found in {MOST_SEEDS} seeds of {scenario.name}")
