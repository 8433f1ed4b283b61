"""Shrinking: from a failing run to the shortest run that breaks the same invariant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slotreeve_simulator.plan import Cut
from slotreeve_simulator.runner import Result, simulate
from slotreeve_simulator.scenario import Scenario

MOST_RUNS = 60
CALL_SHARES = (0.0, 0.1, 0.3)


@dataclass(frozen=True)
class Shrunk:
    """The shortest failing run that was found.

    Attributes:
        cut: the part of the plan that it keeps.
        result: its result.
        runs: number of runs that the search took.
    """

    cut: Cut
    result: Result
    runs: int


def shrink(scenario: Scenario, failing: Result, minutes: float | None = None, most_runs: int = MOST_RUNS) -> Shrunk:
    """Leave out faults and calls of a failing run while the run still breaks the same invariant.

    Raises:
        ValueError: the run did not fail.
    """
    if failing.violation is None:
        raise ValueError(f"seed {failing.seed} does not fail: there is nothing to shrink")
    search = _Search(scenario, failing, minutes, most_runs)
    only = search.fewer(failing.faults, lambda faults: Cut(faults, search.best.cut.calls))
    for share in CALL_SHARES:
        if search.still_fails(Cut(only, share)):
            break
    return search.best


class _Search:
    def __init__(self, scenario: Scenario, failing: Result, minutes: float | None, most_runs: int) -> None:
        assert failing.violation is not None
        self._scenario, self._seed, self._minutes = scenario, failing.seed, minutes
        self._invariant, self._most_runs = failing.violation.invariant, most_runs
        self._runs = 0
        self.best = Shrunk(Cut(), failing, 0)

    def still_fails(self, cut: Cut) -> bool:
        """Run the cut plan; keep it if it fails and is the shortest."""
        if self._runs >= self._most_runs:
            return False
        self._runs += 1
        result = simulate(self._scenario, self._seed, self._minutes, cut)
        if result.violation is None or result.violation.invariant != self._invariant:
            return False
        self.best = Shrunk(cut, result, self._runs)
        return True

    def fewer(self, faults: Sequence[int], cut_to: Callable[[tuple[int, ...]], Cut]) -> tuple[int, ...]:
        """Delta debugging: drop smaller and smaller parts while the run still fails."""
        kept = tuple(faults)
        parts = 2
        while len(kept) >= 1 and parts <= 2 * len(kept):
            size = max(1, len(kept) // parts)
            for start in range(0, len(kept), size):
                rest = kept[:start] + kept[start + size :]
                if self.still_fails(cut_to(rest)):
                    kept, parts = rest, max(2, parts - 1)
                    break
            else:
                if size == 1:
                    break
                parts *= 2
        return kept
