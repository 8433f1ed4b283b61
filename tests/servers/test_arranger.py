"""The arranger: which table comes next, whatever servers come and go and whatever plugins return."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, MutableMapping, MutableSequence, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve import Draft
from slotreeve.invariants import check_successor, check_table, stamp
from slotreeve.model.loads import SlotLoad
from slotreeve.model.nodes import Node, Role, Server
from slotreeve.model.plan import Plan
from slotreeve.model.slots import Limits, Slot, SlotTable
from slotreeve_balancer.default_assigner import DefaultAssigner
from slotreeve_balancer.even_assigner import EvenAssigner
from slotreeve_balancer.even_balancer import EvenBalancer
from slotreeve_balancer.options import DefaultAssignerOptions, EvenBalancerOptions
from slotreeve_servers.meta.arranging.arranger import (
    NOBODY_LEAVES,
    Arrangement,
    Arranger,
    CopyReports,
    Leaving,
    PlannedTable,
    is_complete,
    led_anew,
    resumed,
    without_replaced,
)
from slotreeve_servers.meta.arranging.copy_steps import CopyReport, towards

from tests.servers.table_moves import moved


def node(name: str, life: int = 1) -> Node:
    return Node(name, Role.DATA, f"{name}:1", f"{name}@{life}")


def servers(*names: str) -> list[Server]:
    return [node(name).as_server() for name in names]


def even() -> EvenBalancer:
    return EvenBalancer(EvenBalancerOptions())


def arranger(protect_below: int = 0) -> Arranger:
    return Arranger(6, 2, DefaultAssigner(DefaultAssignerOptions()), even(), protect_below)


def reported(table: SlotTable, ready: str = "abcdefghijk", unsettled: Collection[tuple[str, int]] = ()) -> CopyReports:
    """Every server has reported under ``table``: the learners ``ready`` have everything."""
    by_slot = {slot.id: CopyReport(frozenset(ready).intersection(slot.learners)) for slot in table.slots}
    lacks = {name: {slot for server, slot in unsettled if server == name} for name in "abcdefghijk"}
    return CopyReports(by_slot, lacks)


class Arranging:
    """An arranger that is asked again and again, as the meta leader does, and the table that its plans lead to."""

    def __init__(self, judge: Arranger, table: SlotTable | None = None) -> None:
        self.judge, self.table = judge, table or SlotTable()
        self.target: PlannedTable | None = None

    def step(
        self, live: Sequence[Server], reports: CopyReports | None = None, leaving: Leaving = NOBODY_LEAVES
    ) -> Arrangement:
        """One table more, where there is one."""
        found = self.judge.arrange(self.table, live, reports or reported(self.table), leaving, target=self.target)
        self.target = found.target
        if found.plan is not None:
            assert found.plan.moves
            before = self.table if self.table.slots else SlotTable.unassigned(len(found.plan.table.slots))
            for row, after in zip(before.slots, found.plan.table.slots, strict=True):
                moves = [move for move in found.plan.moves if move.slot == row.id]
                assert moved(row, moves) == (after.leader, set(after.followers), set(after.learners))
            table = stamp(self.table, found.plan.table, self.table.epoch + 1)
            if self.table.slots:
                check_successor(self.table, table)
            self.table = table
        return found

    def to_its_end(self, live: Sequence[Server], leaving: Leaving = NOBODY_LEAVES) -> SlotTable:
        """The table when nothing is left to change."""
        for _ in range(200):
            if self.step(live, leaving=leaving).plan is None:
                return self.table
        raise AssertionError("the arranger does not come to an end")


def arranged(live: Sequence[Server], leaving: Leaving = NOBODY_LEAVES, table: SlotTable | None = None) -> SlotTable:
    """The table when nothing is left to change."""
    return Arranging(arranger(), table).to_its_end(live, leaving)


def test_an_empty_table_becomes_a_complete_and_even_one() -> None:
    table = arranged(servers("a", "b", "c"))
    check_table(table, servers("a", "b", "c"), 2)
    assert is_complete(table, servers("a", "b", "c"), 2)
    assert sorted([slot.leader or "" for slot in table.slots]) == ["a", "a", "b", "b", "c", "c"]


def test_without_servers_or_in_protection_mode_the_table_stays() -> None:
    table = arranged(servers("a", "b", "c"))
    assert arranger().arrange(table, [], reported(table)).plan is None
    protected = arranger(protect_below=3)
    assert protected.is_protected(servers("a", "b"))
    assert not protected.is_protected(servers("a", "b", "d")), "as many as it shall have"
    assert protected.arrange(table, servers("a", "b"), reported(table)).plan is None
    assert protected.arrange(table, servers("a", "b", "d"), reported(table)).plan is not None


def test_nothing_is_balanced_while_a_slot_is_not_held_completely() -> None:
    table = arranged(servers("a", "b"))
    grown = servers("a", "b", "c")
    waits = reported(table, unsettled=[(str(table.slots[3].leader), 3)])
    assert arranger().arrange(table, grown, waits).plan is None
    assert arranger().arrange(table, grown, CopyReports()).plan is None, "nobody has reported under this table"
    assert arranger().arrange(table, grown, reported(table)).plan is not None


def test_a_leaving_server_hands_over_at_once_to_who_is_in_sync_and_ends_with_nothing() -> None:
    arranging = Arranging(arranger(), arranged(servers("a", "b", "c")))
    leaving = Leaving(for_good=frozenset({"a"}))
    found = arranging.step(servers("a", "b", "c"), leaving=leaving)
    assert found.plan is not None
    assert all(slot.leader != "a" for slot in found.plan.table.slots)
    assert {move.reason for move in found.plan.moves if move.kind == "leader"} == {"a stops"}
    after = arranging.to_its_end(servers("a", "b", "c"), leaving)
    assert all("a" not in slot.holders for slot in after.slots)


def test_a_server_that_restarts_keeps_its_places_as_follower_and_leads_again_when_it_is_back() -> None:
    arranging = Arranging(arranger(), arranged(servers("a", "b", "c")))
    arranging.to_its_end(servers("a", "b", "c"))
    before = [slot.leader for slot in arranging.table.slots]
    after = arranging.to_its_end(servers("a", "b", "c"), Leaving(for_a_restart=frozenset({"a"})))
    assert all(slot.leader != "a" for slot in after.slots)
    assert any("a" in slot.followers for slot in after.slots)
    after = arranging.to_its_end(servers("a", "b", "c"))
    assert [slot.leader for slot in after.slots] == before


def test_a_server_that_is_away_holds_nothing_and_has_its_places_again_when_it_is_back() -> None:
    arranging = Arranging(arranger(), arranged(servers("a", "b", "c")))
    arranging.to_its_end(servers("a", "b", "c"))
    before = arranging.table
    after = arranging.to_its_end(servers("a", "b", "c"), Leaving(away=frozenset("a")))
    for old, new in zip(before.slots, after.slots, strict=True):
        assert set(new.holders) == set(old.holders) - {"a"}
        assert new.leader == old.leader or old.leader == "a"
    back = arranging.to_its_end(servers("a", "b", "c"))
    assert [(slot.leader, slot.followers) for slot in back.slots] == [(s.leader, s.followers) for s in before.slots]


def test_where_only_one_that_is_away_had_a_copy_another_one_leads_until_it_is_back() -> None:
    judge = Arranger(2, 1, DefaultAssigner(DefaultAssignerOptions()), even())
    arranging = Arranging(judge, SlotTable(1, (Slot(0, "a", 1, ()), Slot(1, "b", 1, ()))))
    arranging.to_its_end(servers("a", "b"))
    found = arranging.step(servers("a", "b"), leaving=Leaving(away=frozenset("a")))
    assert ([slot.leader for slot in arranging.table.slots], [slot.id for slot in found.unclean]) == (["b", "b"], [0])
    assert arranging.step(servers("a", "b"), leaving=Leaving(away=frozenset("a"))).plan is None
    arranging.to_its_end(servers("a", "b"))
    assert [slot.leader for slot in arranging.table.slots] == ["a", "b"]
    alone = Arranging(judge, arranging.table)
    assert alone.step(servers("a", "b"), leaving=Leaving(away=frozenset("ab"))).plan is None, "nobody is there"


def test_one_that_is_away_takes_no_slot_over_from_one_that_dies_or_acts() -> None:
    table = SlotTable(1, (Slot(0, "a", 1, ("b",)),))
    arranging = Arranging(Arranger(1, 2, DefaultAssigner(DefaultAssignerOptions()), even()), table)
    leaving = Leaving(acting=frozenset("a"), away=frozenset("b"))
    arranging.step(servers("b", "c"), leaving=leaving)
    row = arranging.table.slots[0]
    assert (row.leader, row.leader_epoch, row.in_sync) == ("a", 1, ("a",)), "a may acknowledge alone yet"
    arranging.step(servers("b", "c"), leaving=Leaving(away=frozenset("b")))
    assert arranging.table.slots[0].leader == "c"


def test_one_that_leaves_hands_over_while_the_planned_leader_is_away() -> None:
    target = PlannedTable(SlotTable(1, (Slot(0, "a", 1, ("b",)),)))
    table = SlotTable(1, (Slot(0, "c", 1, ("b",)),))
    judge = Arranger(1, 2, DefaultAssigner(DefaultAssignerOptions()), even())
    leaving = Leaving(for_good=frozenset("c"), away=frozenset("a"))
    found = judge.arrange(table, servers("a", "b", "c"), reported(table), leaving, target=target)
    assert found.plan is not None
    assert found.plan.table.slots[0].leader == "b"


def test_where_all_that_live_leave_one_that_acts_keeps_its_slots() -> None:
    table = SlotTable(1, (Slot(0, "a", 1, ()), Slot(1, "b", 1, ())))
    arranging = Arranging(Arranger(2, 1, DefaultAssigner(DefaultAssignerOptions()), even()), table)
    arranging.step(servers("b"), leaving=Leaving(for_good=frozenset("b"), acting=frozenset("a")))
    assert [slot.leader for slot in arranging.table.slots] == ["a", "b"]


def test_of_two_that_act_each_keeps_only_what_it_leads() -> None:
    table = SlotTable(1, (Slot(0, "a", 1, ("b",)), Slot(1, "b", 1, ("a",)), Slot(2, "c", 1, ("a",))))
    arranging = Arranging(Arranger(3, 2, DefaultAssigner(DefaultAssignerOptions()), even()), table)
    arranging.step(servers("c", "d"), leaving=Leaving(acting=frozenset("ab")))
    assert [slot.in_sync for slot in arranging.table.slots] == [("a",), ("b",), ("c",)]


def test_one_that_acts_stands_in_for_nobody_and_another_one_stands_in_for_it() -> None:
    target = PlannedTable(SlotTable(1, (Slot(0, "a", 1, ("b",)),)))
    reports = CopyReports(
        {0: CopyReport(absent=frozenset("b"))}, {"a": frozenset(), "b": frozenset(), "c": frozenset()}
    )
    table = SlotTable(1, (Slot(0, "a", 1, (), ("b",)),))
    judge = Arranger(1, 2, DefaultAssigner(DefaultAssignerOptions()), even())
    found = judge.arrange(table, servers("b", "c"), reports, Leaving(acting=frozenset("a")), target=target)
    assert found.plan is not None
    assert found.plan.table.slots[0].holders == ("a", "b", "c")


def test_a_leader_that_leaves_stays_until_somebody_is_in_sync() -> None:
    table = SlotTable(1, (Slot(0, "a", 1, (), ("b",)),))
    arranging = Arranging(Arranger(1, 2, DefaultAssigner(DefaultAssignerOptions()), even()), table)
    for leaving in (Leaving(for_good=frozenset({"a"})), Leaving(for_a_restart=frozenset({"a"}))):
        arranging.step(servers("a", "b", "c"), reported(arranging.table, ready=""), leaving)
        assert arranging.table.slots[0].leader == "a"
    arranging.to_its_end(servers("a", "b", "c"), Leaving(for_good=frozenset({"a"})))
    assert "a" not in arranging.table.slots[0].holders


def test_a_member_leads_where_the_leader_died_although_the_assigner_has_another_one_in_mind() -> None:
    for assigner in (DefaultAssigner(DefaultAssignerOptions()), EvenAssigner(), AssignerOfOneServer()):
        rows = [Slot(n, "a" if n < 7 else "c", 1, ("b",)) for n in range(8)]
        arranging = Arranging(Arranger(8, 2, assigner, even()), SlotTable(1, tuple(rows)))
        arranging.step(servers("b", "c"))
        assert [slot.leader for slot in arranging.table.slots] == [*"bbbbbbbc"]
        assert arranging.judge.rejected == 0


def test_an_assigner_that_fails_keeps_no_member_from_leading() -> None:
    table = SlotTable(1, (Slot(0, "a", 1, ("b", "c"), ("d",)),))
    arranging = Arranging(Arranger(1, 3, FailingAssigner(), even()), table)
    found = arranging.step(servers("b", "c", "d"))
    assert found.plan is not None
    assert (arranging.table.slots[0].leader, arranging.table.slots[0].followers) == ("b", ("c",))
    assert arranging.judge.rejected == 1
    assert arranging.judge.why_not_planned == "the assigner's plan is rejected: ValueError: it does not work"
    assert not found.unclean


def test_what_a_plugin_did_wrong_is_told_until_it_does_better_or_is_not_needed() -> None:
    complete = SlotTable(1, (Slot(0, "a", 1, ("b",)),))
    arranging = Arranging(Arranger(1, 2, FailingAssigner(), even()), complete)
    arranging.step(servers("a", "c"))
    assert arranging.judge.why_not_planned
    arranging.table = complete
    arranging.step(servers("a", "b"))
    assert not arranging.judge.why_not_planned


def test_where_no_member_lives_the_slot_is_led_by_a_learner_and_called_unclean() -> None:
    table = SlotTable(1, (Slot(0, "a", 1, ("b",), ("c",)), Slot(1, "c", 1, ("b",))))
    arranging = Arranging(Arranger(2, 2, EvenAssigner(), even()), table)
    found = arranging.step(servers("c", "d"))
    assert [slot.id for slot in found.unclean] == [0]
    assert arranging.table.slots[0].leader == "c"
    assert arranging.table.slots[0].leader_epoch == 2


def test_a_new_meta_leader_goes_on_with_the_learners_that_it_finds() -> None:
    table = SlotTable(1, (Slot(0, "a", 1, (), ("d",)),))
    arranging = Arranging(Arranger(1, 2, EvenAssigner(), even()), table)
    arranging.step(servers("a", "b", "c", "d"))
    assert arranging.table.slots[0].followers == ("d",)


def test_of_two_members_the_one_leads_that_was_heard_else_the_one_that_leads_less() -> None:
    table = SlotTable(1, (Slot(0, "dead", 1, ("a", "b")), Slot(1, "a", 1, ("b",)), Slot(2, "dead", 1, ("a", "b"))))
    judge = Arranger(3, 3, FailingAssigner(), even())
    plan = judge.arrange(table, servers("a", "b"), CopyReports(silent=frozenset("b"))).plan
    assert plan is not None
    assert [slot.leader for slot in plan.table.slots] == ["a", "a", "a"], "b was not heard"
    plan = judge.arrange(table, servers("a", "b"), CopyReports()).plan
    assert plan is not None
    assert [slot.leader for slot in plan.table.slots] == ["b", "a", "a"]


def test_of_two_members_the_one_that_stays_leads_although_it_leads_more() -> None:
    rows = (Slot(0, "dead", 1, ("a", "b")), Slot(1, "b", 1, ("a",)), Slot(2, "b", 1, ("a",)))
    judge = Arranger(3, 3, FailingAssigner(), even())
    plan = judge.arrange(SlotTable(1, rows), servers("a", "b"), CopyReports(), Leaving(frozenset({"a"}))).plan
    assert plan is not None
    assert plan.table.slots[0].leader == "b"


def test_where_every_server_leaves_they_keep_the_slots() -> None:
    table = arranged(servers("a", "b"))
    leaving = Leaving(frozenset({"a", "b"}))
    assert arranger().arrange(table, servers("a", "b"), reported(table), leaving).plan is None


def test_a_step_of_the_balancer_takes_nobody_out_of_sync_before_the_next_one_is() -> None:
    live = servers("a", "b", "c")
    arranging = Arranging(arranger(), arranged(servers("a", "b")))
    for _ in range(100):
        before = arranging.table
        if arranging.step(live).plan is None:
            break
        for old, new in zip(before.slots, arranging.table.slots, strict=True):
            assert len(set(old.in_sync) & set(new.in_sync)) >= 1
            assert len(new.in_sync) >= 2, "two in sync at any time"
            assert set(new.in_sync) <= set(old.holders)
        check_table(arranging.table, live, 2, is_committed=True)
    check_table(arranging.table, live, 2)
    assert {slot.leader for slot in arranging.table.slots} == {"a", "b", "c"}


class FailingAssigner:
    """It raises."""

    def assign(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        raise ValueError("it does not work")


class AssignerOfOneServer:
    """It gives every slot without a leader to the last server, whoever holds it."""

    def assign(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        draft = Draft(table, servers)
        last = draft.servers[-1]
        for slot in draft.slots:
            if draft.leader(slot) is None:
                draft.lead(slot, last, "the last one")
        for slot in draft.slots:
            for name in draft.servers:
                if len(draft.followers(slot)) < limits.replicas - 1 and not draft.holds(name, slot):
                    draft.follow(slot, name, "it lacked a follower")
        return draft.plan()


def test_a_replaced_process_leads_nothing_and_learns_where_it_followed() -> None:
    table = SlotTable(3, (Slot(0, "a", 2, ("b",)), Slot(1, "b", 2, ("a",))))
    assert without_replaced(table, [node("a"), node("b")], [node("a"), node("b")]) is table
    learns = SlotTable(3, (Slot(0, "b", 2, (), ("a",)),))
    begun_anew = without_replaced(learns, [node("a"), node("b")], [node("a", life=2), node("b")])
    assert begun_anew.slots[0].holders == ("b",)
    after = without_replaced(table, [node("a"), node("b")], [node("a", life=2), node("b")])
    assert [(slot.leader, slot.followers, slot.learners) for slot in after.slots] == [
        (None, ("b",), ()),
        ("b", (), ("a",)),
    ]


def test_a_learner_that_has_something_stands_before_a_follower_that_was_started_again_and_has_nothing() -> None:
    table = SlotTable(3, (Slot(0, "a", 2, ("b",), ("c",)),))
    before, now = [node(name) for name in "abc"], [node("a"), node("b", life=2), node("c")]
    assert without_replaced(table, before, now).slots[0].learners == ("c", "b")


def test_led_anew_nobody_counts_as_in_sync_but_the_leaders() -> None:
    table = led_anew(SlotTable(3, (Slot(0, "a", 2, ("b",), ("c",)),)))
    assert table == SlotTable(4, (Slot(0, "a", 4, (), ("b", "c")),))


WORLDS = st.lists(
    st.tuples(
        st.frozensets(st.sampled_from("abcde"), min_size=1),
        st.frozensets(st.sampled_from("abcde"), max_size=2),
        st.frozensets(st.sampled_from("abcde"), max_size=1),
        st.frozensets(st.sampled_from("abcde")),
        st.integers(1, 6),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=100)
@given(replicas=st.integers(1, 3), worlds=WORLDS)
def test_whatever_servers_come_go_and_stop_each_table_is_valid_and_may_follow_the_one_before(
    replicas: int,
    worlds: list[tuple[frozenset[str], frozenset[str], frozenset[str], frozenset[str], int]],
) -> None:
    arranging = Arranging(Arranger(8, replicas, DefaultAssigner(DefaultAssignerOptions()), even()))
    for live, stopping, restarting, ready, looks in worlds:
        present = servers(*sorted(live))
        for _ in range(looks):
            before = arranging.table
            found = arranging.step(present, reported(before, "".join(sorted(ready))), Leaving(stopping, restarting))
            for slot in arranging.table.slots:
                assert live.issuperset(slot.holders), "a dead server holds a slot"
                assert slot.leader is not None
            unclean = {slot.id for slot in found.unclean}
            for old, new in zip(before.slots, arranging.table.slots, strict=False):
                assert new.leader in old.in_sync or new.id in unclean or new.leader in old.learners
                assert new.id not in unclean or live.isdisjoint(old.in_sync)
    end = arranging.to_its_end(servers(*"abcde"))
    check_table(end, servers(*"abcde"), replicas)
    assert arranging.judge.rejected == 0


def apart(table: SlotTable, pair: str) -> CopyReports:
    """Every learner is ready but those that do not reach the leader: these two servers do not reach each other."""
    reports = dict[int, CopyReport]()
    for row in table.slots:
        absent = frozenset(name for name in row.learners if {row.leader, name} == set(pair))
        reports[row.id] = CopyReport(frozenset(row.learners) - absent, absent=absent)
    return CopyReports(reports, dict.fromkeys("abcde", frozenset[int]()))


def test_a_drain_ends_though_the_one_that_shall_follow_does_not_reach_the_leader() -> None:
    rows = (Slot(0, "d", 1, ("b",)), Slot(1, "a", 1, ("c",)), Slot(2, "c", 1, ("e",)), Slot(3, "e", 1, ("c",)))
    judge, table, target = arranger(), SlotTable(1, rows), None
    for _ in range(20):
        leaving = Leaving(for_good=frozenset("b"))
        found = judge.arrange(table, servers(*"abcde"), apart(table, "ad"), leaving, target=target)
        target = found.target
        if found.plan is None:
            break
        table = stamp(table, found.plan.table, table.epoch + 1)
    assert found.plan is None, "it comes to rest"
    assert all("b" not in row.holders for row in table.slots)
    assert all(len(row.in_sync) >= 2 for row in table.slots)


def test_who_leaves_stands_in_for_nobody_and_nobody_stands_in_for_one_that_stands_in() -> None:
    row, target = Slot(0, "a", 1, (), ("x",)), Slot(0, "a", 1, ("x",))
    absent = CopyReport(absent=frozenset("x"))
    assert towards(row, target, set("abcx"), absent, unfit=set("b")).row.learners == ("x", "c")
    both = CopyReport(absent=frozenset("xc"))
    assert not towards(Slot(0, "a", 1, (), ("x", "c")), target, set("abcdx"), both).moves


def test_a_target_that_is_gone_on_with_has_no_more_followers_than_the_settings_say_now() -> None:
    rows = tuple(Slot(i, "abc"[i % 3], 1, tuple(n for n in "abc" if n != "abc"[i % 3])) for i in range(6))
    arranging = Arranging(arranger(), SlotTable(1, rows))
    arranging.target = resumed(arranging.table, [Slot(1, "b", 1, ("a", "c"))])
    while arranging.step(servers(*"abc")).plan is not None:
        pass
    assert {len(row.holders) for row in arranging.table.slots} == {2}


def test_slots_are_balanced_on_while_one_learner_does_not_reach_its_leader() -> None:
    rows = (*(Slot(i, "a", 1, ("b",)) for i in range(4)), Slot(4, "c", 1, (), ("d",)))
    judge, table, target = arranger(), SlotTable(1, rows), None
    for _ in range(30):
        found = judge.arrange(table, servers(*"abcd"), apart(table, "cd"), target=target)
        target = found.target
        if found.plan is None:
            break
        table = stamp(table, found.plan.table, table.epoch + 1)
    assert max(Counter(row.leader for row in table.slots).values()) == 2


class ChangesItsArguments:
    """An assigner that works in the list and in the loads that it is given."""

    def with_loads(self, loads: Mapping[int, SlotLoad]) -> ChangesItsArguments:
        assert isinstance(loads, MutableMapping) is False, "else it would write into what others read"
        return self

    def assign(self, table: SlotTable, given: Sequence[Server], limits: Limits) -> Plan | None:
        assert isinstance(given, MutableSequence) is False, "else it would change the check of its plan"
        return DefaultAssigner(DefaultAssignerOptions()).assign(table, given, limits)


def test_a_plugin_cannot_change_by_what_its_plan_is_checked() -> None:
    judge = Arranger(6, 2, ChangesItsArguments(), even())
    found = judge.arrange(SlotTable(), servers("data-1", "data-2"), CopyReports())
    assert judge.rejected == 0
    assert found.plan is not None
