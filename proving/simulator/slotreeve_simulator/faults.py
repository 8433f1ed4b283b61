"""One fault of a plan."""

from __future__ import annotations

from dataclasses import dataclass

from slotreeve_simulator.fault_kinds import FaultKind
from slotreeve_simulator.states import ClusterState

INSTANT = frozenset(
    {
        FaultKind.CUT,
        FaultKind.BREAK_LINK,
        FaultKind.CUT_CLIENT,
        FaultKind.ADD_CLIENT,
        FaultKind.STORE_RESTART,
    }
)


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        number: its place in the whole plan, for ``--only``.
        at: seconds after the start of its storm.
        seconds: its duration.
        first: the processes that it strikes.
        others: the second group of a partition or of a cut; of a topology, the other end of each link.
        amount: its strength, 0 to 1: how slow or how wrong.
        aimed_at: it waits for this state of the cluster.
    """

    number: int
    at: float
    kind: FaultKind
    seconds: float
    first: tuple[str, ...]
    others: tuple[str, ...] = ()
    amount: float = 0.0
    aimed_at: ClusterState | None = None

    def __str__(self) -> str:
        others = f" from {', '.join(self.others)}" if self.others else ""
        lasting = "" if self.kind in INSTANT else f" for {self.seconds:.3f} s"
        return f"fault {self.number}: {self.kind} {', '.join(self.first)}{others}{lasting}"
