"""The draft, against a dumb twin that counts everything from the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve import Limits, Server, Slot, SlotTable
from slotreeve.errors import ModelError
from slotreeve.model.draft import Draft
from slotreeve_conformance.tables import Situation, broken_tables, check_moves, complete_tables
from slotreeve_machines.plan_check import PlanFaultKind, moves_fault

AB = [Server("a"), Server("b")]
TABLE = SlotTable(4, (Slot(0, "a", 2, ("b",)), Slot(1, "gone", 3, ("a", "gone-too"))))


@settings(derandomize=True)
@given(complete_tables(), st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), st.integers(0, 2)), max_size=30))
def test_indexes_and_rankings_are_right_after_any_changes(
    situation: Situation, changes: list[tuple[int, int, int]]
) -> None:
    table, servers, _ = situation
    draft = Draft(table, servers)
    for slot, server, kind in changes:
        change(draft, slot % len(draft.slots), draft.servers[server % len(servers)], kind)
    after = draft.table()
    if (plan := draft.plan()) is not None:
        assert plan.table == after
        fault = moves_fault(table, plan)
        assert fault is None or fault.kind is PlanFaultKind.UNDONE_MOVES
    led = {s.name: {slot.id for slot in after.slots if slot.leader == s.name} for s in servers}
    followed = {s.name: {slot.id for slot in after.slots if s.name in slot.followers} for s in servers}
    for name in draft.servers:
        assert draft.led_by(name) == led[name]
        assert draft.followed_by(name) == followed[name]
    check_order(draft.least_leaders(), lambda n: (len(led[n]), len(followed[n]), n), draft.servers)
    check_order(draft.most_leaders(), lambda n: (-len(led[n]), -len(followed[n]), n), draft.servers)
    check_order(draft.least_followers(), lambda n: (len(followed[n]), len(led[n]), n), draft.servers)
    check_order(draft.most_followers(), lambda n: (-len(followed[n]), -len(led[n]), n), draft.servers)


def change(draft: Draft, slot: int, server: str, kind: int) -> None:
    if kind == 0 and draft.leader(slot) != server:
        draft.lead(slot, server, "tried")
    elif kind == 1 and not draft.holds(server, slot):
        draft.follow(slot, server, "tried", next(iter(draft.followers(slot)), None))
    elif kind == 2 and server in draft.followers(slot):
        draft.unfollow(slot, server, "tried")


def check_order(order: object, key: Callable[[str], tuple[int, int, str]], names: Sequence[str]) -> None:
    assert list(order) == sorted(names, key=key)  # type: ignore[call-overload]


@settings(derandomize=True)
@given(broken_tables())
def test_servers_that_left_hold_no_slot_in_a_new_draft(situation: Situation) -> None:
    table, servers, _ = situation
    live = {server.name for server in servers}
    for slot in Draft(table, servers).table().slots:
        assert live.issuperset({*slot.followers} | ({slot.leader} if slot.leader else set()))


def test_a_leader_that_left_is_known_until_the_slot_has_a_leader_again() -> None:
    draft = Draft(TABLE, AB)
    assert draft.leader(1) is None
    assert draft.departed_leader(1) == "gone"
    assert [(m.kind, m.source, m.reason) for m in draft.moves] == [("drop", "gone-too", "gone-too left")]
    draft.lead(1, "a", "gone left")
    assert draft.departed_leader(1) is None
    assert draft.moves[-1].source == "gone"
    assert draft.followers(1) == []


def test_epochs_are_as_in_the_input() -> None:
    draft = Draft(TABLE, AB)
    draft.lead(0, "b", "promoted")
    assert draft.table().epoch == 4
    assert draft.table().slots[0] == Slot(0, "b", 2, ("a",))


def test_a_former_leader_becomes_follower_of_a_slot_that_its_follower_takes_over_unless_the_caller_declines() -> None:
    draft = Draft(SlotTable(1, (Slot(0, "a", 1, ("b",)), Slot(1, "a", 1, ("b",)), Slot(2, "a", 1, ()))), AB)
    draft.lead(0, "b", "promoted")
    draft.lead(1, "b", "promoted", demoted_follows=False)
    draft.lead(2, "b", "moved")
    assert [(slot.leader, slot.followers) for slot in draft.table().slots] == [("b", ("a",)), ("b", ()), ("b", ())]
    moves = [(move.slot, move.kind) for move in draft.moves]
    assert moves == [(0, "leader"), (0, "follower"), (1, "leader"), (2, "leader")]


def test_a_draft_without_changes_makes_no_plan() -> None:
    table = SlotTable(1, (Slot(0, "a", 1, ("b",)),))
    draft = Draft(table, AB)
    assert draft.plan() is None
    assert draft.table() == table


def test_a_restarted_draft_records_only_later_changes() -> None:
    draft = Draft(TABLE, AB)
    draft.lead(1, "b", "first")
    between = draft.table()
    draft.restart(between)
    assert draft.plan() is None
    draft.follow(0, "a", "second") if not draft.holds("a", 0) else draft.unfollow(0, "b", "second")
    plan = draft.plan()
    assert plan is not None
    check_moves(between, plan)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda d: d.lead(0, "a", "-"), "a cannot become leader of slot 0"),
        (lambda d: d.lead(0, "gone", "-"), "gone cannot become leader of slot 0: it is not live"),
        (lambda d: d.follow(0, "b", "-"), "b cannot become follower of slot 0"),
        (lambda d: d.follow(1, "b", "-", "gone"), "gone does not follow slot 1; its followers: a"),
        (lambda d: d.unfollow(0, "a", "-"), "a does not follow slot 0; its followers: b"),
    ],
)
def test_impossible_changes_are_refused_with_the_reason(wrong: Callable[[Draft], None], says: str) -> None:
    with pytest.raises(ModelError, match=says):
        wrong(Draft(TABLE, AB))


def test_the_example_of_the_docstring_works() -> None:
    draft = Draft(SlotTable(1, (Slot(0, "a", 1, ()),)), AB)
    poorest = next(draft.least_followers())
    assert poorest == "b"
    draft.follow(0, poorest, "slot 0 lacks a follower")
    assert draft.plan() is not None
    assert Limits(2).replicas == 2
