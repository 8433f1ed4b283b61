"""What has changed lately, as a delta of Eureka shows it. Pure.

Clients do not say what they have. A delta holds every change of the last minutes, so whoever asks more often than that
misses none; a client that has missed one finds another hash code than its own, and asks for all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

RETENTION_SECONDS = 180.0
"""How long a change is in the delta. Clients ask every 30 seconds."""
LONGEST_GAP_SECONDS = RETENTION_SECONDS / 2
"""If nobody has asked for a service for longer, what happened meanwhile is not known, and all of it counts as added."""
ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"
Shown = dict[str, object]


@dataclass(frozen=True, slots=True)
class ServiceState:
    """The instances of a service at an index, as they are shown."""

    service: str
    index: int
    instances: list[Shown]


@dataclass(slots=True)
class _ShownBefore:
    at: float
    index: int
    instances: Mapping[str, Shown]


@dataclass(frozen=True, slots=True)
class _Change:
    at: float
    service: str
    instance_id: str
    shown: Shown


class RecentChanges:
    """Compares what is shown with what was shown before."""

    def __init__(self) -> None:
        self._known: dict[str, _ShownBefore] = {}
        self._changes: deque[_Change] = deque()
        self._newest: dict[tuple[str, str], _Change] = {}

    def take(self, now: float, states: Iterable[ServiceState], listed: Iterable[str]) -> None:
        """Everything that a caller is about to be shown at ``now``. ``listed``: all services that have instances, also
        those that this caller may not see."""
        for gone in self._known.keys() - set(listed):
            self._compare(now, ServiceState(gone, 0, []))
            del self._known[gone]
        for state in states:
            known = self._known.get(state.service)
            if known is not None and now - known.at > LONGEST_GAP_SECONDS:
                del self._known[state.service]
                known = None
            if known is None or known.index != state.index:
                self._compare(now, state)
            else:
                known.at = now
        while self._changes and self._changes[0].at < now - RETENTION_SECONDS:
            change = self._changes.popleft()
            key = (change.service, change.instance_id)
            if self._newest.get(key) is change:
                del self._newest[key]

    def _compare(self, now: float, state: ServiceState) -> None:
        known = self._known.get(state.service)
        before = known.instances if known is not None else {}
        after = {str(one["instanceId"]): one for one in state.instances}
        # What has gone comes first: some clients tell instances apart by host and port only.
        for instance_id in before.keys() - after.keys():
            self._add(now, state.service, instance_id, before[instance_id] | {"actionType": DELETED})
        for instance_id, shown in after.items():
            if instance_id not in before:
                self._add(now, state.service, instance_id, shown | {"actionType": ADDED})
            elif shown != before[instance_id]:
                self._add(now, state.service, instance_id, shown | {"actionType": MODIFIED})
        self._known[state.service] = _ShownBefore(now, state.index, after)

    def _add(self, now: float, service: str, instance_id: str, shown: Shown) -> None:
        change = _Change(now, service, instance_id, shown)
        self._newest[service, instance_id] = change
        self._changes.append(change)

    @property
    def services(self) -> set[str]:
        """The services that have changes."""
        return {change.service for change in self._changes}

    def of(self, services: Iterable[str]) -> Iterator[tuple[str, list[Shown]]]:
        """The newest change of each instance of these services by service, the oldest first."""
        by_service: dict[str, list[Shown]] = {}
        for change in self._changes:
            if self._newest.get((change.service, change.instance_id)) is change:
                by_service.setdefault(change.service, []).append(change.shown)
        wanted = set(services)
        return ((service, shown) for service, shown in by_service.items() if service in wanted)
