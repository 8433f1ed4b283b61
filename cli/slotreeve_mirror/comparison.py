"""What differs between a source and ours. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from slotreeve_client import Instance
from slotreeve_face_consul.registrations import OWN_KEYS
from slotreeve_face_eureka.applications import OWN

from slotreeve_mirror.mirror import MARK, LeasePlace, Seen, SourceState

COMPARED = ("address", "port", "scheme", "weight", "zone", "tags", "health", "enabled")
"""Fields that callers use. Of the metadata each entry is compared, but for what faces keep in it."""


class Difference(msgspec.Struct, frozen=True, order=True):
    """One thing that differs.

    Attributes:
        service: its data info id.
        instance: the id of the instance.
        what: in words.
    """

    service: str
    instance: str
    what: str


def differences(theirs: SourceState, ours: Mapping[str, Iterable[Instance]]) -> list[Difference]:
    """Everything that differs, by service and instance, and the services that could not be read there. ``ours`` has the
    instances of each service of ours."""
    here = {
        LeasePlace(service, each.id): each
        for service, instances in ours.items()
        if service not in theirs.unknown
        for each in instances
    }
    unread = [Difference(service, "", "cannot be read there") for service in theirs.unknown]
    return sorted([*unread, *_each(theirs.instances, here)])


def _each(theirs: Seen, here: Seen) -> Iterator[Difference]:
    for place in theirs.keys() | here.keys():
        one, other = theirs.get(place), here.get(place)
        if one is None or other is None:
            yield Difference(*place, "only there" if other is None else "only here")
            continue
        for name in COMPARED:
            yield from _differ(place, name, getattr(one, name), getattr(other, name))
        for key in sorted((one.metadata.keys() | other.metadata.keys()) - {MARK, *OWN_KEYS}):
            if key.startswith(OWN):
                continue
            yield from _differ(place, f"metadata {key}", one.metadata.get(key), other.metadata.get(key))


def _differ(place: LeasePlace, name: str, there: object, here: object) -> Iterator[Difference]:
    if there != here:
        yield Difference(*place, f"{name}: {_text(there)} there, {_text(here)} here")


def _text(value: object) -> str:
    return "nothing" if value is None or value == "" else f"{value}"
