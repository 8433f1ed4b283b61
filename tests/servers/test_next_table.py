"""The next view's table, and who is a member by it, where a process was replaced."""

from __future__ import annotations

from dataclasses import replace

from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_balancer.default_assigner import DefaultAssigner
from slotreeve_balancer.even_balancer import EvenBalancer
from slotreeve_balancer.options import DefaultAssignerOptions, EvenBalancerOptions
from slotreeve_protocol.meta_messages import View
from slotreeve_servers.meta.arranging.arranger import NOBODY_LEAVES, Arranger, CopyReports
from slotreeve_servers.meta.arranging.next_table import Situation, next_table

TABLE = SlotTable(5, (Slot(0, "a", 3, ("b",)), Slot(1, "b", 4, ("a",)), Slot(2, "b", 4, ())))


def node(name: str, life: int = 1) -> Node:
    return Node(name, Role.DATA, f"{name}:1", f"{name}@{life}")


def arranger(protect_below: int = 0) -> Arranger:
    balancer = EvenBalancer(EvenBalancerOptions())
    return Arranger(len(TABLE.slots), 2, DefaultAssigner(DefaultAssignerOptions()), balancer, protect_below)


def situation(*data: Node) -> Situation:
    """``a`` and ``b`` are members in their first lives; these live now."""
    view = View(1, 9, TABLE, [node("a"), node("b")], [])
    return Situation(view, list(data), [], CopyReports(), 0, NOBODY_LEAVES, may_assign=True)


def test_the_slots_of_a_replaced_process_are_led_by_who_is_in_sync_and_it_learns() -> None:
    found = next_table(arranger(), situation(node("a", 2), node("b")))
    first, second, third = found.table.slots
    assert (first.leader, first.leader_epoch, first.in_sync) == ("b", 6, ("b",))
    assert (second.leader, second.leader_epoch, second.followers, second.learners) == ("b", 4, (), ("a",))
    assert third.leader == "b"
    assert (found.waiting, found.is_for_no_view) == (frozenset(), False)
    assert ("demote", 1) in [(move.kind, move.slot) for move in found.moves], "and the history says so"


def test_while_the_table_is_protected_a_replaced_leader_is_no_member_and_others_do_not_wait_for_it() -> None:
    found = next_table(arranger(protect_below=4), situation(node("a", 2), node("b"), node("c")))
    assert found.waiting == {"a"}
    assert not found.is_for_no_view
    assert [(slot.leader, slot.leader_epoch) for slot in found.table.slots] == [("a", 3), ("b", 4), ("b", 4)]


def test_while_the_table_is_protected_a_replaced_follower_is_a_member_and_learns() -> None:
    followed = SlotTable(5, (Slot(0, "b", 3, ("a",)),))
    now = situation(node("a", 2), node("b"))
    found = next_table(arranger(protect_below=4), replace(now, view=View(1, 9, followed, [node("a"), node("b")], [])))
    assert (found.waiting, found.table.slots) == (frozenset(), (Slot(0, "b", 3, (), ("a",)),))


def test_a_dead_leader_of_a_protected_table_keeps_nobody_out() -> None:
    found = next_table(arranger(protect_below=4), situation(node("b"), node("c")))
    assert (found.waiting, found.is_for_no_view, found.table) == (frozenset(), False, TABLE)


def test_where_nothing_has_changed_no_view_follows() -> None:
    unchanged = next_table(arranger(protect_below=4), situation(node("a"), node("b")))
    assert (unchanged.is_for_no_view, unchanged.table) == (True, TABLE)
