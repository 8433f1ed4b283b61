"""The arranger and plugins that fail or return what is not valid."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from slotreeve.model.nodes import Server
from slotreeve.model.plan import Plan
from slotreeve.model.slots import Limits, Move, Slot, SlotTable
from slotreeve_balancer.even_balancer import EvenBalancer
from slotreeve_balancer.options import EvenBalancerOptions
from slotreeve_servers.meta.arranging.arranger import LONGEST_FAULT, Arranger, CopyReports


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


def without_moves(table: SlotTable) -> Plan:
    return Plan(SlotTable(0, tuple(Slot(slot.id, "a", 0, ()) for slot in table.slots)), ())


def with_wrong_moves(table: SlotTable) -> Plan:
    return Plan(without_moves(table).table, (Move(0, "leader", None, "a", "made up"),))


def raises(table: SlotTable) -> Plan:
    raise ZeroDivisionError("made up by this test")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("made up by this test")


def raises_what_cannot_be_printed(table: SlotTable) -> Plan:
    raise Unprintable


def raises_with_a_long_text(table: SlotTable) -> Plan:
    raise ValueError("x" * 1_000_000)


def leaves(table: SlotTable) -> Plan:
    raise SystemExit("made up by this test")


REJECTED = [
    too_short,
    unknown_leader,
    without_moves,
    with_wrong_moves,
    raises,
    raises_what_cannot_be_printed,
    raises_with_a_long_text,
    leaves,
]


@pytest.mark.parametrize("result", REJECTED)
def test_a_plugin_that_raises_or_returns_a_plan_that_is_not_good_is_counted_and_the_table_stays(
    result: Callable[[SlotTable], Plan],
) -> None:
    judge = Arranger(6, 2, BadAssigner(result), EvenBalancer(EvenBalancerOptions()))
    assert judge.why_not_planned == ""
    assert judge.arrange(SlotTable(), [Server("a")], CopyReports()).plan is None
    assert judge.rejected == 1
    assert judge.why_not_planned.startswith("the assigner's plan is rejected: ")
    assert len(judge.why_not_planned) < 2 * LONGEST_FAULT
