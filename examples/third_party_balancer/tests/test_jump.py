"""The slot function ``jump`` under the suite that every slot function has to pass."""

# ruff: noqa: D101, D102, D103 - the names of tests are sentences

from slotreeve.ports import SlotFunction
from slotreeve_conformance.slot_function import SlotFunctionContract
from slotreeve_round_table.jump import Jump


class TestJump(SlotFunctionContract):
    def build(self, slots: int) -> SlotFunction:
        return Jump(slots)


def test_keys_move_only_to_new_slots_and_no_more_than_must() -> None:
    keys = [f"com.example.Service{number}" for number in range(10_000)]
    moved = [key for key in keys if Jump(24).slot_of(key) != Jump(16).slot_of(key)]
    assert all(Jump(24).slot_of(key) >= 16 for key in moved)
    assert abs(len(moved) / len(keys) - 1 / 3) < 0.02
