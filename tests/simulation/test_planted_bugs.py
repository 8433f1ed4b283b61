"""The simulator can fail: every planted bug is found within a bounded number of seeds."""

from __future__ import annotations

import pytest
from slotreeve_simulator.runner import simulate
from slotreeve_simulator.scenario import built_in, load_scenario

import tests.simulation.planted_bugs
import tests.simulation.planted_election_bugs
import tests.simulation.planted_evidence_bugs
import tests.simulation.planted_gateway_bugs
import tests.simulation.planted_lease_bugs
import tests.simulation.planted_queue_bugs  # noqa: F401 - all of them add their bugs
from tests.simulation.masked_bugs import MASKED
from tests.simulation.planting import BUGS, Patch, both, planted

MOST_SEEDS = 100
"""Most bugs are found with the first seed that they name. A change of the servers changes what a seed does, so that the
bug may need some more."""
SEARCH_SECONDS = 900
SEEDS_OF_A_MASK = 2


def find(scenario: str, first: int, seeds: int, *patches: Patch) -> str | None:
    """What the simulator finds in these seeds under these patches."""
    loaded = load_scenario(scenario)
    with both(*patches):
        for seed in range(first, first + seeds):
            violation = simulate(loaded, seed).violation
            if violation is not None:
                return f"seed {seed}: {violation}"
    return None


def test_there_are_at_least_fifty_bugs_to_find_and_few_are_masked() -> None:
    assert len(BUGS) >= 50
    assert BUGS.keys() >= MASKED.keys()
    assert len(MASKED) <= 8


def test_every_bug_can_be_planted() -> None:
    for name in BUGS:
        with planted(name):
            assert BUGS[name].scenario in built_in()


@pytest.mark.timeout(SEARCH_SECONDS)
@pytest.mark.parametrize("name", [name for name in BUGS if name not in MASKED])
def test_a_planted_bug_is_found(name: str) -> None:
    bug = BUGS[name]
    assert find(bug.scenario, bug.first, MOST_SEEDS, bug.make()) is not None


@pytest.mark.timeout(SEARCH_SECONDS)
@pytest.mark.parametrize("name", MASKED)
def test_a_masked_bug_is_found_once_its_mask_is_taken_away(name: str) -> None:
    mask = MASKED[name]
    assert find(mask.scenario, mask.first, MOST_SEEDS, mask.remove(), BUGS[name].make()) is not None


@pytest.mark.parametrize("name", [name for name in MASKED if MASKED[name].is_harmless])
def test_a_mask_alone_breaks_nothing(name: str) -> None:
    mask = MASKED[name]
    assert find(mask.scenario, mask.first, SEEDS_OF_A_MASK, mask.remove()) is None
