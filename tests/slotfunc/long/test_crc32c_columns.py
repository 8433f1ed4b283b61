"""The compiled column form of the slot function ``crc32c`` against the one that takes a key."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve_slotfunc.crc32c import Crc32c
from slotreeve_slotfunc.crc32c_columns import Crc32cColumns
from slotreeve_spark.compare.slot_columns import ColumnarSlotFunction, KeyColumn

from tests.slotfunc.test_slotfunc_contracts import VECTORS


def slots_of(keys: pa.Array, slots: int) -> list[int]:
    column = KeyColumn.of(keys)
    found = Crc32cColumns(slots).slots_of(column.octets, column.offsets)
    assert found.dtype == np.int64
    return [int(slot) for slot in found]


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """The first column of each kind is compiled for, which takes longer than a property may."""
    for kind in (pa.string(), pa.large_string()):
        assert slots_of(pa.array(["a"], kind), 256) == [Crc32c(256).slot_of("a")]


def has_utf8(key: str) -> bool:
    """Arrow holds no lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in key)


@pytest.mark.parametrize("slots", [16, 256, 1_024, 16_384])
def test_the_slots_of_a_column_are_the_originals(slots: int) -> None:
    with gzip.open(VECTORS, "rt", encoding="utf-8") as lines:
        vectors = [vector for line in lines if has_utf8((vector := json.loads(line))["key"])]
    keys = pa.array([vector["key"] for vector in vectors])
    assert len(keys) > 1_000
    assert slots_of(keys, slots) == [vector[f"crc32c_{slots}"] for vector in vectors]


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), max_size=40),
    st.sampled_from([1, 3, 1_000, 16_384]),
    st.sampled_from([pa.string(), pa.large_string()]),
    st.data(),
)
def test_a_column_has_the_slots_of_its_keys_whatever_part_of_it_is_asked_for(
    keys: list[str], slots: int, kind: pa.DataType, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(keys)))
    length = data.draw(st.integers(0, len(keys) - start))
    one = Crc32c(slots)
    expected = [one.slot_of(key) for key in keys[start : start + length]]
    assert slots_of(pa.array(keys, kind).slice(start, length), slots) == expected


def test_crc32c_offers_its_columns() -> None:
    function = Crc32c(256)
    assert isinstance(function, ColumnarSlotFunction)
    assert isinstance(function.columns(), Crc32cColumns)
