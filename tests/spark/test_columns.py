"""Spark's columns are made from the schema of the event log."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import inspect
from slotreeve_events.schema import Event, Small
from slotreeve_spark.pipeline.columns import column_type, event_columns
from slotreeve_spark.pipeline.records import CLEANED, EVENT


class Nested(msgspec.Struct):
    name: str
    number: int | None


@pytest.mark.parametrize(
    ("field_type", "expected"),
    [
        (str, "string"),
        (int, "bigint"),
        (Small, "int"),
        (float, "double"),
        (str | None, "string"),
        (list[int], "array<bigint>"),
        (tuple[str, ...], "array<string>"),
        (list[Nested], "array<struct<name: string, number: bigint>>"),
    ],
)
def test_every_type_of_a_field_has_its_column_type(field_type: object, expected: str) -> None:
    assert column_type(inspect.type_info(field_type)) == expected


def test_a_type_without_a_column_type_is_an_error() -> None:
    with pytest.raises(TypeError, match="no column type"):
        column_type(inspect.type_info(dict[str, int]))


def test_every_field_of_an_event_is_a_column() -> None:
    assert [column.partition(" ")[0] for column in split(EVENT)] == list(Event.__struct_fields__)


def test_columns_come_in_the_order_they_are_asked_for() -> None:
    assert event_columns(("kind", "v")) == "kind string, v int"


def test_the_cleaned_table_has_columns_for_one_registration_in_place_of_the_lists() -> None:
    names = [column.partition(" ")[0] for column in split(CLEANED)]
    assert names[:9] == ["at", "v", "id", "at_ms", "node", "kind", "service", "register_id", "version"]
    lists = {"services", "register_ids", "versions"}
    assert set(names) - {"at", "register_id", "version"} == set(Event.__struct_fields__) - lists


def split(columns: str) -> list[str]:
    """The columns of a column list; commas within brackets do not count."""
    found, depth = [""], 0
    for character in columns:
        depth += (character == "<") - (character == ">")
        if character == "," and depth == 0:
            found.append("")
        else:
            found[-1] += character
    return [column.strip() for column in found]
