"""The simulator can fail: every planted bug is found within a bounded number of seeds."""

from __future__ import annotations

import pytest
from slotreeve_simulator.runner import simulate
from slotreeve_simulator.scenario import built_in, load_scenario

import tests.simulation.planted_bugs  # noqa: F401 - adds its bugs
from tests.simulation.planted_evidence_bugs import MISSED
from tests.simulation.planting import BUGS, planted

MOST_SEEDS = 12


def test_there_are_at_least_twenty_bugs_to_find() -> None:
    assert len(BUGS) >= 20


def test_every_bug_can_be_planted() -> None:
    for name in BUGS:
        with planted(name):
            assert BUGS[name].scenario in built_in()
    assert BUGS.keys() >= MISSED


@pytest.mark.parametrize("name", [name for name in BUGS if name not in MISSED])
def test_a_planted_bug_is_found(name: str) -> None:
    scenario = load_scenario(BUGS[name].scenario)
    with planted(name):
        for seed in range(BUGS[name].first, BUGS[name].first + MOST_SEEDS):
            if simulate(scenario, seed).violation is not None:
                return
    pytest.fail(f"{name} is not found in {MOST_SEEDS} seeds of {scenario.name}")
