"""The one check of a planned change of the slot table.

The meta leader asks it before it commits what an assigner or balancer planned, comparisons ask it before they count a
plan, and the conformance kit asks it in its tests, so that all three agree on what a good plan is. Pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from enum import StrEnum

from slotreeve.errors import InvalidTable
from slotreeve.invariants import check_table
from slotreeve.model.nodes import Server
from slotreeve.model.plan import Plan
from slotreeve.model.slots import Move, Slot, SlotTable


class PlanFaultKind(StrEnum):
    """How a plan can be wrong."""

    NO_PLAN = "no plan"
    SLOTS_CHANGED = "number of slots changed"
    INVALID_TABLE = "invalid table"
    NO_MOVES = "table changed without moves"
    NO_CHANGE = "moves without a change"
    UNDONE_MOVES = "moves that undo each other"
    WRONG_MOVES = "moves do not lead to the table"


@dataclass(frozen=True)
class PlanFault:
    """Why a plan is refused. As text: ``moves do not lead to the table: slot 3 ...``."""

    kind: PlanFaultKind
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


def plan_fault(before: SlotTable, plan: Plan | None, servers: Sequence[Server], replicas: int) -> PlanFault | None:
    """What is wrong with a plugin's answer to ``before``; None if nothing is.

    A good plan has as many slots as ``before``, its table is valid (I5) for ``servers``, and its moves lead from
    ``before`` to its table. None is good: there is nothing to do. So is a plan without moves and without a change.
    ``before`` is the table that the plugin was given; it may name servers that have left.
    """
    if plan is None:
        return None
    if not isinstance(plan, Plan):
        return PlanFault(PlanFaultKind.NO_PLAN, f"it returned a {type(plan).__name__}; expected a Plan or None")
    if len(plan.table.slots) != len(before.slots):
        return PlanFault(PlanFaultKind.SLOTS_CHANGED, f"it has {len(plan.table.slots)} slots, not {len(before.slots)}")
    if fault := moves_fault(before, plan):
        return fault
    if not plan.moves:
        return None
    try:
        check_table(plan.table, servers, replicas)
    except InvalidTable as error:
        return PlanFault(PlanFaultKind.INVALID_TABLE, str(error))
    return None


def moves_fault(before: SlotTable, plan: Plan) -> PlanFault | None:
    """What is wrong with the moves of a plan that has as many slots as ``before``; None if they lead from ``before`` to
    the plan's table. The order of followers does not count."""
    changed = {a.id for a, b in zip(before.slots, plan.table.slots, strict=True) if not _alike(a, b)}
    if not plan.moves:
        if not changed:
            return None
        return PlanFault(PlanFaultKind.NO_MOVES, f"{len(changed)} slots changed, the first is {min(changed)}")
    problem = _problem(before, plan, changed)
    if problem is not None and changed:
        return PlanFault(PlanFaultKind.WRONG_MOVES, problem)
    if problem is not None:
        return PlanFault(PlanFaultKind.NO_CHANGE, f"there are {len(plan.moves)} moves, and the table is the same")
    if not changed:
        return PlanFault(PlanFaultKind.UNDONE_MOVES, f"after {len(plan.moves)} moves the table is the same")
    return None


def _problem(before: SlotTable, plan: Plan, changed: Set[int]) -> str | None:
    """Where the moves do not lead from ``before`` to the plan's table, which differ in the slots ``changed``; or
    None."""
    held: dict[int, _MovedSlot] = {}
    for move in plan.moves:
        if not 0 <= move.slot < len(before.slots):
            return f"{_text(move)}: there is no such slot"
        holders = held.setdefault(move.slot, _MovedSlot.of(before.slots[move.slot]))
        if problem := holders.make(move):
            return f"{_text(move)}: {problem}"
    for number in sorted(changed | held.keys()):
        by_moves, by_table = (
            held.get(number, _MovedSlot.of(before.slots[number])),
            _MovedSlot.of(plan.table.slots[number]),
        )
        if by_moves != by_table:
            return f"by the moves slot {number} has {by_moves}; in the table, {by_table}"
    return None


@dataclass
class _MovedSlot:
    """Leader and followers of one slot while moves are made."""

    leader: str | None
    followers: set[str]

    @classmethod
    def of(cls, slot: Slot) -> _MovedSlot:
        return cls(slot.leader, set(slot.followers))

    def make(self, move: Move) -> str | None:
        """Make the move; what is wrong with it, or None.

        ``leader``: the target leads and does not follow; the source does not hold the slot any more. ``follower``: the
        target follows, in the place of the source if there is one. ``drop``: the source does not follow any more.
        """
        if move.kind == "leader":
            if move.source != self.leader:
                return f"{self.leader} leads the slot then"
            if move.target is None or move.target == self.leader:
                return "the target must be another server"
            self.leader = move.target
            self.followers.discard(move.target)
            return None
        if move.kind not in ("follower", "drop"):
            return "a move is a leader, a follower or a drop"
        if (move.source is not None or move.kind == "drop") and move.source not in self.followers:
            return f"{move.source} does not follow the slot then"
        self.followers.discard(str(move.source))
        if (move.target is None) == (move.kind == "follower"):
            return "a follower has a target, a drop has none"
        if move.target is not None:
            if move.target == self.leader or move.target in self.followers:
                return f"{move.target} holds the slot then"
            self.followers.add(move.target)
        return None

    def __str__(self) -> str:
        return f"leader {self.leader}, followers {', '.join(sorted(self.followers)) or 'none'}"


def _alike(a: Slot, b: Slot) -> bool:
    return a is b or (a.leader == b.leader and (a.followers == b.followers or set(a.followers) == set(b.followers)))


def _text(move: Move) -> str:
    return f"slot {move.slot}, {move.kind} from {move.source} to {move.target}"
