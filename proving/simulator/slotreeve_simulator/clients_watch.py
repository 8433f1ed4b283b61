"""Checks of what clients see against what they published: invariants I7, I8, I10 and I11."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from slotreeve.model.datum import NO_VERSION
from slotreeve_client import Provider, Publication, Subscription

from slotreeve_simulator.spared import Core
from slotreeve_simulator.symptom import SymptomWatch
from slotreeve_simulator.trace import Trace, Weight
from slotreeve_simulator.verdict import RunVerdict


@dataclass(eq=False)
class Registration:
    """One registration of the simulation. Its payload is ``serial.count``.

    Attributes:
        serial: unique in the run.
        count: number of times it was published.
        client: the process that owns it.
        alive: it was not unpublished, and its client runs.
        ended_at: version of the slot's leader at which its end was acknowledged, at the latest; None: it was not.
    """

    serial: int
    client: str
    service: str
    publication: Publication
    count: int = 1
    alive: bool = True
    ended_at: int | None = None

    @property
    def payload(self) -> str:
        """Its payload now."""
        return f"{self.serial}.{self.count}"

    @property
    def has_ended(self) -> bool:
        """Whether it was unpublished and the slot's leader has acknowledged that."""
        return self.publication.data is None and self.publication.is_acknowledged


class Watcher:
    """One subscription of one client."""

    def __init__(self, watch: ClientsWatch, client: str, service: str) -> None:
        self._watch, self.client, self.service = watch, client, service
        self._version = 0
        self._gone: set[int] = set()
        self.seen: dict[int, int] = {}
        self.subscription: Subscription | None = None

    def changed(self, subscription: Subscription) -> None:
        """The client's callback."""
        seen = read(subscription.instances)
        self._watch.pushed(self, subscription.version, seen)
        if subscription.version < self._version:
            self._watch.verdict.violate(
                "I11", f"{self.client} got version {subscription.version:#x} of {self.service} after {self._version:#x}"
            )
        self._watch.compare(self, seen, self._gone, subscription.version)
        self._gone |= self.seen.keys() - seen.keys()
        self._gone -= seen.keys()
        self._version, self.seen = subscription.version, seen


class ClientsWatch:
    """All registrations of a run, and the checks of what clients see of them.

    Args:
        version_of: the version of a slot's leader, by a data info id of the slot.

    Attributes:
        registrations: by serial.
        core: of the storm that the cluster has not recovered from; None: nobody may lose anything.
        off: clients that an operator has switched off: nobody is to see what they publish.
    """

    def __init__(
        self,
        trace: Trace,
        verdict: RunVerdict,
        symptom: SymptomWatch | None = None,
        version_of: Callable[[str], int] = lambda _: 0,
    ) -> None:
        self._trace, self.verdict, self._symptom, self._version_of = trace, verdict, symptom, version_of
        self._ending: list[Registration] = []
        self.core: Core | None = None
        self.off: frozenset[str] = frozenset()
        self.registrations: list[Registration] = []
        self._expected: dict[str, dict[int, int]] = {}
        # What was seen of a service at a version, and by whom first. All clients subscribe to the whole data center.
        self._states: dict[tuple[str, int], tuple[dict[int, int], str]] = {}

    def register(self, client: str, service: str, publish: Callable[[str], Publication]) -> Registration:
        """Publish a new registration and record it."""
        serial = len(self.registrations)
        registration = Registration(serial, client, service, publish(f"{serial}.1"))
        self.registrations.append(registration)
        self._expected.setdefault(service, {})[serial] = registration.count
        return registration

    def publish_again(self, registration: Registration) -> None:
        """Change the payload of a registration."""
        registration.count += 1
        self._expected[registration.service][registration.serial] = registration.count
        registration.publication.republish(registration.payload)

    def ended(self, registration: Registration) -> None:
        """A registration is being unpublished, or its client has ended."""
        registration.alive = False
        self._ending.append(registration)
        del self._expected[registration.service][registration.serial]

    def look(self) -> None:
        """Note at which versions ends were acknowledged. What a client reads late may be older: it saw them alive."""
        for registration in [one for one in self._ending if one.has_ended]:
            registration.ended_at = self._version_of(registration.publication.data_info_id)
            self._ending.remove(registration)

    def expected(self, service: str) -> dict[int, int]:
        """What clients must see of a service once the cluster has settled: count by serial."""
        expected = self._expected.get(service, {})
        if not self.off:
            return expected
        return {serial: n for serial, n in expected.items() if self.registrations[serial].client not in self.off}

    def stored(self, service: str) -> tuple[set[int], set[int]]:
        """The serials of a service that were acknowledged: (alive, ended)."""
        alive, ended = set(), set()
        for registration in self.registrations:
            if registration.service == service:
                if registration.has_ended:
                    ended.add(registration.serial)
                elif registration.alive and registration.publication.is_acknowledged:
                    alive.add(registration.serial)
        return alive, ended

    # --- pushes ------------------------------------------------------------------------------------------------------

    def pushed(self, watcher: Watcher, version: int, seen: dict[int, int]) -> None:
        """Add a push to the trace. Everybody must see the same at a version, at whichever session server."""
        what, content = f"{watcher.service} at {version:#x}", _text(seen)
        self._trace.note(Weight.DETAIL, f"{watcher.client} sees {what}: {content}")
        known, first = self._states.setdefault((watcher.service, version), (seen, watcher.client))
        if known != seen and version != NO_VERSION:
            self.verdict.violate("I11", f"{watcher.client} sees {what}: {content}; {first} saw there {_text(known)}")

    def compare(self, watcher: Watcher, seen: dict[int, int], gone: set[int], version: int) -> None:
        """Check that what ``watcher`` sees now, at this version, may follow what it saw before."""
        for serial, count in sorted(watcher.seen.items() - seen.items()):
            registration = self.registrations[serial]
            if serial not in seen:
                if registration.alive and self._keeps(registration.client):
                    self.verdict.violate("I7", f"{watcher.client} does not see {self._named(serial)}, which is alive")
                if self._symptom is not None and registration.publication.data is not None:
                    self._symptom.lost(watcher.client, watcher.service)
            elif seen[serial] < count and self._is_exact(registration.client):
                self.verdict.violate(
                    "I10", f"{watcher.client} got {serial}.{seen[serial]} of {watcher.service} after {serial}.{count}"
                )
        for serial in sorted(gone & seen.keys()):
            registration = self.registrations[serial]
            ended_at = registration.ended_at
            if ended_at is not None and version >= ended_at and self._knows_ends(registration.client):
                self.verdict.violate("I10", f"{watcher.client} sees {self._named(serial)} again, which has ended")

    # --- reads -------------------------------------------------------------------------------------------------------

    def answered(self, client: str, service: str, before: tuple[set[int], set[int]], seen: dict[int, int]) -> None:
        """Check the result of a read that began when ``before`` was :meth:`stored`."""
        self._trace.note(Weight.DETAIL, f"{client} reads {service}: {_text(seen)}")
        alive, ended = before
        for serial in sorted(alive - seen.keys()):
            registration = self.registrations[serial]
            if registration.alive and self._keeps(registration.client):
                self.verdict.violate("I7", f"{client} reads {service} without {self._named(serial)}, which is alive")
        for serial in sorted(ended & seen.keys()):
            if self._knows_ends(self.registrations[serial].client):
                self.verdict.violate("I10", f"{client} reads {self._named(serial)} in {service}, which has ended")

    def _keeps(self, client: str) -> bool:
        return client not in self.off and (self.core is None or self.core.keeps(client))

    def _is_exact(self, client: str) -> bool:
        return self.core is None or self.core.is_exact(client)

    def _knows_ends(self, client: str) -> bool:
        return self.core is None or self.core.knows_ends(client)

    def difference(self, expected: dict[int, int], seen: dict[int, int]) -> str | None:
        """How ``seen`` of a service differs from what must be seen; None if it does not."""
        if seen == expected:
            return None
        lost = sorted(expected.keys() - seen.keys())
        ghosts = sorted(seen.keys() - expected.keys())
        stale = sorted(serial for serial in expected.keys() & seen.keys() if expected[serial] != seen[serial])
        parts = [
            f"{what} {', '.join(self._named(serial) for serial in serials[:3])}"
            for what, serials in (("does not see", lost), ("still sees", ghosts), ("sees an old state of", stale))
            if serials
        ]
        return "; ".join(parts) or None

    def _named(self, serial: int) -> str:
        registration = self.registrations[serial]
        return f"{registration.payload} of {registration.client} in {registration.service}"


def _text(seen: dict[int, int]) -> str:
    return ",".join(f"{serial}.{count}" for serial, count in sorted(seen.items())) or "-"


def read(instances: tuple[Provider, ...]) -> dict[int, int]:
    """Count by serial."""
    return dict([_numbers(instance.data[0]) for instance in instances])


@lru_cache(maxsize=100_000)
def _numbers(payload: bytes) -> tuple[int, int]:
    serial, _, count = payload.partition(b".")
    return int(serial), int(count)
