"""What a mirror registers and ends when its source changes. Pure: no connection, no clock.

Leases are registered under the ids that an application would use which registers itself at our gateways: when it moves,
it takes the lease over. An imported instance has a mark in its metadata; one without it is not the mirror's any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from slotreeve_client import Instance, Lease
from slotreeve_protocol.envelope import encode_instance
from slotreeve_protocol.instance import MAX_METADATA

MARK = "slotreeve-imported-from"
"""The key in the metadata of an imported instance; its value names the source."""
FEW = 8
"""So many instances may vanish at once, however many there are."""
HELD_SECONDS = 60.0
"""How long instances are kept where more than half of all vanish at once: the source may have lost them itself."""


class LeasePlace(NamedTuple):
    """Where an instance is registered: its data info id and its lease id."""

    service: str
    lease_id: str


Seen = Mapping[LeasePlace, Instance]
"""All instances of a source."""


@dataclass(frozen=True)
class MirrorChanges:
    """What is to be done so that ours equals the source.

    Attributes:
        register: leases that are new or differ.
        end: leases that the source has no more.
        held: how many are kept for now although the source has them no more.
    """

    register: list[Lease] = field(default_factory=list)
    end: list[LeasePlace] = field(default_factory=list)
    held: int = 0


class MirrorCore:
    """What was imported, and what follows from what a source shows next."""

    def __init__(self, source: str, ttl_seconds: float) -> None:
        self._source, self._ttl_seconds = source, ttl_seconds
        self._imported: dict[LeasePlace, Instance] = {}
        self._held_since: float | None = None

    @property
    def imported(self) -> Mapping[LeasePlace, Instance]:
        """What should be registered now."""
        return self._imported

    def look(self, seen: Seen, now: float) -> MirrorChanges:
        """What changes with this state of the source, at this time in seconds."""
        gone = [place for place in self._imported if place not in seen]
        many = len(gone) > max(FEW, len(self._imported) // 2)
        if not many:
            self._held_since = None
        elif self._held_since is None:
            self._held_since = now
        holds = self._held_since is not None and now - self._held_since < HELD_SECONDS
        changed = {place: given for place, given in seen.items() if self._imported.get(place) != given}
        self._imported |= changed
        if holds:
            return MirrorChanges(self.leases(changed), held=len(gone))
        self._held_since = None
        for place in gone:
            del self._imported[place]
        return MirrorChanges(self.leases(changed), gone)

    def leases(self, places: Iterable[LeasePlace]) -> list[Lease]:
        """The leases of these places, as they should be registered."""
        return [self._lease(place, self._imported[place]) for place in places]

    def _lease(self, place: LeasePlace, given: Instance) -> Lease:
        if len(given.metadata) < MAX_METADATA:
            given = msgspec.structs.replace(given, metadata={**given.metadata, MARK: self._source})
        return Lease(place.service, place.lease_id, (encode_instance(given),), self._ttl_seconds, given.zone)


def is_imported(instance: Instance | None) -> bool:
    """Whether a mirror has registered it, and its application has not done so itself since then."""
    return instance is not None and MARK in instance.metadata
