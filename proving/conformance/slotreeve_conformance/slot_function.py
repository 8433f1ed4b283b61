"""The contract of slot functions as tests: subclass :class:`SlotFunctionContract` and implement ``build``."""

# ruff: noqa: D102 - the names of tests are sentences

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.ports import BatchSlotFunction, SlotFunction

from slotreeve_conformance.properties import PROPERTY


class SlotFunctionContract:
    """Subclass it in a test module; pytest collects the tests from there."""

    def build(self, slots: int) -> SlotFunction:
        """The slot function for ``slots`` slots."""
        raise NotImplementedError

    @PROPERTY
    @given(key=st.text(), slots=st.integers(1, 65_536))
    def test_every_text_has_a_slot(self, key: str, slots: int) -> None:
        assert 0 <= self.build(slots).slot_of(key) < slots

    @pytest.mark.parametrize("key", ["", "\0", "\ud800", "com.example.Foo#@#DEFAULT#@#DEFAULT", "å" * 10_000])
    def test_odd_keys_have_a_slot_too(self, key: str) -> None:
        assert 0 <= self.build(256).slot_of(key) < 256

    @PROPERTY
    @given(key=st.text())
    def test_two_instances_agree(self, key: str) -> None:
        assert self.build(1_000).slot_of(key) == self.build(1_000).slot_of(key)

    @PROPERTY
    @given(keys=st.lists(st.text(st.characters(exclude_categories=["Cs"]))), slots=st.integers(1, 65_536))
    def test_many_keys_at_once_have_the_slots_that_they_have_one_by_one(self, keys: list[str], slots: int) -> None:
        function = self.build(slots)
        if isinstance(function, BatchSlotFunction):
            assert list(function.slots_of([key.encode() for key in keys])) == [function.slot_of(key) for key in keys]

    @pytest.mark.parametrize("slots", [1, 2, 7, 16, 100, 256, 1_000])
    def test_similar_keys_spread_evenly_over_any_number_of_slots(self, slots: int) -> None:
        function = self.build(slots)
        each = 200
        hits = Counter(function.slot_of(f"com.example.service.Service{number}") for number in range(slots * each))
        assert len(hits) == slots
        # Six standard deviations of a random function.
        tolerance = 6 * each**0.5
        assert each - tolerance < min(hits.values())
        assert max(hits.values()) < each + tolerance
