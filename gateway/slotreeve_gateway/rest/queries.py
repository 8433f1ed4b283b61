"""Query strings as typed structs. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct
from slotreeve.errors import RequestError

from slotreeve_gateway.typos import explained

MOST_PARAMETERS = 100
Q = TypeVar("Q", bound=Struct)


class NoQuery(Struct, forbid_unknown_fields=True, frozen=True):
    """No parameters."""


def query_of(text: bytes, kind: type[Q]) -> Q:
    """The parameters of a query string. One whose field is a tuple may be given several times.

    Raises:
        RequestError: one is unknown, is given twice, or has a wrong value; the message names it.
    """
    if not text:
        return kind()
    try:
        pairs = parse_qsl(text.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_PARAMETERS)
    except ValueError as error:
        raise RequestError(f"the query cannot be read: {error}") from None
    repeated = _repeated(kind)
    found: dict[str, str | list[str]] = {}
    for name, value in pairs:
        if name in repeated:
            values = found.setdefault(name, [])
            assert isinstance(values, list)
            values.append(value)
        elif name in found:
            raise RequestError(f"query: {name} is given twice; expected it once")
        else:
            found[name] = value
    try:
        return msgspec.convert(found, kind, strict=False)
    except msgspec.ValidationError as error:
        raise RequestError(f"query: {explained(str(error), kind)}") from None


@lru_cache
def _repeated(kind: type[Struct]) -> frozenset[str]:
    """The names of the fields that are tuples."""
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    return frozenset(field.encode_name for field in info.fields if _is_tuple(field.type))


def _is_tuple(found: msgspec.inspect.Type) -> bool:
    while isinstance(found, msgspec.inspect.Metadata):
        found = found.type
    return isinstance(found, msgspec.inspect.VarTupleType)
