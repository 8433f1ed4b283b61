"""The table of faults by the state of the cluster in which they struck."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slotreeve_simulator.aims import Struck
from slotreeve_simulator.fault_kinds import FaultKind
from slotreeve_simulator.states import ClusterState

IMPOSSIBLE: dict[tuple[FaultKind, ClusterState], str] = {}
"""The cells that must be empty, each with the reason."""


def table(struck: Struck, kinds: Iterable[FaultKind], states: Sequence[ClusterState]) -> list[dict[str, object]]:
    """One row for each kind of fault, with a count for each state."""
    return [{"fault": str(kind), **{str(state): struck[kind, state] for state in states}} for kind in kinds]


def empty_cells(struck: Struck, kinds: Iterable[FaultKind], states: Sequence[ClusterState]) -> list[str]:
    """The cells without any fault, except the impossible ones."""
    cells = [(kind, state) for kind in kinds for state in states]
    return [
        f"{kind} in {state}" for kind, state in cells if not struck[kind, state] and (kind, state) not in IMPOSSIBLE
    ]
