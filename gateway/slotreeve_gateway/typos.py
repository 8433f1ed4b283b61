"""What a caller who has mistyped a name has probably meant. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from enum import Enum
from typing import get_args, get_type_hints

import msgspec

_UNKNOWN = re.compile(r"unknown field `([^`]*)`").search
_NO_MEMBER = re.compile(r"Invalid enum value '([^']*)'").search
MOST_SHOWN = 30
"""Characters of a name that are compared."""


def explained(message: str, kind: object) -> str:
    """What msgspec says of a value that is no ``kind``, with the name that is meant where one was mistyped, else with
    those that are known."""
    for found, known in ((_UNKNOWN(message), _fields), (_NO_MEMBER(message), _members)):
        if found is not None:
            names = list(dict.fromkeys(known(kind)))
            nearest = difflib.get_close_matches(found[1][:MOST_SHOWN].lower(), names, n=1)
            message += f"; did you mean {nearest[0]!r}?" if nearest else f"; known: {', '.join(names)}"
    return message


def _fields(kind: object) -> Iterator[str]:
    """The names of the fields of a struct, and of those in it."""
    for struct in _structs(kind, set()):
        yield from (field.encode_name for field in msgspec.structs.fields(struct))


def _members(kind: object) -> Iterator[str]:
    """The values of all enums in a struct."""
    for struct in _structs(kind, set()):
        for annotation in get_type_hints(struct).values():
            for part in (annotation, *get_args(annotation)):
                if isinstance(part, type) and issubclass(part, Enum):
                    yield from (str(member.value) for member in part)


def _structs(kind: object, seen: set[object]) -> Iterator[type[msgspec.Struct]]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind not in seen:
        seen.add(kind)
        yield kind
        for annotation in get_type_hints(kind).values():
            yield from _structs(annotation, seen)
    for part in get_args(kind):
        yield from _structs(part, seen)
