"""What a mirror registers and ends: what the source has, what is registered here, and what follows. Pure.

Leases are registered under the ids that an application would use which registers itself at our gateways. An imported
instance has a mark in its metadata; one without it is its application's own, and is left alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from slotreeve_client import Instance, Lease
from slotreeve_protocol.envelope import encode_instance

MARK = "slotreeve-imported-from"
"""The key in the metadata of an imported instance; its value names the source."""
FEW = 8
"""So many instances may vanish at once, however many there are."""
HELD_SECONDS = 60.0
"""How long an instance is kept that vanishes together with more than half of all: the source may have lost them."""
AGAIN_SECONDS = 5.0
"""What was sent and is not seen here after so long is sent again."""


class LeasePlace(NamedTuple):
    """Where an instance is registered: its data info id and its lease id."""

    service: str
    lease_id: str


Seen = Mapping[LeasePlace, Instance]
"""Instances by their places."""


@dataclass(frozen=True)
class SourceState:
    """What a source shows.

    Attributes:
        instances: all of them.
        unknown: data info ids of services that could not be read just now; whatever was imported of them stays.
    """

    instances: Seen
    unknown: frozenset[str] = frozenset()


class Here(NamedTuple):
    """What is registered here under one id.

    Attributes:
        imported: what a mirror of this source has registered, without the mark.
        is_its_own: somebody else has registered an instance under the same id: the application itself.
    """

    imported: Instance | None
    is_its_own: bool


@dataclass(frozen=True)
class MirrorChanges:
    """What is to be done so that ours equals the source.

    Attributes:
        register: what is new or differs.
        end: what the source has no more.
        held: how many are kept for now although the source has them no more.
    """

    register: list[LeasePlace] = field(default_factory=list)
    end: list[LeasePlace] = field(default_factory=list)
    held: int = 0


class MirrorCore:
    """What there is and what is here, and what follows from both. All of its time is in seconds."""

    def __init__(self, source: str, ttl_seconds: float) -> None:
        self._source, self._ttl_seconds = source, ttl_seconds
        self._there: dict[str, dict[str, Instance]] = {}
        self._unknown = frozenset[str]()
        self._knows_source = False
        self._here: dict[str, dict[str, Here]] = {}
        self._adopted: set[str] = set()
        self._moved: set[LeasePlace] = set()
        self._missing: set[LeasePlace] = set()
        self._held_until: dict[LeasePlace, float] = {}
        self._sent_at: dict[LeasePlace, tuple[Instance | None, float]] = {}
        self._changed: set[str] = set()

    # --- what happens ----------------------------------------------------------------------------------------------

    def source_shows(self, state: SourceState) -> None:
        """The source was read."""
        there = defaultdict[str, dict[str, Instance]](dict)
        for place, instance in state.instances.items():
            there[place.service][place.lease_id] = instance
        for service in there.keys() | self._there.keys() | state.unknown | self._unknown:
            if there.get(service) != self._there.get(service) or service in state.unknown ^ self._unknown:
                self._changed.add(service)
        if not self._knows_source:
            self._changed |= self._here.keys()
        self._there, self._unknown, self._knows_source = dict(there), state.unknown, True

    def source_is_silent(self) -> None:
        """The source cannot be read: nothing ends until it shows its state again."""
        self._knows_source = False
        self._held_until.clear()

    def registry_shows(self, service: str, instances: Iterable[Instance]) -> None:
        """A service is as these instances say, here."""
        found: dict[str, Here] = {}
        for instance in instances:
            before = found.get(instance.id, Here(None, False))
            if instance.metadata.get(MARK) == self._source:
                plain = {key: value for key, value in instance.metadata.items() if key != MARK}
                found[instance.id] = before._replace(imported=msgspec.structs.replace(instance, metadata=plain))
            elif MARK not in instance.metadata:
                found[instance.id] = before._replace(is_its_own=True)
        self._here[service] = found
        self._changed.add(service)

    def adopts(self, service: str, instances: Iterable[Instance]) -> None:
        """An earlier mirror of this source has registered some of these instances. The service is watched from now on,
        even if the first view of it is older and does not show them yet."""
        self._adopted.add(service)
        self.registry_shows(service, instances)

    def registry_forgets(self, service: str) -> None:
        """A service is not watched here any more."""
        self._here.pop(service, None)
        self._missing = {place for place in self._missing if place.service != service}

    def is_imported(self, instances: Iterable[Instance]) -> bool:
        """Whether a mirror of this source has registered one of these."""
        return any(each.metadata.get(MARK) == self._source for each in instances)

    # --- what follows ----------------------------------------------------------------------------------------------

    @property
    def services(self) -> set[str]:
        """The services of which the registry's state matters."""
        return {
            *self._there,
            *self._adopted,
            *(name for name, found in self._here.items() if any(each.imported for each in found.values())),
        }

    @property
    def imported(self) -> Iterator[LeasePlace]:
        """What this source's mirrors have registered here, as it is seen: what is renewed."""
        for service, found in self._here.items():
            for lease_id, each in found.items():
                if each.imported is not None and not each.is_its_own:
                    yield LeasePlace(service, lease_id)

    def changes(self, now: float) -> MirrorChanges:
        """What is to be done now. What was sent already is not named again for some seconds."""
        wanted: dict[LeasePlace, Instance | None] = {}
        for service in self._changed:
            wanted |= self._of_service(service)
        self._changed.clear()
        held = self._hold(now)
        if self._knows_source:
            wanted |= dict.fromkeys(place for place in self._missing if place not in held)
        due = {}
        for place, instance in wanted.items():
            sent = self._sent_at.get(place)
            if sent is None or sent[0] != instance or now - sent[1] >= AGAIN_SECONDS:
                due[place] = instance
                self._sent_at[place] = instance, now
            self._changed.add(place.service)  # until it is seen here, it is looked at again
        register = [place for place, instance in due.items() if instance is not None]
        return MirrorChanges(register, [place for place, instance in due.items() if instance is None], len(held))

    def failed(self, places: Iterable[LeasePlace]) -> None:
        """What was sent has not been done: it is named again at once."""
        for place in places:
            self._sent_at.pop(place, None)

    def leases(self, places: Iterable[LeasePlace]) -> list[Lease]:
        """The leases of these places, as they should be registered."""
        found = [(place, self._there.get(place.service, {}).get(place.lease_id)) for place in places]
        return [self._lease(place, instance) for place, instance in found if instance is not None]

    def _of_service(self, service: str) -> dict[LeasePlace, Instance | None]:
        """What differs in a service: what should be registered, and None for what should end beside its own. What the
        source lacks is remembered as missing."""
        there, here = self._there.get(service, {}), self._here.get(service)
        wanted: dict[LeasePlace, Instance | None] = {}
        if here is None:
            return wanted  # it is not known yet what is here
        before = {place.lease_id for place in self._moved | self._missing if place.service == service}
        for lease_id in there.keys() | here.keys() | before:
            place, one = LeasePlace(service, lease_id), there.get(lease_id)
            found = here.get(lease_id, Here(None, False))
            self._missing.discard(place)
            if found.is_its_own and one is not None:
                self._moved.add(place)
            elif one is None:
                self._moved.discard(place)
            if found.imported is not None and found.is_its_own:
                wanted[place] = None
            elif one is None and found.imported is not None and service not in self._unknown:
                self._missing.add(place)
            elif one is not None and found.imported != one and place not in self._moved:
                wanted[place] = one
            if found.imported == one:
                self._sent_at.pop(place, None)
        return wanted

    def _hold(self, now: float) -> set[LeasePlace]:
        """The missing places that are kept for now."""
        self._held_until = {place: until for place, until in self._held_until.items() if place in self._missing}
        if self._missing and len(self._missing) > max(FEW, sum(1 for _ in self.imported) // 2):
            for place in self._missing:
                self._held_until.setdefault(place, now + HELD_SECONDS)
        return {place for place, until in self._held_until.items() if until > now}

    def _lease(self, place: LeasePlace, given: Instance) -> Lease:
        given = msgspec.structs.replace(given, metadata={**given.metadata, MARK: self._source})
        return Lease(place.service, place.lease_id, (encode_instance(given),), self._ttl_seconds, given.zone)
