"""A balancer that does not come to an end is stopped; one that does is never stopped."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve import Draft
from slotreeve.model.nodes import Server
from slotreeve.model.plan import Plan
from slotreeve.model.slots import Limits, SlotTable
from slotreeve.ports import Balancer
from slotreeve_balancer.default_balancer import DefaultBalancer
from slotreeve_balancer.even_assigner import EvenAssigner
from slotreeve_balancer.even_balancer import EvenBalancer
from slotreeve_balancer.options import DefaultBalancerOptions, EvenBalancerOptions
from slotreeve_servers.meta.arranging.arranger import Arranger, CopyReports, PlannedTable
from slotreeve_servers.meta.arranging.balancer_steps import STEPS_PER_COPY
from slotreeve_servers.meta.arranging.copy_steps import CopyReport

SLOTS, REPLICAS = 6, 2
COPIES = SLOTS * REPLICAS


def servers(*names: str) -> list[Server]:
    return [Server(name) for name in names]


def complete(table: SlotTable, *names: str) -> CopyReports:
    """Every copy is complete."""
    ready = {slot.id: CopyReport(frozenset(slot.learners)) for slot in table.slots}
    return CopyReports(ready, {name: set() for name in names})


class TakingTurns:
    """A balancer that lets the first follower of slot 0 lead it, each time it is asked."""

    asked = 0

    def balance(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        self.asked += 1
        draft = Draft(table, servers)
        draft.lead(0, table.slots[0].followers[0], "it is its turn")
        return draft.plan()


class Copying(TakingTurns):
    """A balancer that gives slot 0 to the next server that does not hold it, each time it is asked."""

    def balance(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        self.asked += 1
        slot, names = table.slots[0], sorted([server.name for server in servers])
        after = names[names.index(slot.followers[0]) + 1 :] + names
        draft = Draft(table, servers)
        heir = next(name for name in after if name != slot.leader)
        draft.follow(0, heir, "it is its turn", instead_of=slot.followers[0])
        return draft.plan()


class Pausing(TakingTurns):
    """Like it, but each second time it is asked, it has nothing to do."""

    pauses = False

    def balance(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        self.pauses = not self.pauses
        return None if self.pauses else super().balance(table, servers, limits)


class Counting(TakingTurns):
    """A balancer that goes through all tables with the same holders: slot ``i`` is led by the one or the other by bit
    ``i`` of a number that rises."""

    def balance(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        changed = self.asked ^ (self.asked + 1)
        self.asked += 1
        draft = Draft(table, servers)
        for slot in table.slots:
            if changed >> slot.id & 1:
                draft.lead(slot.id, slot.followers[0], "its bit has changed")
        return draft.plan()


class Cluster:
    """A meta leader's table, with an arranger that changes it."""

    def __init__(self, balancer: Balancer, names: str) -> None:
        self.arranger = Arranger(SLOTS, REPLICAS, EvenAssigner(), balancer)
        self.table, self.names = SlotTable(), names
        self.target: PlannedTable | None = None

    def step(self, commits: bool = True) -> bool:
        reports = complete(self.table, *self.names)
        found = self.arranger.arrange(self.table, servers(*self.names), reports, target=self.target)
        if found.plan is not None and commits:
            self.table = SlotTable(self.table.epoch + 1, found.plan.table.slots)
        if found.plan is None or commits:
            self.target = found.target
        return found.plan is not None

    def until_it_rests(self) -> int:
        for steps in range(1000):
            if not self.step():
                return steps
        raise AssertionError("the table does not come to rest")


@pytest.mark.parametrize("balancer", [TakingTurns, Copying])
def test_a_balancer_that_undoes_its_steps_is_stopped_when_it_is_back(
    balancer: type[TakingTurns], caplog: pytest.LogCaptureFixture
) -> None:
    plugin = balancer()
    cluster = Cluster(plugin, "abc")
    with caplog.at_level(logging.ERROR):
        assert cluster.until_it_rests() < 10
    asked, table = plugin.asked, cluster.table
    for _ in range(5):
        assert not cluster.step()
    assert (plugin.asked, cluster.table) == (asked, table)
    assert cluster.arranger.rejected == 1
    assert cluster.arranger.balancer_fault is not None
    assert [record.message.split(":")[0] for record in caplog.records] == ["ALARM"]
    assert all(len(slot.holders) == REPLICAS for slot in table.slots)


def test_a_balancer_that_goes_on_and_on_is_stopped_after_many_steps() -> None:
    plugin = Counting()
    cluster = Cluster(plugin, "abc")
    cluster.until_it_rests()
    assert plugin.asked == STEPS_PER_COPY * COPIES
    assert cluster.arranger.balancer_fault is not None


def test_a_stopped_balancer_is_asked_again_when_the_servers_have_changed() -> None:
    plugin = TakingTurns()
    cluster = Cluster(plugin, "abc")
    cluster.until_it_rests()
    asked = plugin.asked
    cluster.names = "abcd"
    cluster.until_it_rests()
    assert plugin.asked > asked
    assert cluster.arranger.rejected == 2


def test_a_balancer_that_rests_between_steps_that_undo_each_other_is_stopped() -> None:
    cluster = Cluster(Pausing(), "abc")
    for _ in range(20):
        cluster.step()
    assert cluster.arranger.balancer_fault is not None
    assert not any(cluster.step() for _ in range(5))


def test_a_step_that_was_not_committed_is_made_again() -> None:
    plugin = TakingTurns()
    cluster = Cluster(plugin, "abc")
    cluster.step()
    for _ in range(10):
        assert cluster.step(commits=False)
    assert cluster.arranger.balancer_fault is None


def test_a_balancer_may_lead_back_to_a_table_that_another_change_has_left() -> None:
    cluster = Cluster(EvenBalancer(EvenBalancerOptions()), "abc")
    cluster.until_it_rests()
    for _ in range(5):
        draft = Draft(cluster.table, servers("a", "b", "c"))
        for slot in cluster.table.slots:
            if "a" in slot.followers:
                draft.lead(slot.id, "a", "somebody else wants it")
        cluster.table = SlotTable(cluster.table.epoch + 1, draft.table().slots)
        assert cluster.until_it_rests() > 0
    assert cluster.arranger.balancer_fault is None


@pytest.mark.parametrize(
    "balancer",
    [EvenBalancer(EvenBalancerOptions()), DefaultBalancer(DefaultBalancerOptions(), demoted_follows=True)],
    ids=["even", "default"],
)
@given(st.lists(st.sets(st.sampled_from("abcdefgh"), min_size=1), min_size=1, max_size=6))
def test_the_built_in_balancers_are_never_stopped(balancer: Balancer, memberships: list[set[str]]) -> None:
    cluster = Cluster(balancer, "abc")
    for names in memberships:
        cluster.names = "".join(sorted(names))
        cluster.until_it_rests()
    assert cluster.arranger.balancer_fault is None
