"""How bugs of elections are planted, and how the election suite looks for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from slotreeve.errors import SlotreeveError
from slotreeve_conformance.election import ElectionContract
from slotreeve_conformance.election_directories import ElectionDirectoriesContract
from slotreeve_conformance.election_durability import ElectionDurabilityContract
from slotreeve_conformance.election_history import ElectionHistoryContract
from slotreeve_conformance.election_leases import ElectionLeasesContract
from slotreeve_conformance.election_scene import ElectionScene
from slotreeve_conformance.election_topologies import NAMED, ElectionTopologiesContract

from tests.simulation.planting import Patch, both, replaced

__all__ = ["BUGS", "ElectionBug", "Patch", "both", "bug", "found", "replaced", "suite_of"]

MOST_SEEDS = 120


@dataclasses.dataclass(frozen=True)
class ElectionBug:
    """A bug that can be planted.

    Attributes:
        election: the election that it is planted in.
        what: what the election does wrong then.
        make: makes the patch.
        raises: why it counts as found if an exception ends a test; empty if only a contract that does not hold counts.
    """

    name: str
    election: str
    what: str
    make: Callable[[], Patch]
    raises: str = ""


BUGS: dict[str, ElectionBug] = {}
BROKEN = (AssertionError, pytest.fail.Exception, SlotreeveError, TimeoutError)
"""Raised where a contract does not hold: a check, an answer that says so, or a condition that is not met in time."""


def bug(election: str, what: str, *, raises: str = "") -> Callable[[Callable[[], Patch]], Callable[[], Patch]]:
    """Add the bug that the function makes."""

    def add(make: Callable[[], Patch]) -> Callable[[], Patch]:
        name = make.__name__.lstrip("_")
        assert name not in BUGS
        BUGS[name] = ElectionBug(name, election, what, make, raises)
        return make

    return add


def found(contract: type[ElectionContract], bug: ElectionBug, most_seeds: int = MOST_SEEDS) -> list[str]:
    """What the suite finds with the bug: its quick tests, then histories of clients under faults, then the slow test.

    The last line is a contract that does not hold, or empty. The others are exceptions, which count only if the bug
    says why.
    """
    problems = []
    with bug.make():
        for what, attempt in _attempts(contract, most_seeds):
            try:
                attempt()
            except pytest.skip.Exception:
                continue
            except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - whatever the bug raises is looked at
                problems.append(f"{what}: {type(error).__name__}: {error}")
                if bug.raises or isinstance(error, BROKEN):
                    return problems
    return [*problems, ""]


def _attempts(contract: type[ElectionContract], most_seeds: int) -> Iterator[tuple[str, Callable[[], object]]]:
    for name in QUICK_TESTS:
        yield from _tests_of(contract, name)
    for seed in range(most_seeds):
        history = partial(suite_of(contract)._stay_linearizable, seed, nodes=3 + 2 * (seed % 2))
        yield f"history under faults, seed {seed}", history
    yield from _tests_of(contract, SLOW_TEST)


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
    "test_answers_that_take_long_make_no_lease_longer": [100, 200, 280],
    "test_a_leader_that_is_cut_off_as_it_begins_to_lead_has_no_longer_lease": [0, 100, 300],
}


def _tests_of(contract: type[ElectionContract], name: str) -> Iterator[tuple[str, Callable[[], object]]]:
    for arguments in [[value] for value in PARAMETERS[name]] if name in PARAMETERS else [[]]:
        yield name, partial(getattr(suite_of(contract), name), *arguments)
