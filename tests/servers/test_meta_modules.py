"""The parts of a meta server's core, each alone: leases, arranger, committed view, provided configuration, shadow."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.clock import LoopClock
from slotreeve.errors import ElectionError, ModelError, StorageError
from slotreeve.invariants import check_table
from slotreeve.model.nodes import Node, Role, Server
from slotreeve.model.plan import Plan
from slotreeve.model.slots import Limits, Move, Slot, SlotTable
from slotreeve.ports import Leadership
from slotreeve_balancer.default_assigner import DefaultAssigner
from slotreeve_balancer.even_balancer import EvenBalancer
from slotreeve_balancer.options import DefaultAssignerOptions, EvenBalancerOptions
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.meta_messages import ConfigEntry, PutConfig, View
from slotreeve_protocol.orders import ORDERS_KEY, Orders
from slotreeve_servers.meta.arranger import Arranger, Leaving, is_complete, without_replaced
from slotreeve_servers.meta.configuration import MAX_KEY_LENGTH, MAX_VALUE_BYTES, PREFIX, ProvidedConfig
from slotreeve_servers.meta.leases import Leases, Renewal
from slotreeve_servers.meta.settings import MetaSettings
from slotreeve_servers.meta.shadow import Shadow
from slotreeve_servers.meta.table import KEY, CommittedView

from tests.servers.scripted_election import ScriptedElection, ScriptedState

RULES = MetaSettings(lease_seconds=6.0, lost_connection_seconds=0.5, unseen_seconds=2.0)


def node(name: str, life: int = 1) -> Node:
    return Node(name, Role.DATA, f"{name}:1", f"{name}@{life}")


# --- leases ----------------------------------------------------------------------------------------------------------


def test_a_renewal_tells_what_it_changed() -> None:
    leases = Leases(RULES)
    assert leases.renew(node("a"), 0.0) is Renewal.JOINED
    assert leases.renew(node("a"), 1.0) is Renewal.NOTHING
    assert leases.renew(node("a", life=2), 2.0) is Renewal.CHANGED


def test_a_late_notice_about_a_former_process_shortens_nothing() -> None:
    leases = Leases(RULES)
    leases.renew(node("a", life=2), 0.0)
    leases.connection_lost("a", "a@1", 0.0)
    assert leases.expire(1.0) == []
    leases.connection_lost("a", "a@2", 1.0)
    assert leases.expire(1.5) == [(node("a", life=2), "connection lost")]


def test_a_new_leader_gives_connected_members_a_lease_and_the_others_a_short_time() -> None:
    leases = Leases(RULES)
    leases.adopt([node("a"), node("b")], {"a@1"}, 10.0)
    assert leases.next_deadline() == 12.0
    assert leases.expire(12.0) == [(node("b"), "not seen")]
    assert leases.expire(15.9) == []
    assert leases.expire(16.0) == [(node("a"), "lease expired")]


def test_after_a_time_without_connections_every_server_has_a_short_time() -> None:
    leases = Leases(RULES)
    leases.renew(node("a"), 0.0)
    leases.extend_all(30.0)
    assert leases.expire(31.9) == []
    assert len(leases.expire(32.0)) == 1


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["renew", "lost", "made", "leave", "restart", "expire"]),
        st.sampled_from("abc"),
        st.integers(1, 2),
        st.sampled_from([0.0, 0.3, 1.0, 5.0]),
    ),
    max_size=40,
)


@given(STEPS)
def test_leases_are_what_a_list_of_deadlines_says(steps: list[tuple[str, str, int, float]]) -> None:
    """The dumb twin holds (process, deadline) for each name and scans them all."""
    leases, now = Leases(RULES), 0.0
    twin: dict[str, tuple[str, float]] = {}
    noticed: set[str] = set()
    lost: set[str] = set()
    for verb, name, life, pause in steps:
        now += pause
        process = f"{name}@{life}"
        mine = name in twin and twin[name][0] == process
        if verb == "renew":
            leases.renew(node(name, life), now)
            twin[name] = process, now + 6.0
            noticed.discard(name)
            lost.discard(name)
        elif verb == "lost":
            leases.connection_lost(name, process, now)
            if mine and name not in noticed:
                twin[name] = process, min(twin[name][1], now + 0.5)
                noticed.add(name)
                lost.add(name)
        elif verb == "made":
            leases.connection_made(name, process, now)
            if mine and name in lost:
                twin[name] = process, max(twin[name][1], now + 2.0)
                noticed.discard(name)
                lost.discard(name)
        elif verb in ("leave", "restart"):
            until = None if verb == "leave" else now + 3.0
            assert leases.leave(node(name, life), until) is mine
            if mine:
                lost.discard(name)
            if mine and until is None:
                del twin[name]
                noticed.discard(name)
            elif mine and until is not None:
                twin[name] = process, until
                noticed.add(name)
        else:
            gone = {n.name for n, _ in leases.expire(now)}
            assert gone == {n for n, (_, deadline) in twin.items() if deadline <= now}
            for each in gone:
                del twin[each]
                noticed.discard(each)
                lost.discard(each)
        assert [n.name for n in leases.nodes] == sorted(twin)
        assert leases.next_deadline() == min((d for _, d in twin.values()), default=None)


# --- arranger --------------------------------------------------------------------------------------------------------


def servers(*names: str) -> list[Server]:
    return [node(name).as_server() for name in names]


def arranger(protect_below: int = 0) -> Arranger:
    assigner = DefaultAssigner(DefaultAssignerOptions())
    return Arranger(6, 2, assigner, EvenBalancer(EvenBalancerOptions()), protect_below)


def everything_settled(server: str, slot: int) -> bool:
    return True


def settled_only(name: str) -> Callable[[str, int], bool]:
    return lambda server, slot: server == name


def arranged(live: Sequence[Server], leaving: Leaving | None = None, table: SlotTable | None = None) -> SlotTable:
    """The table when nothing is left to change."""
    judge, now = arranger(), table or SlotTable()
    for _ in range(100):
        plan = judge.next_plan(now, live, everything_settled, leaving or Leaving())
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
    assert arranger().next_plan(table, [], everything_settled) is None
    protected = arranger(protect_below=3)
    assert protected.is_protected(servers("a", "b"))
    assert protected.next_plan(table, servers("a", "b"), everything_settled) is None


def test_nothing_is_balanced_while_a_slot_is_not_in_sync() -> None:
    table = arranged(servers("a", "b"))
    grown = servers("a", "b", "c")
    assert arranger().next_plan(table, grown, lambda server, slot: slot != 3) is None
    assert arranger().next_plan(table, grown, everything_settled) is not None


def test_a_leaving_server_hands_over_to_followers_in_sync_and_ends_with_nothing() -> None:
    table = arranged(servers("a", "b", "c"))
    leaving = Leaving(for_good=frozenset({"a"}))
    plan = arranger().next_plan(table, servers("a", "b", "c"), everything_settled, leaving)
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
    assert arranger().next_plan(table, servers("a", "b", "c"), lambda server, slot: False, leaving) is None


def test_a_follower_in_sync_is_the_heir_of_a_dead_leader_rather_than_one_that_has_just_started_again() -> None:
    assigner = DefaultAssigner(DefaultAssignerOptions())
    judge = Arranger(6, 3, assigner, EvenBalancer(EvenBalancerOptions()))
    plan = judge.next_plan(SlotTable(), servers("a", "b", "c"), everything_settled)
    assert plan is not None
    for dead, restarted, complete in (("a", "b", "c"), ("a", "c", "b"), ("c", "a", "b")):
        left = servers(*sorted((restarted, complete)))
        after = judge.next_plan(plan.table, left, settled_only(complete))
        assert after is not None
        assert {slot.leader for slot in plan.table.slots} == {"a", "b", "c"}
        for before, slot in zip(plan.table.slots, after.table.slots, strict=True):
            if before.leader == dead:
                assert (slot.leader, slot.followers) == (complete, (restarted,))


def test_where_no_follower_is_in_sync_a_slot_gets_a_leader_all_the_same() -> None:
    table = arranged(servers("a", "b", "c"))
    after = arranger().next_plan(table, servers("b", "c"), lambda server, slot: False)
    assert after is not None
    assert all(slot.leader in ("b", "c") for slot in after.table.slots)


def test_where_every_server_leaves_they_keep_the_slots() -> None:
    table = arranged(servers("a", "b"))
    assert arranger().next_plan(table, servers("a", "b"), everything_settled, Leaving(frozenset({"a", "b"}))) is None


class BadAssigner:
    """An assigner that returns what the test gives it, or raises it."""

    def __init__(self, result: Callable[[SlotTable], Plan]) -> None:
        self.result = result

    def assign(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        return self.result(table)


def too_short(table: SlotTable) -> Plan:
    return Plan(SlotTable(0, (Slot(0, "a", 0, ()),)), (Move(0, "leader", None, "a", "made up"),))


def unknown_leader(table: SlotTable) -> Plan:
    rows = tuple([Slot(slot.id, "nobody", 0, ()) for slot in table.slots])
    return Plan(SlotTable(0, rows), (Move(0, "leader", None, "nobody", "made up"),))


def raises(table: SlotTable) -> Plan:
    raise ZeroDivisionError("made up by this test")


@pytest.mark.parametrize("result", [too_short, unknown_leader, raises])
def test_a_plugin_that_raises_or_returns_an_invalid_table_is_counted_and_the_table_stays(
    result: Callable[[SlotTable], Plan],
) -> None:
    judge = Arranger(6, 2, BadAssigner(result), EvenBalancer(EvenBalancerOptions()))
    assert judge.next_plan(SlotTable(), servers("a"), everything_settled) is None
    assert judge.rejected == 1


def test_a_replaced_process_leads_nothing_and_keeps_its_places_as_follower() -> None:
    table = SlotTable(3, (Slot(0, "a", 2, ("b",)), Slot(1, "b", 2, ("a",))))
    assert without_replaced(table, [node("a"), node("b")], [node("a"), node("b")]) is table
    after = without_replaced(table, [node("a"), node("b")], [node("a", life=2), node("b")])
    assert [slot.leader for slot in after.slots] == [None, "b"]
    assert [slot.followers for slot in after.slots] == [("b",), ("a",)]


# --- committed view and provided configuration -----------------------------------------------------------------------


def test_the_committed_view_is_what_the_meta_state_holds() -> None:
    async def scenario(_rng: random.Random) -> None:
        state = ScriptedState()
        committed = CommittedView(state)
        assert committed.read().revision == 0
        view = View(1, 1, SlotTable(), [node("a")], [])
        await committed.commit(view, 0)
        assert committed.read() == view
        assert committed.read() is committed.read()
        state.store(KEY, b"nonsense")
        with pytest.raises(StorageError, match=r"'view' \(version 2\) cannot be read"):
            committed.read()

    run(scenario)


def test_provided_configuration_is_written_read_and_deleted() -> None:
    async def scenario(_rng: random.Random) -> None:
        state = ScriptedState()
        configs = ProvidedConfig(state)
        empty = configs.digest
        assert await configs.put(PutConfig("k", b"v", None), 1) == ConfigEntry("k", b"v", 1)
        assert await configs.put(PutConfig("k", None, None), 1) == ConfigEntry("k", None, 2)
        state.store("view", msgspec.msgpack.encode("something else"))
        assert configs.entries() == [ConfigEntry("k", None, 2)]
        assert configs.entries("x") == []
        assert configs.digest != empty

    run(scenario)


@pytest.mark.parametrize(
    ("key", "value"), [("", b""), (" ", b""), ("k" * (MAX_KEY_LENGTH + 1), b""), ("k", b"x" * (MAX_VALUE_BYTES + 1))]
)
def test_configuration_without_a_key_or_beyond_its_bounds_is_refused(key: str, value: bytes) -> None:
    async def scenario(_rng: random.Random) -> None:
        with pytest.raises(ModelError):
            await ProvidedConfig(ScriptedState()).put(PutConfig(key, value, None), 1)

    run(scenario)


def test_configuration_of_exactly_the_largest_size_is_taken() -> None:
    async def scenario(_rng: random.Random) -> None:
        entry = await ProvidedConfig(ScriptedState()).put(
            PutConfig("k" * MAX_KEY_LENGTH, b"x" * MAX_VALUE_BYTES, None), 1
        )
        assert entry.version == 1

    run(scenario)


def test_orders_that_cannot_be_read_leave_the_former_ones_in_force() -> None:
    state = ScriptedState()
    configs = ProvidedConfig(state)
    assert configs.orders == Orders()
    state.store(PREFIX + ORDERS_KEY, b"\x01" + Orders(push_stopped=True).encode())
    assert configs.orders.push_stopped
    state.store(PREFIX + ORDERS_KEY, b"\x01nonsense")
    assert configs.orders.push_stopped


# --- shadow ----------------------------------------------------------------------------------------------------------


class ShadowElection(ScriptedElection):
    """A second election that reports what the test tells it, or fails to start."""

    def __init__(self, failure: ElectionError | None = None) -> None:
        super().__init__()
        self.failure = failure
        self.report: Callable[[Leadership], None] = lambda leadership: None

    async def start(self, changed: Callable[[Leadership], None]) -> None:
        if self.failure is not None:
            raise self.failure
        self.report = changed


def leads(leader: str | None) -> Leadership:
    return Leadership(leader, 1, False, 0.0, "made up")


def test_a_shadow_reports_changes_and_leaderless_time_of_both_elections() -> None:
    async def scenario(_rng: random.Random) -> None:
        election = ShadowElection()
        shadow = Shadow("postgres", election, LoopClock())
        await shadow.start()
        await asyncio.sleep(1.0)
        shadow.real_changed(leads("a"))
        await asyncio.sleep(2.0)
        assert not shadow.report().agrees
        election.report(leads("b"))
        election.report(leads(None))
        election.report(leads("c"))
        report = shadow.report()
        assert (report.agrees, report.changes, report.shadow_changes) == (True, 1, 2)
        assert (report.leaderless_seconds, report.shadow_leaderless_seconds) == (1.0, 3.0)
        await shadow.stop()

    run(scenario)


def test_a_shadow_that_cannot_start_says_why_and_stops_nothing() -> None:
    async def scenario(_rng: random.Random) -> None:
        shadow = Shadow("postgres", ShadowElection(ElectionError("no database")), LoopClock())
        await shadow.start()
        report = shadow.report()
        assert (report.agrees, report.failure) == (False, "no database")

    run(scenario)
