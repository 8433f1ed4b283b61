"""The simulator can fail: every planted bug is found within a bounded number of seeds."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from slotreeve_simulator.runner import simulate
from slotreeve_simulator.scenario import load_scenario

import tests.simulation.planted_bugs
import tests.simulation.planted_copy_bugs
import tests.simulation.planted_election_bugs
import tests.simulation.planted_evidence_bugs
import tests.simulation.planted_gateway_bugs
import tests.simulation.planted_lease_bugs
import tests.simulation.planted_operator_bugs
import tests.simulation.planted_queue_bugs
import tests.simulation.planted_rough_bugs  # noqa: F401 - all of them add their bugs
from tests.simulation.masked_bugs import MASKED
from tests.simulation.planting import BUGS, Patch, both

LOGGED = "health"
"""The name under which the simulator reports an exception that the product logged."""
MOST_SEEDS = 100
"""Most bugs are found with the first seed that they name. A change of the servers changes what a seed does, so that the
bug may need some more."""
SEARCH_SECONDS = 900
SEEDS_OF_A_MASK = 2


def find(scenario: str, seeds: Iterable[int], *patches: Patch, raises: str = "") -> list[str]:
    """What the simulator finds in these seeds under these patches: the last line is a broken invariant, or empty.

    An exception in a log is none, unless ``raises`` says why the bug has no other sign.
    """
    loaded, found = load_scenario(scenario), []
    with both(*patches):
        for seed in seeds:
            violation = simulate(loaded, seed).violation
            if violation is not None:
                found.append(f"seed {seed}: {violation}")
                if raises or violation.invariant != LOGGED:
                    return found
    return [*found, ""]


def finds(scenario: str, first: int, *patches: Patch, raises: str = "") -> bool:
    """Whether a broken invariant is found. Fails with what was found instead."""
    found = find(scenario, range(first, first + MOST_SEEDS), *patches, raises=raises)
    assert found[-1], f"no invariant was broken in {MOST_SEEDS} seeds; only {found[:-1] or 'nothing'}"
    return True


@pytest.mark.timeout(SEARCH_SECONDS)
@pytest.mark.parametrize("name", [name for name in BUGS if name not in MASKED])
def test_a_planted_bug_is_found(name: str) -> None:
    bug = BUGS[name]
    assert finds(bug.scenario, bug.first, bug.make(), raises=bug.raises)


@pytest.mark.timeout(SEARCH_SECONDS)
@pytest.mark.parametrize("name", MASKED)
def test_a_masked_bug_is_found_once_its_mask_is_taken_away(name: str) -> None:
    mask = MASKED[name]
    assert finds(mask.scenario, mask.first, mask.remove(), BUGS[name].make(), raises=BUGS[name].raises)


@pytest.mark.parametrize("name", [name for name in MASKED if MASKED[name].is_harmless])
def test_a_mask_alone_breaks_nothing(name: str) -> None:
    mask = MASKED[name]
    assert find(mask.scenario, range(mask.first, mask.first + SEEDS_OF_A_MASK), mask.remove()) == [""]
