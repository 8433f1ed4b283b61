"""The arranger: which table comes next, whatever servers come and go and whatever plugins return."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve import Draft
from slotreeve.invariants import check_successor, check_table, stamp
from slotreeve.model.nodes import Node, Role, Server
from slotreeve.model.plan import Plan
from slotreeve.model.slots import Limits, Slot, SlotTable
from slotreeve_balancer.default_assigner import DefaultAssigner
from slotreeve_balancer.even_assigner import EvenAssigner
from slotreeve_balancer.even_balancer import EvenBalancer
from slotreeve_balancer.options import DefaultAssignerOptions, EvenBalancerOptions
from slotreeve_conformance.tables import broken_tables
from slotreeve_machines.plan_check import moves_fault
from slotreeve_servers.meta.arranger import Arranger, Leaving, is_complete, without_replaced
from slotreeve_servers.meta.known_copies import KnownCopies


def node(name: str, life: int = 1) -> Node:
    return Node(name, Role.DATA, f"{name}:1", f"{name}@{life}")


def servers(*names: str) -> list[Server]:
    return [node(name).as_server() for name in names]


def arranger(protect_below: int = 0) -> Arranger:
    assigner = DefaultAssigner(DefaultAssignerOptions())
    return Arranger(6, 2, assigner, EvenBalancer(EvenBalancerOptions()), protect_below)


Chosen = Callable[[str, int], bool]


def reported(settled: Chosen, recently: Chosen | None = None) -> KnownCopies:
    """What servers have reported of up to 16 slots, by two conditions of server and slot."""
    names, slots = "abcdefghijk", range(16)
    unsettled = {name: {slot for slot in slots if not settled(name, slot)} for name in names}
    recent = {name: {slot for slot in slots if recently is not None and recently(name, slot)} for name in names}
    return KnownCopies(unsettled, recent)


EVERYTHING_SETTLED = reported(lambda server, slot: True)
NOTHING_SETTLED = reported(lambda server, slot: False)


def only(name: str) -> Chosen:
    return lambda server, slot: server == name


def nowhere(server: str, slot: int) -> bool:
    return False


def settled_only(name: str) -> KnownCopies:
    return reported(only(name))


def arranged(live: Sequence[Server], leaving: Leaving | None = None, table: SlotTable | None = None) -> SlotTable:
    """The table when nothing is left to change."""
    judge, now = arranger(), table or SlotTable()
    for _ in range(100):
        plan = judge.next_plan(now, live, EVERYTHING_SETTLED, leaving or Leaving())
        if plan is None:
            return now
        now = plan.table
    raise AssertionError("the arranger does not come to an end")


def test_an_empty_table_becomes_a_complete_and_even_one() -> None:
    table = arranged(servers("a", "b", "c"))
    check_table(table, servers("a", "b", "c"), 2)
    assert is_complete(table, servers("a", "b", "c"), 2)
    assert sorted([slot.leader or "" for slot in table.slots]) == ["a", "a", "b", "b", "c", "c"]


def test_without_servers_or_in_protection_mode_the_table_stays() -> None:
    table = arranged(servers("a", "b", "c"))
    assert arranger().next_plan(table, [], EVERYTHING_SETTLED) is None
    protected = arranger(protect_below=3)
    assert protected.is_protected(servers("a", "b"))
    assert protected.next_plan(table, servers("a", "b"), EVERYTHING_SETTLED) is None


def test_nothing_is_balanced_while_a_slot_is_not_in_sync() -> None:
    table = arranged(servers("a", "b"))
    grown = servers("a", "b", "c")
    assert arranger().next_plan(table, grown, reported(lambda server, slot: slot != 3)) is None
    assert arranger().next_plan(table, grown, EVERYTHING_SETTLED) is not None


def test_a_leaving_server_hands_over_to_followers_in_sync_and_ends_with_nothing() -> None:
    table = arranged(servers("a", "b", "c"))
    leaving = Leaving(for_good=frozenset({"a"}))
    plan = arranger().next_plan(table, servers("a", "b", "c"), EVERYTHING_SETTLED, leaving)
    assert plan is not None
    assert all(slot.leader != "a" for slot in plan.table.slots)
    after = arranged(servers("a", "b", "c"), leaving, table)
    assert all("a" not in (slot.leader, *slot.followers) for slot in after.slots)


def test_a_server_that_restarts_keeps_its_places_as_follower() -> None:
    table = arranged(servers("a", "b", "c"))
    after = arranged(servers("a", "b", "c"), Leaving(for_a_restart=frozenset({"a"})), table)
    assert all(slot.leader != "a" for slot in after.slots)
    assert any("a" in slot.followers for slot in after.slots)


def test_a_leaving_leader_whose_follower_is_not_in_sync_is_waited_for() -> None:
    table = arranged(servers("a", "b", "c"))
    leaving = Leaving(for_good=frozenset({"a"}))
    assert arranger().next_plan(table, servers("a", "b", "c"), NOTHING_SETTLED, leaving) is None


def test_while_one_slot_is_waited_for_others_that_lost_their_leader_are_led_by_whoever_has_a_copy() -> None:
    rows = (Slot(0, "d", 1, ("c",)), Slot(1, "c", 1, ("a",)), Slot(2, "b", 1, ("a",)))

    def settled(server: str, slot: int) -> bool:
        return (server, slot) != ("a", 1)

    for leaving in (Leaving(for_good=frozenset({"c"})), Leaving(for_a_restart=frozenset({"c"}))):
        plan = arranger().next_plan(SlotTable(1, rows), servers("a", "b", "c"), reported(settled), leaving)
        assert plan is not None, "c waits for a, which has no copy of slot 1 yet"
        assert [slot.leader for slot in plan.table.slots] == ["c", "c", "b"]


def test_a_dead_follower_of_a_server_that_restarts_is_not_waited_for() -> None:
    table = arranged(servers("a", "b", "c"))
    assert {slot.leader for slot in table.slots} == {"a", "b", "c"}
    leaving = Leaving(for_a_restart=frozenset({"a"}))
    plan = arranger().next_plan(table, servers("a"), settled_only("a"), leaving)
    assert plan is not None, "the others died meanwhile, and only this one has copies of what they led"
    for before, after in zip(table.slots, plan.table.slots, strict=True):
        if "a" in (before.leader, *before.followers):
            assert after.leader == "a"


def test_a_follower_in_sync_is_the_heir_of_a_dead_leader_rather_than_one_that_has_just_started_again() -> None:
    assigner = DefaultAssigner(DefaultAssignerOptions())
    judge = Arranger(6, 3, assigner, EvenBalancer(EvenBalancerOptions()))
    plan = judge.next_plan(SlotTable(), servers("a", "b", "c"), EVERYTHING_SETTLED)
    assert plan is not None
    for dead, restarted, complete in (("a", "b", "c"), ("a", "c", "b"), ("c", "a", "b")):
        left = servers(*sorted((restarted, complete)))
        after = judge.next_plan(plan.table, left, settled_only(complete))
        assert after is not None
        assert {slot.leader for slot in plan.table.slots} == {"a", "b", "c"}
        for before, slot in zip(plan.table.slots, after.table.slots, strict=True):
            if before.leader == dead:
                assert (slot.leader, slot.followers) == (complete, (restarted,))


def test_the_moves_name_a_follower_that_is_left_out_because_it_is_not_in_sync() -> None:
    table = SlotTable(1, (Slot(0, "dead", 1, ("b", "gone", "c")),))
    judge = Arranger(1, 3, DefaultAssigner(DefaultAssignerOptions()), EvenBalancer(EvenBalancerOptions()))
    plan = judge.next_plan(table, servers("b", "c", "d"), settled_only("c"))
    assert plan is not None
    assert [(move.kind, move.source, move.target, move.reason) for move in plan.moves[:2]] == [
        ("drop", "b", None, "b is not in sync"),
        ("drop", "gone", None, "gone left"),
    ]
    assert moves_fault(table, plan) is None


def test_where_the_followers_lost_the_dead_leader_the_one_leads_that_was_in_sync_until_then() -> None:
    """Seen with a service of 300,000 instances: the one just started led, and the other one removed all it had."""
    table = SlotTable(1, (Slot(0, "dead", 1, ("b", "c")),))
    judge = Arranger(1, 3, DefaultAssigner(DefaultAssignerOptions()), EvenBalancer(EvenBalancerOptions()))
    for complete, restarted in (("b", "c"), ("c", "b")):
        plan = judge.next_plan(table, servers("b", "c"), reported(nowhere, only(complete)))
        assert plan is not None
        assert (plan.table.slots[0].leader, plan.table.slots[0].followers) == (complete, (restarted,))


def test_where_no_follower_is_in_sync_a_slot_gets_a_leader_all_the_same() -> None:
    table = arranged(servers("a", "b", "c"))
    after = arranger().next_plan(table, servers("b", "c"), NOTHING_SETTLED)
    assert after is not None
    assert all(slot.leader in ("b", "c") for slot in after.table.slots)


def test_a_leaving_leader_does_not_wait_for_a_follower_that_is_dead() -> None:
    table = SlotTable(1, (Slot(0, "a", 1, ("b",)),))
    known = reported(lambda server, slot: server != "b")
    plan = arranger().next_plan(table, servers("a", "c"), known, Leaving(for_good=frozenset({"a"})))
    assert plan is not None
    assert "c" in (plan.table.slots[0].leader, *plan.table.slots[0].followers)


def test_where_every_server_leaves_they_keep_the_slots() -> None:
    table = arranged(servers("a", "b"))
    assert arranger().next_plan(table, servers("a", "b"), EVERYTHING_SETTLED, Leaving(frozenset({"a", "b"}))) is None


@settings(max_examples=200)
@given(broken_tables(), st.floats(0, 1))
def test_a_slot_that_lost_its_leader_goes_to_a_follower_that_lives_whatever_the_assigner_thinks(
    situation: tuple[SlotTable, list[Server], Limits], share: float
) -> None:
    table, live, limits = situation
    in_sync = settled_in_part(share)
    names = {server.name for server in live}
    for assigner in (DefaultAssigner(DefaultAssignerOptions()), EvenAssigner(), AssignerOfOneServer()):
        judge = Arranger(len(table.slots), limits.replicas, assigner, EvenBalancer(EvenBalancerOptions()))
        plan = judge.next_plan(table, live, in_sync)
        if plan is None or is_complete(table, live, limits.replicas):
            continue
        check_table(plan.table, live, limits.replicas)
        assert moves_fault(table, plan) is None
        assert judge.rejected == 0
        for before, after in zip(table.slots, plan.table.slots, strict=True):
            heirs = names.intersection(before.followers)
            best = {name for name in heirs if in_sync.settled(name, before.id)} or heirs
            if before.leader not in names and best:
                assert after.leader in best


def test_a_step_of_the_balancer_takes_no_complete_copy_away_before_there_is_another_one() -> None:
    live, table = servers("a", "b", "c"), arranged(servers("a", "b"))
    judge, new_copies, spares = arranger(), 0, 0
    for _ in range(50):
        plan = judge.next_plan(table, live, EVERYTHING_SETTLED)
        if plan is None:
            break
        assert moves_fault(table, plan) is None
        for before, after in zip(table.slots, plan.table.slots, strict=True):
            old, new = {before.leader, *before.followers}, {after.leader, *after.followers}
            assert len(old & new) >= 2, "two complete copies at any time"
            new_copies += len(new - old)
            spares += len(new) > 2
        check_table(plan.table, live, 2, spares=1)
        table = plan.table
    check_table(table, live, 2)
    assert new_copies == spares > 0


def test_where_a_server_dies_while_copies_are_spare_the_complete_ones_stay() -> None:
    rows = (Slot(0, "a", 1, ("c", "b")), Slot(1, "d", 1, ("c", "a")), Slot(2, "b", 1, ("a",)))

    def settled(server: str, slot: int) -> bool:
        return server != "c"

    plan = arranger().next_plan(SlotTable(1, rows), servers("a", "b", "c"), reported(settled))
    assert plan is not None
    assert moves_fault(SlotTable(1, rows), plan) is None
    check_table(plan.table, servers("a", "b", "c"), 2)
    assert "b" in plan.table.slots[0].followers, "c has nothing yet"
    assert plan.table.slots[1].leader == "a"


def test_a_copy_of_the_table_before_counts_as_complete_until_its_server_has_reported() -> None:
    rows = (Slot(0, "a", 1, ("c", "b")), Slot(1, "d", 1, ("a",)), Slot(2, "b", 1, ("a",)))
    live = servers("a", "b", "c")
    plan = arranger().next_plan(SlotTable(1, rows), live, reported(nowhere, only("b")))
    assert plan is not None
    check_table(plan.table, live, 2)
    assert plan.table.slots[0].followers == ("b",), "c is new and copies"


def test_with_one_copy_a_spare_one_leads_where_the_leader_has_died() -> None:
    judge = Arranger(2, 1, DefaultAssigner(DefaultAssignerOptions()), EvenBalancer(EvenBalancerOptions()))
    table = SlotTable(1, (Slot(0, "d", 1, ("b",)), Slot(1, "b", 1, ())))
    plan = judge.next_plan(table, servers("a", "b"), EVERYTHING_SETTLED)
    assert plan is not None
    assert moves_fault(table, plan) is None
    assert plan.table.slots[0].leader == "b"


def test_a_server_that_dies_leaves_the_table_also_where_only_spare_copies_were_on_it() -> None:
    rows = (Slot(0, "a", 1, ("b", "d")), Slot(1, "b", 1, ("d", "a")), Slot(2, "a", 1, ("b",)))
    plan = arranger().next_plan(SlotTable(1, rows), servers("a", "b", "c"), EVERYTHING_SETTLED)
    assert plan is not None
    assert moves_fault(SlotTable(1, rows), plan) is None
    assert [slot.followers for slot in plan.table.slots] == [("b",), ("a",), ("b",)]


def test_a_follower_leads_although_it_leads_above_its_share_then() -> None:
    rows = [Slot(n, "a" if n < 7 else "c", 1, ("b",)) for n in range(8)]
    plan = arranger().next_plan(SlotTable(1, tuple(rows)), servers("b", "c"), EVERYTHING_SETTLED)
    assert plan is not None
    assert [slot.leader for slot in plan.table.slots] == [*"bbbbbbbc"]
    assert "b followed it, c had no copy" in {move.reason for move in plan.moves}


def test_a_server_that_leaves_leads_what_only_it_has_until_another_server_has_a_copy() -> None:
    rows = [Slot(0, "a", 1, ("b",)), Slot(1, "c", 1, ("a",))]
    leaving = Leaving(for_good=frozenset({"b"}))
    plan = arranger().next_plan(SlotTable(1, tuple(rows)), servers("b", "c"), EVERYTHING_SETTLED, leaving)
    assert plan is not None
    assert plan.table.slots[0].leader == "b"
    assert plan.table.slots[0].followers == ("c",)
    after = arranger().next_plan(plan.table, servers("b", "c"), EVERYTHING_SETTLED, leaving)
    assert after is not None
    assert after.table.slots[0].leader == "c"


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


def test_a_replaced_process_leads_nothing_and_keeps_its_places_as_follower() -> None:
    table = SlotTable(3, (Slot(0, "a", 2, ("b",)), Slot(1, "b", 2, ("a",))))
    assert without_replaced(table, [node("a"), node("b")], [node("a"), node("b")]) is table
    after = without_replaced(table, [node("a"), node("b")], [node("a", life=2), node("b")])
    assert [slot.leader for slot in after.slots] == [None, "b"]
    assert [slot.followers for slot in after.slots] == [("b",), ("a",)]


WORLDS = st.lists(
    st.tuples(
        st.frozensets(st.sampled_from("abcde"), min_size=1),
        st.frozensets(st.sampled_from("abcde"), max_size=2),
        st.frozensets(st.sampled_from("abcde"), max_size=1),
        st.floats(0, 1),
        st.integers(1, 4),
    ),
    min_size=1,
    max_size=12,
)


def settled_in_part(share: float) -> KnownCopies:
    """A fixed share of the copies is in sync."""
    return reported(lambda server, slot: (ord(server[-1]) + slot) % 7 <= 7 * share)


@settings(max_examples=60)
@given(replicas=st.integers(1, 3), worlds=WORLDS)
def test_whatever_servers_come_go_and_stop_each_table_is_valid_and_may_follow_the_one_before(
    replicas: int,
    worlds: list[tuple[frozenset[str], frozenset[str], frozenset[str], float, int]],
) -> None:
    arranger = Arranger(8, replicas, DefaultAssigner(DefaultAssignerOptions()), EvenBalancer(EvenBalancerOptions()))
    table = SlotTable()
    for live, stopping, restarting, share, looks in worlds:
        servers = [Server(name) for name in sorted(live)]
        leaving = Leaving(frozenset(stopping), frozenset(restarting))
        for _ in range(looks):
            plan = arranger.next_plan(table, servers, settled_in_part(share), leaving)
            if any(slot.leader not in live for slot in table.slots):
                assert plan is not None
                assert all(slot.leader in live for slot in plan.table.slots)
            if plan is None:
                if not stopping | restarting:
                    assert {n for s in table.slots for n in (s.leader, *s.followers)} <= live, (
                        "a dead server holds a slot"
                    )
                break
            assert plan.moves
            assert moves_fault(table if table.slots else SlotTable.unassigned(8), plan) is None
            held = {name for slot in plan.table.slots for name in (slot.leader, *slot.followers) if name}
            assert held <= live
            after = stamp(table, plan.table, table.epoch + 1)
            if table.slots:
                check_successor(table, after)
            table = after
        if not stopping & live and is_complete(table, servers, replicas):
            check_table(table, servers, replicas, spares=replicas)
    assert arranger.rejected == 0
