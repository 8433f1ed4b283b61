"""The contract of balancers as tests: subclass :class:`BalancerContract` and implement ``build``."""

# ruff: noqa: D102 - the names of tests are sentences

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from slotreeve import Limits, Plan, Server, SlotTable
from slotreeve.ports import Balancer

from slotreeve_conformance.properties import PROPERTY
from slotreeve_conformance.tables import Situation, check_moves, check_plan, complete_tables


class BalancerContract:
    """Subclass it in a test module; pytest collects the tests from there.

    Attributes:
        most_steps: a balancer that takes more steps fails. The tables have up to 24 slots.
    """

    most_steps = 200

    def build(self) -> Balancer:
        """The balancer."""
        raise NotImplementedError

    def steps(self, table: SlotTable, servers: list[Server], limits: Limits) -> Iterator[tuple[SlotTable, Plan]]:
        """Every step until None, with the table that it started from."""
        balancer = self.build()
        for _ in range(self.most_steps):
            plan = balancer.balance(table, servers, limits)
            if plan is None:
                return
            yield table, plan
            table = plan.table
        raise AssertionError(f"after {self.most_steps} steps it still moves slots: {plan}")

    @PROPERTY
    @given(complete_tables())
    def test_repeated_calls_end_and_every_step_is_valid(self, situation: Situation) -> None:
        table, servers, limits = situation
        for before, plan in self.steps(table, servers, limits):
            check_plan(before, plan, servers, limits.replicas)

    @PROPERTY
    @given(complete_tables())
    def test_every_step_has_moves_that_lead_to_its_table_each_with_a_reason(self, situation: Situation) -> None:
        for before, plan in self.steps(*situation):
            assert plan.moves, "a plan without moves is None"
            check_moves(before, plan)

    @PROPERTY
    @given(complete_tables())
    def test_it_ends_for_good(self, situation: Situation) -> None:
        table, servers, limits = situation
        for _, plan in self.steps(table, servers, limits):
            table = plan.table
        assert self.build().balance(table, servers, limits) is None

    @PROPERTY
    @given(complete_tables())
    def test_the_order_of_the_servers_does_not_matter(self, situation: Situation) -> None:
        table, servers, limits = situation
        assert self.build().balance(table, servers, limits) == self.build().balance(table, servers[::-1], limits)

    @PROPERTY
    @given(complete_tables())
    def test_a_step_depends_on_nothing_but_its_arguments(self, situation: Situation) -> None:
        table, servers, limits = situation
        used = self.build()
        for before, plan in self.steps(table, servers, limits):
            used.balance(before, servers, limits)
            assert self.build().balance(before, servers, limits) == plan
            assert used.balance(before, servers, limits) == plan
