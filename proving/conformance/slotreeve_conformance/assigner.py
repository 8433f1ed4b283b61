"""The contract of assigners as tests: subclass :class:`AssignerContract` and implement ``build``."""

# ruff: noqa: D102 - the names of tests are sentences

from __future__ import annotations

from hypothesis import given
from slotreeve.invariants import check_table
from slotreeve.ports import Assigner

from slotreeve_conformance.properties import PROPERTY
from slotreeve_conformance.tables import Situation, broken_tables, check_moves, check_plan, complete_tables


class AssignerContract:
    """Subclass it in a test module; pytest collects the tests from there."""

    def build(self) -> Assigner:
        """The assigner."""
        raise NotImplementedError

    @PROPERTY
    @given(broken_tables())
    def test_the_result_is_valid(self, situation: Situation) -> None:
        table, servers, limits = situation
        plan = self.build().assign(table, servers, limits)
        check_plan(table, plan, servers, limits.replicas)
        check_table(table if plan is None else plan.table, servers, limits.replicas)

    @PROPERTY
    @given(broken_tables())
    def test_the_moves_lead_to_the_result_each_with_a_reason(self, situation: Situation) -> None:
        table, servers, limits = situation
        plan = self.build().assign(table, servers, limits)
        if plan is not None:
            check_moves(table, plan)

    @PROPERTY
    @given(complete_tables())
    def test_nothing_is_done_to_a_complete_table(self, situation: Situation) -> None:
        assert self.build().assign(*situation) is None

    @PROPERTY
    @given(broken_tables())
    def test_complete_slots_stay_as_they_are(self, situation: Situation) -> None:
        table, servers, limits = situation
        plan = self.build().assign(table, servers, limits)
        live = {server.name for server in servers}
        followers = min(limits.replicas, len(live)) - 1
        for before, after in zip(table.slots, table.slots if plan is None else plan.table.slots, strict=True):
            if before.leader in live and live.issuperset(before.followers) and len(before.followers) == followers:
                assert after == before

    @PROPERTY
    @given(broken_tables())
    def test_a_live_leader_keeps_its_slot(self, situation: Situation) -> None:
        table, servers, limits = situation
        plan = self.build().assign(table, servers, limits)
        live = {server.name for server in servers}
        for before, after in zip(table.slots, table.slots if plan is None else plan.table.slots, strict=True):
            assert before.leader not in live or after.leader == before.leader

    @PROPERTY
    @given(broken_tables())
    def test_the_order_of_the_servers_does_not_matter(self, situation: Situation) -> None:
        table, servers, limits = situation
        assert self.build().assign(table, servers, limits) == self.build().assign(table, servers[::-1], limits)
