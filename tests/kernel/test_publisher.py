"""The record of a registration."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from slotreeve.model.publisher import Publisher


def record(version: int = 1, incarnation: int = 1, data: tuple[bytes, ...] | None = (b"x",)) -> Publisher:
    return Publisher("r", "s#@#i#@#g", version, incarnation, "session@1", "east", data)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.integers(1, 9))
def test_records_are_ordered_by_version_then_incarnation_and_strictly(v1: int, i1: int, v2: int, i2: int) -> None:
    older, newer = record(v1, i1), record(v2, i2)
    assert newer.newer_than(older) == ((v2, i2) > (v1, i1))


def test_a_tombstone_keeps_everything_but_the_payload() -> None:
    live = record(3, 2)
    dead = live.tombstone()
    assert (live.is_tombstone, dead.is_tombstone) == (False, True)
    assert dead == record(3, 2, None)
    assert not dead.newer_than(live)
    assert not live.newer_than(dead)


def test_a_record_weighs_one_and_one_more_for_each_two_kibibytes() -> None:
    assert record(data=None).weight == 1
    assert record(data=()).weight == 1
    assert record(data=(b"x" * 2047,)).weight == 1
    assert record(data=(b"x" * 1024, b"x" * 1024)).weight == 2
