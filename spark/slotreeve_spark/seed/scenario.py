"""An incident as a scenario of the simulator, bounded, with a list of what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from slotreeve.errors import ConfigError
from slotreeve.model.data_info import short_name
from slotreeve_simulator.recorded import LONGEST_SECONDS, MOST_ACTIONS, Recording, ServiceChurn, Symptom
from slotreeve_simulator.scenario import FaultPlan, Nodes, Scenario

from slotreeve_spark.seed.clients import ClientHistory, SeededClients, client_histories
from slotreeve_spark.seed.facts import MOST_FACTS, Incident, SeedLimits, What
from slotreeve_spark.seed.servers import seeded_servers

MOST_SLOTS = 256
LOST_WITHIN_SECONDS = 10.0
"""Instances of a service that expire within so long of each other are one symptom."""
EARLIER_SECONDS, LATER_SECONDS = 5.0, 10.0
"""The symptom may come so much earlier or later in the simulation: the time of a death is concluded."""


@dataclass(frozen=True)
class Seed:
    """A scenario, and sentences about what it lacks of the recording."""

    scenario: Scenario
    left_out: tuple[str, ...]


def must_be_a_span(began: datetime, ended: datetime) -> tuple[datetime, datetime]:
    """Both moments. Raises ConfigError: the second one is not later than the first, or more than an hour later."""
    if not 0 < (ended - began).total_seconds() <= LONGEST_SECONDS:
        raise ConfigError(
            f"--from {began.isoformat()} --to {ended.isoformat()}: the end must be later, at most an hour"
        )
    return began, ended


def seed_of(incident: Incident, limits: SeedLimits, service: str | None = None) -> Seed:
    """The scenario of an incident. ``service`` (a data info id): the symptom is its loss; default: the service that
    lost most instances within ten seconds. Without any loss the scenario has no symptom.

    Raises:
        ConfigError: nothing of ``service`` expired.
    """
    left_out = _LeftOut(incident)
    servers = seeded_servers(incident)
    whole = client_histories(incident, servers)
    histories = _bounded(whole, limits.registrations, left_out)
    names = [short_name(counts.service) for counts in incident.services] or ["service-1"]
    clients = SeededClients.of(histories, incident.seconds)
    actions = sorted([*servers.actions, *clients.actions], key=lambda action: action.at)
    actions = [action for action in actions if action.at < incident.seconds]
    if len(actions) > MOST_ACTIONS:
        left_out.add(f"the last {len(actions) - MOST_ACTIONS:,} of {len(actions):,} joins and deaths")
    recording = Recording(
        services=tuple(names),
        clients=(*clients.initial, *clients.later),
        actions=tuple(actions[:MOST_ACTIONS]),
        churn=_churn(incident, whole, limits.calls, left_out),
    )
    scenario = Scenario(
        name="incident",
        description=f"recorded from {incident.began} to {incident.ended}",
        minutes=round(incident.seconds / 60, 4),
        nodes=Nodes(
            meta=servers.sizes["meta"],
            data=servers.sizes["data"],
            session=servers.sizes["session"],
            clients=len(clients.initial),
            settings=_settings(incident, left_out),
        ),
        faults=FaultPlan(storm_seconds=round(incident.seconds, 3)),
        recorded=recording,
        symptom=_symptom(histories, incident.seconds, service),
    )
    return Seed(scenario, tuple(left_out.lines))


class _LeftOut:
    """Sentences about what a scenario lacks."""

    def __init__(self, incident: Incident) -> None:
        self.lines: list[str] = []
        for what, kept, there in (
            ("services", len(incident.services), incident.all_services),
            ("clients of these services", len(incident.clients), incident.all_clients),
        ):
            if there > kept:
                self.add(f"{there - kept:,} of {there:,} {what}: those that lost and changed least")
        if len(incident.facts) >= MOST_FACTS:
            self.add(f"what happened to clients after {incident.facts[-1].at:.1f} s")

    def add(self, line: str) -> None:
        """One more."""
        self.lines.append(line)


def _bounded(histories: Sequence[ClientHistory], most: int, left_out: _LeftOut) -> list[ClientHistory]:
    """At most so many registrations of all clients; the largest groups are cut first."""
    counts = [count for history in histories for count in history.publishes.values()]
    cap = max(counts, default=0)
    while cap > 1 and sum(min(cap, count) for count in counts) > most:
        cap = cap * 3 // 4
    kept = sum(min(cap, count) for count in counts)
    if kept < sum(counts):
        left_out.add(
            f"{sum(counts) - kept:,} of {sum(counts):,} registrations: all beyond {cap} of a client and service"
        )
    return [history.bounded(cap) for history in histories]


def _churn(
    incident: Incident, histories: Sequence[ClientHistory], most: int, left_out: _LeftOut
) -> tuple[ServiceChurn, ...]:
    """The changes of each service. What clients published when they came is no churn."""
    came: dict[str, int] = {}
    for history in histories:
        if history.came_at is not None:
            for service, count in history.publishes.items():
                came[service] = came.get(service, 0) + count
    rows = []
    for counts in incident.services:
        name, number = short_name(counts.service), counts.counts
        new = max(0, number.get(What.PUBLISHED, 0) - came.get(name, 0))
        rows.append((name, new, number.get(What.REPUBLISHED, 0), number.get(What.UNPUBLISHED, 0)))
    calls = sum(sum(row[1:]) for row in rows)
    share = min(1.0, most / calls) if calls else 1.0
    churn = [
        ServiceChurn(
            service=name,
            publishes=int(new * share),
            republishes=int(again * share),
            unpublishes=int(ended * share),
        )
        for name, new, again, ended in rows
    ]
    kept = sum(each.publishes + each.republishes + each.unpublishes for each in churn)
    if kept < calls:
        left_out.add(f"{calls - kept:,} of {calls:,} calls, of each service the same share")
    return tuple(each for each in churn if each.publishes or each.republishes or each.unpublishes)


def _settings(incident: Incident, left_out: _LeftOut) -> dict[str, int | float | str | bool]:
    settings: dict[str, int | float | str | bool] = {}
    if incident.slots is not None:
        settings["cluster.slots"] = min(incident.slots, MOST_SLOTS)
        if incident.slots > MOST_SLOTS:
            left_out.add(f"{incident.slots - MOST_SLOTS:,} of {incident.slots:,} slots")
    if incident.replicas is not None:
        settings["cluster.replicas"] = incident.replicas
    return settings


def _symptom(histories: Sequence[ClientHistory], seconds: float, service: str | None) -> Symptom | None:
    """The largest loss of one service within ten seconds; of several as large the first one."""
    wanted = None if service is None else short_name(service)
    losses = sorted(
        (loss.at, loss.service, loss.count)
        for history in histories
        for loss in history.losses
        if wanted in (None, loss.service)
    )
    best: tuple[int, float, str, float] | None = None
    for began, name, _ in losses:
        group = [(at, count) for at, its, count in losses if its == name and began <= at <= began + LOST_WITHIN_SECONDS]
        lost = sum(count for _, count in group)
        if best is None or lost > best[0]:
            best = lost, began, name, group[-1][0]
    if best is None:
        if wanted is not None:
            raise ConfigError(f"--service {wanted}: no instance of it expired between the two moments")
        return None
    lost, began, name, ended = best
    return Symptom(
        service=name,
        lost=lost,
        within_seconds=LOST_WITHIN_SECONDS,
        from_seconds=round(max(0.0, began - EARLIER_SECONDS), 3),
        until_seconds=round(min(ended + LATER_SECONDS, seconds + LATER_SECONDS), 3),
    )
