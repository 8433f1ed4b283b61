"""Copies that stay until the next ones are complete."""

from __future__ import annotations

from collections.abc import Mapping

from slotreeve.model.plan import Plan
from slotreeve.model.slots import Move, Slot, SlotTable
from slotreeve_machines.plan_check import moves_fault
from slotreeve_servers.meta.spare_copies import follow_first, with_spares, without_spares

BEFORE = SlotTable(7, (Slot(0, "a", 1, ("b",)), Slot(1, "b", 1, ("c",))))


def test_who_loses_a_copy_to_another_server_follows_on_behind_it() -> None:
    after = SlotTable(7, (Slot(0, "a", 1, ("c",)), BEFORE.slots[1]))
    step = with_spares(BEFORE, Plan(after, (Move(0, "follower", "b", "c", "b has too many"),)), {"a", "b", "c"})
    assert step.table.slots == (Slot(0, "a", 1, ("c", "b")), BEFORE.slots[1])
    assert step.moves[1] == Move(0, "follower", None, "b", "until c has a copy")
    assert moves_fault(BEFORE, step) is None
    back = without_spares(step.table, 2)
    assert back.table == after
    assert back.moves == (Move(0, "drop", "b", None, "2 copies are enough"),)


def test_a_leader_that_is_replaced_by_a_server_without_a_copy_follows_on() -> None:
    after = SlotTable(7, (Slot(0, "c", 1, ("b",)), BEFORE.slots[1]))
    step = with_spares(BEFORE, Plan(after, (Move(0, "leader", "a", "c", "a leads too many"),)), {"a", "b", "c"})
    assert step.table.slots[0] == Slot(0, "c", 1, ("b", "a"))
    assert moves_fault(BEFORE, step) is None


def test_a_server_without_a_copy_follows_before_it_leads() -> None:
    after = SlotTable(7, (Slot(0, "c", 1, ("b",)), BEFORE.slots[1]))
    plan = Plan(after, (Move(0, "leader", "a", "c", "a leads too many"),))
    first = follow_first(BEFORE, plan, {"a", "b", "c"}, BEFORE)
    assert first.table.slots == (Slot(0, "a", 1, ("b", "c")), BEFORE.slots[1])
    assert first.moves == (Move(0, "follower", None, "c", "leads once it has a copy"),)
    assert follow_first(BEFORE, plan, {"a", "b", "c"}, first.table) == plan
    assert follow_first(BEFORE, plan, {"b", "c"}, BEFORE) == plan


def test_with_one_replica_too_the_next_leader_follows_first_and_other_slots_move_in_the_same_step() -> None:
    before = SlotTable(7, (Slot(0, "a", 1, ()), Slot(1, "b", 1, ()), Slot(2, "gone", 1, ())))
    after = SlotTable(7, (Slot(0, "c", 1, ()), Slot(1, "b", 1, ()), Slot(2, "c", 1, ())))
    moves = (Move(0, "leader", "a", "c", "a leads too many"), Move(2, "leader", "gone", "c", "gone left"))
    step = follow_first(before, Plan(after, moves), {"a", "b", "c"}, before)
    assert step.table.slots == (Slot(0, "a", 1, ("c",)), before.slots[1], after.slots[2])
    assert moves_fault(before, step) is None


def test_a_follower_that_has_died_is_not_waited_for() -> None:
    before = SlotTable(7, (Slot(0, "a", 1, ("dead",)),))
    moves = (Move(0, "drop", "dead", None, "dead left"), Move(0, "leader", "a", "c", "a stops"))
    step = follow_first(before, Plan(SlotTable(7, (Slot(0, "c", 1, ()),)), moves), {"a", "c"}, before)
    assert step.table.slots == (Slot(0, "a", 1, ("c",)),)
    assert moves_fault(before, step) is None


def test_nothing_is_kept_where_no_server_is_new_or_the_former_one_has_gone() -> None:
    swapped = Plan(SlotTable(7, (Slot(0, "b", 1, ("a",)), BEFORE.slots[1])), (Move(0, "leader", "a", "b", "even"),))
    assert with_spares(BEFORE, swapped, {"a", "b", "c"}) == swapped
    replaced = Plan(SlotTable(7, (Slot(0, "a", 1, ("c",)), BEFORE.slots[1])), (Move(0, "follower", "b", "c", "even"),))
    assert with_spares(BEFORE, replaced, {"a", "c"}) == replaced


def test_of_too_many_copies_those_go_first_that_are_not_complete() -> None:
    table = SlotTable(7, (Slot(0, "a", 1, ("c", "b")), BEFORE.slots[1]))

    def left(lacks: Mapping[tuple[str, int], int]) -> tuple[str, ...]:
        return without_spares(table, 2, lambda name, slot: lacks[name, slot]).table.slots[0].followers

    assert left({("b", 0): 0, ("c", 0): 1}) == ("b",)
    assert left({("b", 0): 1, ("c", 0): 2}) == ("b",)
    assert left({("b", 0): 0, ("c", 0): 0}) == ("c",)
    assert without_spares(table, 3).moves == ()
