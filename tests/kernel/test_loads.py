"""Loads of slots: which change is noticeable, and which plugins are given them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from slotreeve.model.loads import NO_LOAD, SlotLoad
from slotreeve.ports.load_aware import LoadAware, aware_of


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        (SlotLoad(100, 10_000, 10.0), SlotLoad(109, 10_900, 10.9), True),
        (SlotLoad(100), SlotLoad(120), False),
        (SlotLoad(100, 10_000), SlotLoad(100, 12_000), False),
        (SlotLoad(100, 10_000, 10.0), SlotLoad(100, 10_000, 12.0), False),
        (NO_LOAD, SlotLoad(4, 1_024, 0.2), True),
        (NO_LOAD, SlotLoad(5), False),
    ],
)
def test_a_change_is_noticeable_above_a_tenth_and_above_a_few_records(
    one: SlotLoad, other: SlotLoad, near: bool
) -> None:
    assert one.is_near(other) is other.is_near(one) is near
    assert one.is_near(one)


class Aware:
    """Remembers the loads that it was given."""

    def __init__(self, loads: Mapping[int, SlotLoad]) -> None:
        self.loads = loads

    def with_loads(self, loads: Mapping[int, SlotLoad]) -> Aware:
        return Aware(loads)


def test_only_a_plugin_that_looks_at_loads_is_given_them() -> None:
    aware, plain = Aware({}), object()
    assert aware_of(aware, {1: NO_LOAD}).loads == {1: NO_LOAD}
    assert aware.loads == {}
    assert isinstance(aware, LoadAware)
    assert aware_of(plain, {1: NO_LOAD}) is plain
