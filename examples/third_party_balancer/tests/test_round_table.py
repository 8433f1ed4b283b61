"""The balancer ``round_table`` under the suite that every balancer has to pass."""

# ruff: noqa: D101, D102, D103 - the names of tests are sentences

from collections import Counter

from slotreeve import Limits, Server, Slot, SlotTable
from slotreeve.ports import Balancer
from slotreeve_conformance.balancer import BalancerContract
from slotreeve_round_table.balancer import RoundTable


class TestRoundTable(BalancerContract):
    def build(self) -> Balancer:
        return RoundTable()


def test_leaders_end_within_one_of_each_other() -> None:
    servers = [Server(name) for name in ("arthur", "bors", "galahad")]
    table = SlotTable(1, tuple(Slot(number, "arthur", 1, ("bors",)) for number in range(12)))
    while (plan := RoundTable().balance(table, servers, Limits(2))) is not None:
        table = plan.table
    assert set(Counter(slot.leader for slot in table.slots).values()) == {4}
