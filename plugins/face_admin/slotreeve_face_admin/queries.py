"""The parameters of queries, and pages of long lists. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType

T = TypeVar("T")
K = TypeVar("K", str, int)

MOST_SLOTS = 16_384
Number = Annotated[int, Meta(ge=0, le=2**31)]
Limit = Annotated[int, Meta(ge=1, le=1000, description="So many at most, and those that have the id of the last one.")]
After = Annotated[str, Meta(description="Only those that follow this one: next of the page before.")]


class ListQuery(Struct, forbid_unknown_fields=True, frozen=True):
    """A page of a list."""

    prefix: Annotated[str, Meta(description="Only those that begin so.")] = ""
    after: After = ""
    limit: Limit = 100


class ClientsQuery(ListQuery, forbid_unknown_fields=True, frozen=True):
    """A page of clients."""

    application: Annotated[str | UnsetType, Meta(description="Only those of this application.")] = UNSET


class UsesQuery(Struct, forbid_unknown_fields=True, frozen=True):
    """A page of what an application does with services."""

    after: Annotated[str, Meta(description="Only services that follow this one: next of the page before.")] = ""
    limit: Limit = 100


class SubscribersQuery(Struct, forbid_unknown_fields=True, frozen=True):
    """A page of subscribers."""

    after: After = ""
    limit: Limit = 100


class DelaysQuery(Struct, forbid_unknown_fields=True, frozen=True):
    """Of which service."""

    service: Annotated[str, Meta(description="Only who lags of this one, and its version everywhere.")] = ""


class SlotsQuery(Struct, forbid_unknown_fields=True, frozen=True):
    """A page of the slot table, or one slot."""

    slot: Annotated[Number | UnsetType, Meta(description="Only this one.")] = UNSET
    after: Annotated[int, Meta(ge=-1, le=2**31, description="Only those that follow this one.")] = -1
    limit: Annotated[int, Meta(ge=1, le=MOST_SLOTS, description="So many at most.")] = 1024


def page_of(items: Iterable[T], key: Callable[[T], K], after: K, limit: int) -> tuple[list[T], K | None]:
    """The first items whose key is greater than ``after``, in the order of their keys, and the key after which the next
    page begins; None: no others follow. Items with one key stand on one page."""
    found = sorted((item for item in items if key(item) > after), key=key)
    end = limit
    while 0 < end < len(found) and key(found[end]) == key(found[end - 1]):
        end += 1
    return found[:end], key(found[end - 1]) if end < len(found) else None
