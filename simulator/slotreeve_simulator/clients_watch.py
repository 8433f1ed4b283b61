"""What clients are told, against what they published: invariants I7, I8, I10 and I11."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slotreeve_client import Instance, Publication, Subscription

from slotreeve_simulator.tolerances import Tolerances
from slotreeve_simulator.trace import Trace, Weight
from slotreeve_simulator.verdict import RunVerdict


@dataclass(eq=False)
class Registration:
    """One publication as the simulation knows it. What it publishes is ``serial.count``.

    Attributes:
        serial: unique in the run; ``count``: how often it was published.
        client: the process that owns it.
        alive: it was not unpublished, and its client lives.
    """

    serial: int
    client: str
    service: str
    publication: Publication
    count: int = 1
    alive: bool = True

    @property
    def payload(self) -> str:
        """What it publishes now."""
        return f"{self.serial}.{self.count}"

    @property
    def has_ended(self) -> bool:
        """It was unpublished, and the slot's leader knows."""
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
                "I11", f"{self.client} was told version {subscription.version:#x} of {self.service} after "
                f"{self._version:#x}"
            )  # fmt: skip
        self._watch.compare(self, seen, self._gone)
        self._gone |= self.seen.keys() - seen.keys()
        self._gone -= seen.keys()
        self._version, self.seen = subscription.version, seen


class ClientsWatch:
    """Every registration of a run, and the checks of what is seen of them."""

    def __init__(self, excuses: Tolerances, trace: Trace, verdict: RunVerdict) -> None:
        self._excuses, self._trace, self.verdict = excuses, trace, verdict
        self._registrations: list[Registration] = []

    def register(self, client: str, service: str, publish: Callable[[str], Publication]) -> Registration:
        """Publish something new and remember it."""
        serial = len(self._registrations)
        registration = Registration(serial, client, service, publish(f"{serial}.1"))
        self._registrations.append(registration)
        return registration

    def expected(self) -> dict[str, dict[int, int]]:
        """What must be seen once all is quiet: count by serial by service."""
        services: dict[str, dict[int, int]] = {}
        for registration in self._registrations:
            if registration.alive:
                services.setdefault(registration.service, {})[registration.serial] = registration.count
        return services

    def stored(self, service: str) -> tuple[set[int], set[int]]:
        """The serials of a service that are known to be stored now: (alive, ended)."""
        alive, ended = set(), set()
        for registration in self._registrations:
            if registration.service == service:
                if registration.has_ended:
                    ended.add(registration.serial)
                elif registration.alive and registration.publication.is_acknowledged:
                    alive.add(registration.serial)
        return alive, ended

    # --- pushes ------------------------------------------------------------------------------------------------------

    def pushed(self, watcher: Watcher, version: int, seen: dict[int, int]) -> None:
        """Note a push."""
        content = ",".join(f"{serial}.{count}" for serial, count in sorted(seen.items()))
        self._trace.note(Weight.DETAIL, f"{watcher.client} sees {watcher.service} at {version:#x}: {content or '-'}")

    def compare(self, watcher: Watcher, seen: dict[int, int], gone: set[int]) -> None:
        """Is what ``watcher`` sees now a step forward from what it saw?"""
        for serial, count in sorted(watcher.seen.items()):
            registration = self._registrations[serial]
            if serial not in seen:
                if registration.alive and not self._excuses.excused(registration.client):
                    self.verdict.violate("I7", f"{watcher.client} lost sight of {self._named(serial)}, which lives")
            elif seen[serial] < count and not self._excuses.excused(registration.client):
                self.verdict.violate(
                    "I10", f"{watcher.client} was told {serial}.{seen[serial]} of {watcher.service} after "
                    f"{serial}.{count}"
                )  # fmt: skip
        for serial in sorted(gone & seen.keys()):
            registration = self._registrations[serial]
            if registration.has_ended and not self._excuses.excused(registration.client):
                self.verdict.violate("I10", f"{watcher.client} sees {self._named(serial)} again, which has ended")

    # --- reads -------------------------------------------------------------------------------------------------------

    def answered(self, client: str, service: str, before: tuple[set[int], set[int]], seen: dict[int, int]) -> None:
        """A read that began when ``before`` was :meth:`stored` was answered."""
        content = ",".join(f"{serial}.{count}" for serial, count in sorted(seen.items()))
        self._trace.note(Weight.DETAIL, f"{client} reads {service}: {content or '-'}")
        alive, ended = before
        for serial in sorted(alive - seen.keys()):
            registration = self._registrations[serial]
            if registration.alive and not self._excuses.excused(registration.client):
                self.verdict.violate("I7", f"{client} reads {service} without {self._named(serial)}, which lives")
        for serial in sorted(ended & seen.keys()):
            if not self._excuses.excused(self._registrations[serial].client):
                self.verdict.violate("I10", f"{client} reads {self._named(serial)} in {service}, which has ended")

    def difference(self, expected: dict[int, int], seen: dict[int, int]) -> str | None:
        """How what is seen of a service differs from what must be seen; None if it does not."""
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
        registration = self._registrations[serial]
        return f"{registration.payload} of {registration.client} in {registration.service}"


def read(instances: tuple[Instance, ...]) -> dict[int, int]:
    """Count by serial."""
    seen = {}
    for instance in instances:
        serial, _, count = instance.data[0].decode().partition(".")
        seen[int(serial)] = int(count)
    return seen
