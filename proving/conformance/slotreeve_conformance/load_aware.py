"""The contract of balancers that look at loads: subclass :class:`LoadAwareBalancerContract` and implement ``build``."""

# ruff: noqa: D102 - the names of tests are sentences

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hypothesis import given
from hypothesis import strategies as st
from slotreeve import Limits, Plan, Server, SlotTable
from slotreeve.model.loads import SlotLoad
from slotreeve.ports import LoadAware, aware_of

from slotreeve_conformance.balancer import BalancerContract
from slotreeve_conformance.properties import PROPERTY
from slotreeve_conformance.tables import Situation, check_moves, check_plan, complete_tables

Loads = Mapping[int, SlotLoad]

_COUNTS = st.one_of(st.just(0), st.integers(0, 100), st.sampled_from([1, 10, 1_000, 10**6, 2**53, 2**63 - 1]))
_RATES = st.one_of(st.just(0.0), st.floats(0, 100), st.sampled_from([5e-324, 0.1, 1_000.0, 1e6, 1.7e308]))


def any_loads(most_slots: int = 30) -> st.SearchStrategy[dict[int, SlotLoad]]:
    """Loads of some slots, of tables that have fewer or more: none, equal, and huge ones."""
    load = st.builds(SlotLoad, _COUNTS, _COUNTS, _RATES)
    return st.dictionaries(st.integers(0, most_slots - 1), load, max_size=most_slots)


class LoadAwareBalancerContract(BalancerContract):
    """Subclass it in a test module; pytest collects the tests from there, with those of every balancer."""

    def steps_with(
        self, loads: Loads, table: SlotTable, servers: list[Server], limits: Limits
    ) -> Iterator[tuple[SlotTable, Plan]]:
        """Every step until None with the same loads, with the table that it started from."""
        balancer = self.build()
        for _ in range(self.most_steps):
            plan = aware_of(balancer, loads).balance(table, servers, limits)
            if plan is None:
                return
            yield table, plan
            table = plan.table
        raise AssertionError(f"after {self.most_steps} steps it still moves slots: {plan}")

    def test_it_takes_loads(self) -> None:
        assert isinstance(self.build(), LoadAware)

    @PROPERTY
    @given(complete_tables(), any_loads())
    def test_with_any_loads_repeated_calls_end_and_every_step_is_valid(
        self, situation: Situation, loads: dict[int, SlotLoad]
    ) -> None:
        table, servers, limits = situation
        left = {table.slots}
        for before, plan in self.steps_with(loads, table, servers, limits):
            check_plan(before, plan, servers, limits.replicas)
            assert plan.moves, "a plan without moves is None"
            check_moves(before, plan)
            assert plan.table.slots not in left, "the same loads must not lead back to an earlier table"
            left.add(plan.table.slots)

    @PROPERTY
    @given(complete_tables(), any_loads(), any_loads())
    def test_with_loads_it_depends_on_these_only_and_stays_as_it_is(
        self, situation: Situation, loads: dict[int, SlotLoad], others: dict[int, SlotLoad]
    ) -> None:
        table, servers, limits = situation
        used, given = self.build(), dict(loads)
        without = used.balance(table, servers, limits)
        aware = aware_of(used, loads)
        plan = aware.balance(table, servers, limits)
        aware_of(aware, others).balance(table, servers, limits)
        assert loads == given
        assert used.balance(table, servers, limits) == without
        assert aware.balance(table, servers, limits) == plan
        assert aware_of(aware_of(used, others), loads).balance(table, servers, limits) == plan
        shuffled = dict(reversed(loads.items()))
        assert aware_of(self.build(), shuffled).balance(table, servers[::-1], limits) == plan
