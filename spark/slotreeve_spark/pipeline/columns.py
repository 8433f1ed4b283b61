"""Spark's columns for the events of the event log, made from the schema that the servers write by.

Columns are text in Spark's DDL, such as ``id string, at_ms bigint``, because importing this module must not need Spark.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import inspect
from slotreeve_events.schema import Event

LARGEST_INT = 2**31 - 1


def event_columns(names: Iterable[str] = Event.__struct_fields__) -> str:
    """The columns for these fields of an event.

    Raises:
        TypeError: a field has a type that has no column type here.
    """
    event = inspect.type_info(Event)
    assert isinstance(event, inspect.StructType)
    types = {field.encode_name: column_type(field.type) for field in event.fields}
    return ", ".join(f"{name} {types[name]}" for name in names)


def column_type(field_type: inspect.Type) -> str:
    """The column type for a field's type. Every column may be null, so an optional type needs no type of its own.

    Raises:
        TypeError: there is no column type for it here.
    """
    match field_type:
        case inspect.StrType():
            return "string"
        case inspect.FloatType():
            return "double"
        case inspect.IntType(le=largest):
            return "int" if largest is not None and largest <= LARGEST_INT else "bigint"
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return f"array<{column_type(item)}>"
        case inspect.StructType(fields=fields):
            return f"struct<{', '.join(f'{field.encode_name}: {column_type(field.type)}' for field in fields)}>"
        case inspect.UnionType(types=(present, inspect.NoneType())):
            return column_type(present)
    raise TypeError(f"the event log's schema uses {field_type}, for which there is no column type yet")
