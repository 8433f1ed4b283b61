"""The check of a plan refuses what is not what it says, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve import Draft, Move, Plan, Server, Slot, SlotTable
from slotreeve_balancer.default_assigner import DefaultAssigner
from slotreeve_balancer.even_assigner import EvenAssigner
from slotreeve_balancer.options import DefaultAssignerOptions
from slotreeve_conformance.tables import Situation, broken_tables, complete_tables
from slotreeve_machines.plan_check import PlanFaultKind, moves_fault, plan_fault

ABC = [Server("a"), Server("b"), Server("c")]
BEFORE = SlotTable(1, (Slot(0, "a", 1, ("b",)), Slot(1, "b", 1, ("a",))))


def table(*rows: tuple[str | None, tuple[str, ...]]) -> SlotTable:
    return SlotTable(1, tuple(Slot(number, leader, 1, held) for number, (leader, held) in enumerate(rows)))


def move(slot: int, kind: str, source: str | None, target: str | None) -> Move:
    return Move(slot, kind, source, target, "made up")


SWAPPED = table(("b", ("a",)), ("b", ("a",)))
SWAP = (move(0, "leader", "a", "b"), move(0, "follower", None, "a"))


@pytest.mark.parametrize(
    ("after", "moves", "expected"),
    [
        (table(("a", ("b",))), (move(0, "leader", "a", "b"),), "number of slots changed: it has 1 slots, not 2"),
        (table(("a", ("b",))), (), "number of slots changed: it has 1 slots, not 2"),
        (SWAPPED, (), "table changed without moves: 1 slots changed, the first is 0"),
        (BEFORE, SWAP[:1], "moves without a change: there are 1 moves, and the table is the same"),
        (
            BEFORE,
            (move(0, "follower", "b", "c"), move(0, "follower", "c", "b")),
            "moves that undo each other: after 2 moves the table is the same",
        ),
        (
            SWAPPED,
            SWAP[:1],
            "moves do not lead to the table: by the moves slot 0 has leader b, followers none; in the table, leader b, "
            "followers a",
        ),
        (
            SWAPPED,
            (*SWAP, move(1, "follower", "a", "c")),
            "moves do not lead to the table: by the moves slot 1 has leader b, followers c; in the table, leader b, "
            "followers a",
        ),
        (
            table(("b", ("a",)), ("b", ("c",))),
            SWAP,
            "moves do not lead to the table: by the moves slot 1 has leader b, followers a; in the table, leader b, "
            "followers c",
        ),
        (
            SWAPPED,
            (move(0, "leader", "c", "b"),),
            "moves do not lead to the table: slot 0, leader from c to b: a leads the slot then",
        ),
        (
            SWAPPED,
            (move(0, "leader", "a", None),),
            "moves do not lead to the table: slot 0, leader from a to None: the target must be another server",
        ),
        (
            SWAPPED,
            (move(7, "leader", "a", "b"),),
            "moves do not lead to the table: slot 7, leader from a to b: there is no such slot",
        ),
        (
            SWAPPED,
            (move(0, "swap", "a", "b"),),
            "moves do not lead to the table: slot 0, swap from a to b: a move is a leader, a follower or a drop",
        ),
        (
            SWAPPED,
            (move(0, "follower", "c", "b"),),
            "moves do not lead to the table: slot 0, follower from c to b: c does not follow the slot then",
        ),
        (
            SWAPPED,
            (move(0, "follower", None, "b"),),
            "moves do not lead to the table: slot 0, follower from None to b: b holds the slot then",
        ),
        (
            SWAPPED,
            (move(0, "drop", None, None),),
            "moves do not lead to the table: slot 0, drop from None to None: None does not follow the slot then",
        ),
        (
            SWAPPED,
            (move(0, "drop", "b", "c"),),
            "moves do not lead to the table: slot 0, drop from b to c: a follower has a target, a drop has none",
        ),
        (
            table(("a", ()), ("b", ("a",))),
            (move(0, "drop", "b", None),),
            "invalid table: slot 0 has 0 followers; with 3 live servers it must have 1",
        ),
        (
            table(("dead", ("b",)), ("b", ("a",))),
            (move(0, "leader", "a", "dead"),),
            "invalid table: slot 0 is held by dead, not among the live servers",
        ),
    ],
)
def test_a_plan_that_is_not_what_it_says_is_refused_by_name(
    after: SlotTable, moves: tuple[Move, ...], expected: str
) -> None:
    assert str(plan_fault(BEFORE, Plan(after, moves), ABC, 2)) == expected


def test_what_is_no_plan_is_refused() -> None:
    answer: object = (BEFORE, ())
    fault = plan_fault(BEFORE, answer, ABC, 2)  # type: ignore[arg-type]
    assert fault is not None
    assert fault.kind is PlanFaultKind.NO_PLAN


def test_a_plan_that_says_what_it_does_is_good() -> None:
    assert plan_fault(BEFORE, Plan(SWAPPED, SWAP), ABC, 2) is None
    assert plan_fault(BEFORE, None, ABC, 2) is None
    assert plan_fault(BEFORE, Plan(BEFORE, ()), ABC, 2) is None


@given(broken_tables())
def test_the_plans_of_the_built_in_assigners_are_good(situation: Situation) -> None:
    before, servers, limits = situation
    for assigner in (DefaultAssigner(DefaultAssignerOptions()), EvenAssigner()):
        assert plan_fault(before, assigner.assign(before, servers, limits), servers, limits.replicas) is None


@given(complete_tables(), st.data())
def test_whatever_a_draft_does_its_moves_are_good_and_no_move_of_it_can_be_left_out(
    situation: Situation, data: st.DataObject
) -> None:
    before, servers, _ = situation
    draft = Draft(before, servers)
    for slot in data.draw(st.lists(st.sampled_from(range(len(before.slots))), min_size=1, unique=True)):
        _change(draft, slot, data.draw(st.permutations(draft.servers)))
    plan = draft.plan()
    if plan is None:
        return
    assert moves_fault(before, plan) is None
    left_out = data.draw(st.sampled_from(range(len(plan.moves))))
    rest = plan.moves[:left_out] + plan.moves[left_out + 1 :]
    assert moves_fault(before, Plan(plan.table, rest)) is not None


def _change(draft: Draft, slot: int, preferred: Sequence[str]) -> None:
    """One change of the slot; each move of it matters to the result."""
    first = preferred[0]
    if first != draft.leader(slot):
        draft.lead(slot, first, "made up")
    elif draft.followers(slot):
        draft.unfollow(slot, draft.followers(slot)[0], "made up")
