"""The clients of an incident: what they published, when they came, and when they were lost.

A client shows itself by its registrations only. If they expire, it died or closed; if it sends registrations later, it
only stood still or was cut off.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from slotreeve.model.data_info import short_name
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.session.settings import SessionSettings
from slotreeve_simulator.fault_kinds import FaultKind
from slotreeve_simulator.recorded import IncidentClient, RecordedAction

from slotreeve_spark.seed.facts import Incident, RegistrationFact, What
from slotreeve_spark.seed.servers import SHORTEST_SECONDS, SeededServers

TOGETHER_SECONDS = 2.0
"""Registrations of one client that come, or expire, within so long of each other did so for one reason."""
WATCHERS = 2
WATCHER = IncidentClient(subscribes_to_all=True, recorded_as="(not recorded: it watches)")
"""The event log has no subscriptions, so clients that are not in it subscribe to everything."""
_SESSION, _DATA = SessionSettings(), DataSettings()


@dataclass(frozen=True)
class Loss:
    """Registrations of one service that expired with one client. ``at``: when the first one of the client did."""

    at: float
    service: str
    count: int


@dataclass(frozen=True)
class ClientHistory:
    """One client.

    Attributes:
        came_at: when it came; None if it was there before.
        publishes: number of registrations by service, when the incident began or when it came.
        losses: what expired, in order.
        lost: from when until when it was lost, each time; None for the end if it did not come back.
    """

    client: str
    came_at: float | None
    publishes: dict[str, int]
    losses: tuple[Loss, ...] = ()
    lost: tuple[tuple[float, float | None], ...] = ()

    def bounded(self, most: int) -> ClientHistory:
        """With at most so many registrations of each service, and no more losses than those."""
        publishes = {service: min(most, count) for service, count in self.publishes.items()}
        losses = [replace(loss, count=min(loss.count, publishes.get(loss.service, 0))) for loss in self.losses]
        return replace(self, publishes=publishes, losses=tuple(loss for loss in losses if loss.count))

    @property
    def loses(self) -> dict[str, int]:
        """How many of its registrations may have expired, by service. One may have expired more than once, so these are
        no more than it publishes."""
        expired = _summed((loss.service, loss.count) for loss in self.losses)
        return {service: min(count, self.publishes.get(service, 0)) for service, count in expired.items()}


def client_histories(incident: Incident, servers: SeededServers) -> list[ClientHistory]:
    """The kept clients, the most important one first."""
    facts: defaultdict[str, list[RegistrationFact]] = defaultdict(list)
    for fact in incident.facts:
        facts[fact.client].append(replace(fact, service=short_name(fact.service)))
    return [_history(client, facts[client], servers) for client in incident.clients if facts[client]]


def _history(client: str, facts: Sequence[RegistrationFact], servers: SeededServers) -> ClientHistory:
    there = [fact for fact in facts if fact.what is What.ALIVE]
    published = [fact for fact in facts if fact.what is What.PUBLISHED]
    came_at = None if there or not published else published[0].at
    if came_at is not None:
        there = [fact for fact in published if fact.at < came_at + TOGETHER_SECONDS]
    elif not there:
        there = [fact for fact in facts if fact.what is not What.PUBLISHED]  # they are older than the log
    expired = [fact for fact in facts if fact.what is What.EXPIRED]
    bursts = _bursts(expired)
    losses = [Loss(burst[0].at, service, count) for burst in bursts for service, count in _by_service(burst).items()]
    lost = [_lost(burst, facts, servers) for burst in bursts]
    return ClientHistory(client, came_at, _by_service(there), tuple(losses), tuple(lost))


def _by_service(facts: Iterable[RegistrationFact]) -> dict[str, int]:
    return _summed((fact.service, fact.count) for fact in facts)


def _summed(counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for service, count in counts:
        total[service] += count
    return dict(total)


def _bursts(expired: Sequence[RegistrationFact]) -> list[list[RegistrationFact]]:
    bursts: list[list[RegistrationFact]] = []
    for fact in expired:
        if bursts and fact.at < bursts[-1][-1].at + TOGETHER_SECONDS:
            bursts[-1].append(fact)
        else:
            bursts.append([fact])
    return bursts


def _lost(
    burst: list[RegistrationFact], facts: Sequence[RegistrationFact], servers: SeededServers
) -> tuple[float, float | None]:
    """From when until when a client was lost whose registrations expired. Those of a session server that is gone are
    removed by the data servers: then the client was lost with that server."""
    at, end = burst[0].at, burst[-1].at
    back = [fact.at for fact in facts if fact.what in (What.PUBLISHED, What.RETURNED) and fact.at > end]
    if servers.names.get(burst[0].node, "").startswith("session-"):
        waited = _SESSION.client_lease_seconds if back else _SESSION.linger_seconds
        return max(0.0, at - waited), min(back, default=None)
    takers = [fact.node for fact in facts if fact.what is not What.EXPIRED and fact.at <= at]
    died = servers.death_of(takers[-1], at) if takers else None
    return max(0.0, at - _DATA.session_grace_seconds) if died is None else died, min(back, default=None)


@dataclass
class SeededClients:
    """The clients of a scenario: first those that are there from the beginning, then those that watch, then those that
    come later."""

    initial: list[IncidentClient] = field(default_factory=list)
    later: list[IncidentClient] = field(default_factory=list)
    actions: list[RecordedAction] = field(default_factory=list)

    @classmethod
    def of(cls, histories: Sequence[ClientHistory], end: float) -> SeededClients:
        """``end``: of the incident, in seconds."""
        seeded = cls()
        there = [history for history in histories if history.came_at is None]
        coming = [history for history in histories if history.came_at is not None]
        seeded.initial = [*(_as_client(history) for history in there), *[WATCHER] * WATCHERS]
        seeded.later = [_as_client(history) for history in coming]
        for number, history in enumerate(there, 1):
            seeded._act(f"client-{number}", history, end)
        for number, history in enumerate(coming, len(seeded.initial) + 1):
            seeded._act(f"client-{number}", history, end)
        seeded.actions.sort(key=lambda action: action.at)
        return seeded

    def _act(self, node: str, history: ClientHistory, end: float) -> None:
        spans = [(FaultKind.ADD_CLIENT, history.came_at, history.came_at)] if history.came_at is not None else []
        for since, until in history.lost:
            kind = FaultKind.CRASH_CLIENT if until is None else FaultKind.PAUSE_CLIENT
            spans.append((kind, max(since, history.came_at or 0.0), end if until is None else until))
        for kind, since, until in spans:
            seconds = round(max(SHORTEST_SECONDS, until - since), 3)
            action = RecordedAction(
                at=round(since, 3), kind=kind, node=node, seconds=seconds, recorded_as=history.client
            )
            self.actions.append(action)


def _as_client(history: ClientHistory) -> IncidentClient:
    return IncidentClient(publishes=history.publishes, loses=history.loses, recorded_as=history.client)
