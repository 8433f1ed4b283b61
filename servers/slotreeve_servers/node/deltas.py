"""Cutting what travels whole into parts of bounded bytes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

from slotreeve.model.publisher import Publisher

Item = TypeVar("Item")

PART_BYTES = 256 * 1024
"""Nearly two thousand records of the usual size, so that to handle a part takes some milliseconds."""
_FIELD_BYTES = 48
_ITEM_BYTES = 5


LONGEST_LETTER = 4
"""Bytes of a letter in UTF-8, at most."""


def size_of(record: Publisher) -> int:
    """A bound of the encoded size of a record, in bytes (of ids in ASCII)."""
    size = _FIELD_BYTES + len(record.register_id) + len(record.data_info_id) + len(record.session) + len(record.zone)
    for item in record.data or ():
        size += _ITEM_BYTES + len(item)
    return size


class DeltaPart(NamedTuple):
    """One part of a delta.

    Attributes:
        size: a bound of its encoded size in bytes.
        more: it is not the last part. ``is_whole``: it is the only part.
    """

    changed: list[Publisher]
    removed: list[str]
    size: int
    more: bool
    is_whole: bool


def delta_parts(changed: Iterable[Publisher], removed: Iterable[str], limit: int) -> Iterator[DeltaPart]:
    """Cut a delta. A part ends with the record or register id that brings it to ``limit`` bytes. There is at least one
    part."""
    records: list[Publisher] = []
    ids: list[str] = []
    size, is_whole = 0, True
    for record in changed:
        if size >= limit:
            yield DeltaPart(records, [], size, True, False)
            records, size, is_whole = [], 0, False
        records.append(record)
        size += size_of(record)
    for register_id in removed:
        if size >= limit:
            yield DeltaPart(records, ids, size, True, False)
            records, ids, size, is_whole = [], [], 0, False
        ids.append(register_id)
        size += _ITEM_BYTES + len(register_id)
    yield DeltaPart(records, ids, size, False, is_whole)


def messages_of(parts: Iterable[tuple[Item, int]], limit: int) -> Iterator[list[Item]]:
    """Put parts, each with its size in bytes, into messages of about ``limit`` bytes, in order."""
    message: list[Item] = []
    size = 0
    for part, part_size in parts:
        if message and size + part_size > limit:
            yield message
            message, size = [], 0
        message.append(part)
        size += part_size
    if message:
        yield message


def page_of(records: Iterable[Publisher], limit: int) -> list[Publisher]:
    """The first of these records, up to the one that brings them to ``limit`` bytes. The others are not looked at."""
    page: list[Publisher] = []
    size = 0
    for record in records:
        page.append(record)
        size += size_of(record)
        if size >= limit:
            break
    return page
