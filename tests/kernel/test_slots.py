"""Slots, the slot table, and planned changes of it."""

from __future__ import annotations

import msgspec
import pytest
from slotreeve.model.plan import Plan
from slotreeve.model.slots import Limits, Move, Slot, SlotFacts, SlotTable


def test_an_unassigned_table_has_every_slot_at_its_index_and_no_holder() -> None:
    table = SlotTable.unassigned(3)
    assert table == SlotTable(0, (Slot(0, None, 0, ()), Slot(1, None, 0, ()), Slot(2, None, 0, ())))
    assert SlotTable.unassigned(0) == SlotTable()


@pytest.mark.parametrize(
    "value",
    [
        SlotTable(3, (Slot(0, "a", 3, ("b", "c")), Slot(1, None, 0, ()))),
        SlotFacts(16, 2, "crc32c"),
        Move(1, "drop", "a", None, "a left"),
    ],
)
def test_a_value_of_the_model_is_a_list_on_the_wire_and_reads_back(value: SlotTable | SlotFacts | Move) -> None:
    encoded = msgspec.msgpack.encode(value)
    assert isinstance(msgspec.msgpack.decode(encoded), list)
    assert msgspec.msgpack.decode(encoded, type=type(value)) == value


def test_a_plan_and_its_parts_cannot_be_changed() -> None:
    plan = Plan(SlotTable.unassigned(1), ())
    for value, field in (
        (plan, "table"),
        (plan.table, "epoch"),
        (plan.table.slots[0], "leader"),
        (Limits(2), "replicas"),
    ):
        with pytest.raises(AttributeError):
            setattr(value, field, None)
