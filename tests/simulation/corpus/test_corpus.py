"""Seeds that failed once hold. A soak appends those that it finds to ``corpus.txt``."""

from __future__ import annotations

from pathlib import Path

import pytest
from slotreeve_simulator.runner import simulate
from slotreeve_simulator.scenario import load_scenario

import tests.simulation.planted_bugs  # noqa: F401 - adds its bugs

CORPUS = [
    (line.split()[0], int(line.split()[1]))
    for line in (Path(__file__).parents[1] / "corpus.txt").read_text().splitlines()
    if line and not line.startswith("#")
]


@pytest.mark.parametrize(("scenario", "seed"), CORPUS)
def test_a_seed_that_failed_once_holds(scenario: str, seed: int) -> None:
    assert simulate(load_scenario(scenario), seed).violation is None


@pytest.mark.parametrize(("scenario", "seed"), [("narrow", 15), ("leases", 27)])
def test_a_seed_that_failed_once_on_a_slow_network_holds(scenario: str, seed: int) -> None:
    loaded = load_scenario(scenario)
    network = loaded.network.model_copy(update={"delay_ms": (2.0, 60.0)})
    assert simulate(loaded.model_copy(update={"network": network}), seed).violation is None
