"""How bugs of elections are planted, and how the election suite looks for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from slotreeve_conformance.election import ElectionContract
from slotreeve_conformance.election_directories import ElectionDirectoriesContract
from slotreeve_conformance.election_durability import ElectionDurabilityContract
from slotreeve_conformance.election_history import ElectionHistoryContract
from slotreeve_conformance.election_leases import ElectionLeasesContract
from slotreeve_conformance.election_scene import ElectionScene
from slotreeve_conformance.election_topologies import NAMED, ElectionTopologiesContract

from tests.simulation.planting import Patch, both

__all__ = ["BUGS", "ElectionBug", "Patch", "both", "bug", "found", "suite_of"]

MOST_SEEDS = 80


@dataclasses.dataclass(frozen=True)
class ElectionBug:
    """A bug that can be planted.

    Attributes:
        election: the election that it is planted in.
        what: what the election does wrong then.
        make: makes the patch.
    """

    name: str
    election: str
    what: str
    make: Callable[[], Patch]


BUGS: dict[str, ElectionBug] = {}


def bug(election: str, what: str) -> Callable[[Callable[[], Patch]], Callable[[], Patch]]:
    """Add the bug that the function makes."""

    def add(make: Callable[[], Patch]) -> Callable[[], Patch]:
        name = make.__name__.lstrip("_")
        assert name not in BUGS
        BUGS[name] = ElectionBug(name, election, what, make)
        return make

    return add


def found(contract: type[ElectionContract], make: Callable[[], Patch], most_seeds: int = MOST_SEEDS) -> str | None:
    """What the suite finds with the bug: its quick tests, then histories of clients under faults, then the slow test.

    None: nothing.
    """
    with make():
        for name in QUICK_TESTS:
            if (problem := _problem(contract, name)) is not None:
                return problem
        for seed in range(most_seeds):
            try:
                suite_of(contract)._stay_linearizable(seed, nodes=3 + 2 * (seed % 2))
            except Exception as error:  # noqa: BLE001 - whatever the bug raises is what was found
                return f"history under faults, seed {seed}: {type(error).__name__}: {error}"
        return _problem(contract, SLOW_TEST)


def suite_of(contract: type[ElectionContract]) -> ElectionContract:
    """An instance outside of pytest, which records nothing."""
    suite = contract()
    suite._record = lambda _name, _value: None
    return suite


def _tests(contract: type[ElectionScene]) -> list[str]:
    return sorted(name for name in dir(contract) if name.startswith("test_"))


SLOW_TEST = "test_many_rivals_never_lead_at_once_over_many_changes"
SHARPEST_TESTS = [
    *_tests(ElectionLeasesContract),
    *_tests(ElectionDurabilityContract),
    *_tests(ElectionDirectoriesContract),
    *_tests(ElectionTopologiesContract),
]
QUICK_TESTS = [
    *SHARPEST_TESTS,
    *sorted({*_tests(ElectionContract)} - {*SHARPEST_TESTS, *_tests(ElectionHistoryContract), SLOW_TEST}),
]
PARAMETERS: dict[str, list[object]] = {
    "test_one_node_leads_and_all_know_it": [3],
    "test_a_node_without_its_data_keeps_no_leader_in_office_before_it_has_promised_anything": [180, 220, 260, 300],
    "test_no_write_is_lost_whatever_happens_to_the_directories_of_a_minority": [0, 1, 2],
    "test_a_majority_that_is_connected_is_led": list(NAMED),
    "test_so_it_is_in_topologies_at_random": [0, 1],
    "test_a_leader_that_is_cut_off_as_it_begins_to_lead_has_no_longer_lease": [0, 100, 300],
}


def _problem(contract: type[ElectionContract], name: str) -> str | None:
    parameters = [[value] for value in PARAMETERS[name]] if name in PARAMETERS else [[]]
    for arguments in parameters:
        try:
            getattr(suite_of(contract), name)(*arguments)
        except pytest.skip.Exception:
            return None
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - whatever the bug raises is what was found
            return f"{name}: {type(error).__name__}: {error}"
    return None
