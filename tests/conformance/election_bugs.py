"""How bugs of elections are planted, and how the election suite looks for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from slotreeve_conformance.election import ElectionContract

from tests.simulation.planting import Patch, both

__all__ = ["BUGS", "ElectionBug", "Patch", "both", "bug", "found"]

MOST_SEEDS = 30


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
    """What the suite finds with the bug: a loss of power, then histories of clients under faults, then the other tests.

    None: nothing.
    """
    with make():
        for name in SHORT_TESTS:
            if (problem := _problem(contract, name)) is not None:
                return problem
        for seed in range(most_seeds):
            try:
                _suite(contract)._stay_linearizable(seed, nodes=3 + 2 * (seed % 2))
            except Exception as error:  # noqa: BLE001 - whatever the bug raises is what was found
                return f"history under faults, seed {seed}: {type(error).__name__}: {error}"
        for name in sorted(name for name in dir(contract) if name.startswith("test_")):
            if name not in LONG_TESTS | SHORT_TESTS and (problem := _problem(contract, name)) is not None:
                return problem
    return None


PARAMETERS = {"test_one_node_leads_and_all_know_it": (3,)}
SHORT_TESTS = frozenset({"test_an_acknowledged_write_survives_a_loss_of_power_in_the_same_moment"})
LONG_TESTS = frozenset({"test_concurrent_writers_and_readers_over_faults_stay_linearizable"})


def _problem(contract: type[ElectionContract], name: str) -> str | None:
    try:
        getattr(_suite(contract), name)(*PARAMETERS.get(name, ()))
    except pytest.skip.Exception:
        return None
    except Exception as error:  # noqa: BLE001 - whatever the bug raises is what was found
        return f"{name}: {type(error).__name__}: {error}"
    return None


def _suite(contract: type[ElectionContract]) -> ElectionContract:
    suite = contract()
    suite._record = lambda _name, _value: None
    return suite
