"""Checks of a slot table and of its successor, and the epochs of a new table."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve import Server, Slot, SlotTable
from slotreeve.errors import InvalidTable
from slotreeve.invariants import check_successor, check_table, stamp
from slotreeve_conformance.tables import Situation, complete_tables

ABC = [Server("a"), Server("b"), Server("c")]


def table(*slots: tuple[int, str | None, tuple[str, ...]], epoch: int = 1) -> SlotTable:
    return SlotTable(epoch, tuple(Slot(number, leader, 1, followers) for number, leader, followers in slots))


@settings(derandomize=True)
@given(complete_tables())
def test_complete_tables_are_valid(situation: Situation) -> None:
    made, servers, limits = situation
    check_table(made, servers, limits.replicas)


def test_the_empty_table_is_valid_even_without_servers() -> None:
    check_table(SlotTable(), [], 2)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (table((1, "a", ("b",))), "slot 1 stands at index 0"),
        (table((0, None, ("b",))), "slot 0 has no leader"),
        (table((0, "a", ("a",))), "slot 0 lists its leader a as a follower"),
        (table((0, "a", ("b", "b"))), "slot 0 lists a follower or learner twice: b, b"),
        (table((0, "a", ("b",)), (1, "d", ("b",))), "slot 1 is held by d, not among the live"),
        (table((0, "a", ())), "slot 0 has 0 followers; with 3 live servers it must have 1"),
        (SlotTable(1, (Slot(0, "a", 1, ("b",), ("c",)),)), "slot 0 has the learners c; a plan must have none"),
        (table((0, "a", ("b", "c"))), "slot 0 has 2 followers; with 3 live servers it must have 1"),
    ],
)
def test_the_error_names_what_is_wrong(wrong: SlotTable, says: str) -> None:
    with pytest.raises(InvalidTable, match=says):
        check_table(wrong, ABC, 2)


def test_fewer_servers_than_replicas_need_fewer_followers() -> None:
    check_table(table((0, "a", ("b",))), ABC[:2], 4)
    check_table(table((0, "a", ())), ABC[:1], 4)


def test_the_same_table_may_follow_itself() -> None:
    check_successor(table((0, "a", ())), table((0, "a", ())))


@pytest.mark.parametrize(
    ("successor", "says"),
    [
        (table((0, "b", ()), epoch=3), "slot 0: the leader was a and is b, so its epoch must be 3, not 1"),
        (SlotTable(3, (Slot(0, "a", 3, ()),)), "slot 0: the leader was a and is a, so its epoch must be 1, not 3"),
        (table((0, "a", ("b",)), epoch=2), "epoch 2 cannot follow epoch 2"),
        (table((0, "a", ()), (1, "a", ()), epoch=3), "cannot change from 1 to 2"),
        (SlotTable(3), "cannot change from 1 to 0"),
    ],
)
def test_a_successor_with_wrong_epochs_is_refused(successor: SlotTable, says: str) -> None:
    with pytest.raises(InvalidTable, match=says):
        check_successor(table((0, "a", ()), epoch=2), successor)


@settings(derandomize=True)
@given(complete_tables(), complete_tables(), st.integers(1, 50))
def test_a_stamped_table_may_follow_any_table_of_its_size(old: Situation, new: Situation, rise: int) -> None:
    size = min(len(old[0].slots), len(new[0].slots))
    before, after = SlotTable(7, old[0].slots[:size]), SlotTable(0, new[0].slots[:size])
    stamped = stamp(before, after, before.epoch + rise)
    check_successor(before, stamped)
    assert stamped.epoch == before.epoch + rise
    for a, b, c in zip(before.slots, after.slots, stamped.slots, strict=True):
        assert (c.leader, c.followers) == (b.leader, b.followers)
        assert c.leader_epoch == (a.leader_epoch if a.leader == b.leader else stamped.epoch)


def test_the_first_table_follows_the_empty_one() -> None:
    first = stamp(SlotTable(), table((0, "a", ())), 1)
    assert first.slots[0].leader_epoch == 1
    check_successor(SlotTable(), first)


def test_stamping_refuses_an_old_epoch_and_another_size() -> None:
    with pytest.raises(InvalidTable, match="epoch 1 cannot follow epoch 1"):
        stamp(table((0, "a", ())), table((0, "b", ())), 1)
    with pytest.raises(InvalidTable, match="cannot change from 1 to 2"):
        stamp(table((0, "a", ())), table((0, "a", ()), (1, "a", ())), 2)
