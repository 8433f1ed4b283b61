"""The servers of an incident: which there were, and what happened to them.

The event log shows a death by what followed from it, so its time is concluded with the default settings: a connection
that ended was missed for ``meta.lost_connection_seconds``, a silent server for ``meta.lease_seconds``.
"""

from __future__ import annotations

from dataclasses import dataclass

from slotreeve_servers.meta.members.leases import CONNECTION_LOST
from slotreeve_servers.meta.settings import MetaSettings
from slotreeve_simulator.fault_kinds import FaultKind
from slotreeve_simulator.recorded import RecordedAction

from slotreeve_spark.seed.facts import Incident, MemberEvent, ProcessLife

RESTART_SECONDS = 1.0
"""A process that was replaced unnoticed is taken to have been away for so long before its successor's first event."""
SHORTEST_SECONDS = 0.001
ROLES = ("data", "session")
_CRASH = {"data": FaultKind.CRASH_DATA, "session": FaultKind.CRASH_SESSION, "meta": FaultKind.CRASH_META}
_ADD = {"data": FaultKind.ADD_DATA, "session": FaultKind.ADD_SESSION}
_RULES = MetaSettings()


@dataclass(frozen=True)
class SeededServers:
    """The servers of a scenario.

    Attributes:
        sizes: number of servers at the beginning, by role.
        actions: what happened to them.
        names: names in the simulation by recorded names.
    """

    sizes: dict[str, int]
    actions: tuple[RecordedAction, ...]
    names: dict[str, str]

    def death_of(self, recorded: str, before: float) -> float | None:
        """When a server last went away before some moment; None if it did not."""
        node = self.names.get(recorded)
        gone = [action.at for action in self.actions if action.node == node and action.at <= before]
        return max((at for at in gone), default=None)


def seeded_servers(incident: Incident) -> SeededServers:
    """What an incident has about its servers."""
    timeline = _ServerTimeline(incident)
    for event in incident.members:
        timeline.take(event)
    timeline.take_meta_servers()
    return SeededServers(timeline.sizes, tuple(timeline.closed()), timeline.names)


def order_of(name: str) -> tuple[int, str]:
    """Sorts names that end in numbers by these."""
    return len(name), name


class _ServerTimeline:
    """The servers as they come and go."""

    def __init__(self, incident: Incident) -> None:
        self._incident = incident
        self._actions: list[RecordedAction] = []
        self._gone: dict[str, tuple[float, FaultKind]] = {}
        self.names: dict[str, str] = {}
        roles = _initial(incident)
        self._live = set(roles)
        self.sizes: dict[str, int] = {}
        for role in ("meta", *ROLES):
            found = sorted((name for name, its in roles.items() if its == role), key=order_of)
            self.sizes[role] = max(1, len(found))
            self.names |= {name: f"{role}-{number}" for number, name in enumerate(found, 1)}
        self._numbers = dict(self.sizes)

    def take(self, event: MemberEvent) -> None:
        """A server has joined or left. What happened before the incident is in the beginning."""
        if event.at < 0 or event.role not in ROLES:
            return
        if not event.joined:
            self._left(event)
        elif event.name in self._gone:
            self._is_back(event.name, event.at)
        elif event.name in self._live:
            self._was_away(_CRASH[event.role], event.name, event.at - RESTART_SECONDS, event.at)
        else:
            self._numbers[event.role] += 1
            self.names[event.name] = f"{event.role}-{self._numbers[event.role]}"
            self._live.add(event.name)
            self._was_away(_ADD[event.role], event.name, event.at, self._incident.seconds)

    def _left(self, event: MemberEvent) -> None:
        if event.name not in self._live or event.name in self._gone:
            return
        kind, seconds = _CRASH[event.role], _RULES.unseen_seconds
        if event.reason == CONNECTION_LOST:
            seconds = _RULES.lost_connection_seconds
        elif event.reason == "lease expired":
            kind, seconds = FaultKind.PAUSE, _RULES.lease_seconds
        elif "restart" in event.reason:
            kind, seconds = FaultKind.STOP_SERVER, _RULES.restart_seconds
        self._gone[event.name] = event.at - seconds, kind

    def _is_back(self, name: str, at: float) -> None:
        since, kind = self._gone.pop(name)
        self._was_away(kind, name, since, at)

    def _was_away(self, kind: FaultKind, name: str, since: float, until: float) -> None:
        since = max(0.0, since)
        seconds = max(SHORTEST_SECONDS, until - since)
        action = RecordedAction(
            at=round(since, 3), kind=kind, node=self.names[name], seconds=round(seconds, 3), recorded_as=name
        )
        self._actions.append(action)

    def take_meta_servers(self) -> None:
        """Meta servers do not join and leave. One has died that was replaced by another process, or that led and wrote
        nothing more once another one led."""
        seconds = self._incident.seconds
        for name in [name for name, node in self.names.items() if node.startswith("meta-")]:
            lives = [life for life in self._incident.processes if life.node == name and life.is_meta]
            for life, following in zip(lives, [*lives[1:], None], strict=True):
                until = seconds if following is None else following.first
                died = self._deposed(life, until)
                if died is None and following is not None:
                    died = max(life.last, following.first - RESTART_SECONDS)
                if died is not None and 0 <= died < seconds and until > 0:
                    self._was_away(FaultKind.CRASH_META, name, died, until)

    def _deposed(self, life: ProcessLife, until: float) -> float | None:
        """When another meta server followed this one as leader, while it wrote nothing any more."""
        leader = None
        for change in self._incident.leaders:
            if leader == life.node and change.leader != life.node and life.last < change.at < until:
                return change.at
            leader = change.leader
        return None

    def closed(self) -> list[RecordedAction]:
        """All actions in order. Who is still away stays away to the end."""
        for name in list(self._gone):
            self._is_back(name, self._incident.seconds)
        return sorted(self._actions, key=lambda action: action.at)


def _initial(incident: Incident) -> dict[str, str]:
    """The servers at the beginning of the incident, with their roles."""
    roles: dict[str, str] = {}
    known: set[str] = set()
    for event in incident.members:
        if event.role not in ROLES:
            continue
        if event.at < 0 and event.joined:
            roles[event.name] = event.role
        elif not event.joined and event.at < 0:
            roles.pop(event.name, None)
        elif not event.joined and event.name not in known:
            roles[event.name] = event.role  # it had joined before the log began
        known.add(event.name)
    for life in incident.processes:
        if life.is_meta:
            roles[life.node] = "meta"
        elif life.is_session and life.node not in known:
            roles[life.node] = "session"
    return roles
