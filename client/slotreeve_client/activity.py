"""What the servers of a cluster do: rates from two samples of their counters. Pure, but for :func:`take_sample`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from slotreeve.errors import SlotreeveError
from slotreeve.model.loads import SlotLoad
from slotreeve.ports import Transport

from slotreeve_client.administration import counters
from slotreeve_client.condition import ClusterCondition, cluster_condition

PUBLISHES, PUSHES, CHANGES = "publishes", "pushes", "changes_sent"
"""Counters of session servers, the first two, and of data servers."""
AGE_MS = "push_age_p99_ms"
REGISTRATIONS, LED, CLIENTS, QUEUE, LAG_MS = "registrations", "slots_led", "clients", "writes_waiting", "loop_lag_ms"
"""What servers hold now."""
TOTALS = ("publishes", "pushes", "changes", "registrations", "clients", "queue")
"""Figures of :class:`ServerActivity` whose sums say something of the cluster."""


@dataclass(frozen=True)
class Told:
    """What one server told.

    Attributes:
        at: when, in seconds on the clock of whoever asked.
        counters: what it counts.
        process_id: of its process; empty where that is not known.
    """

    at: float
    counters: Mapping[str, int]
    process_id: str = ""


@dataclass(frozen=True)
class Sample:
    """A cluster at one moment: its condition, and what each server told that answered, by name."""

    condition: ClusterCondition
    told: Mapping[str, Told] = field(default_factory=dict)


@dataclass(frozen=True)
class ServerActivity:
    """One server. Figures are None where its role has no such thing, it does not answer, or there is no earlier sample.

    Attributes:
        name, role, state: of the server; see :meth:`ClusterCondition.states`.
        publishes, pushes, changes: a second, on average since the earlier sample.
        registrations, leads, clients: that it holds.
        queue: registrations that wait for a data server.
        lag_ms: the largest lag of its event loop in the last seconds, in milliseconds.
        age_ms: 99 of 100 changes of the last minutes were pushed within so many milliseconds.
    """

    name: str
    role: str
    state: str
    publishes: float | None = None
    pushes: float | None = None
    changes: float | None = None
    registrations: int | None = None
    leads: int | None = None
    clients: int | None = None
    queue: int | None = None
    lag_ms: int | None = None
    age_ms: int | None = None


@dataclass(frozen=True)
class BusySlot:
    """A slot that takes many writes, with its leader."""

    slot: int
    leader: str | None
    load: SlotLoad


@dataclass(frozen=True)
class Activity:
    """What a cluster does, between two samples.

    Attributes:
        leader, term: of the meta servers; None while none leads.
        servers: meta, then data, then session servers.
        busiest: the slots that take the most writes, the busiest first.
        problems: what is not as it should be, in sentences.
    """

    leader: str | None
    term: int | None
    servers: list[ServerActivity]
    busiest: list[BusySlot]
    problems: list[str]

    def total(self, figure: str) -> float | None:
        """The sum of a figure of :class:`ServerActivity` over the servers that have it; None: none has."""
        values = [value for server in self.servers if (value := getattr(server, figure)) is not None]
        return sum(values) if values else None


def rate(before: Told | None, after: Told | None, counter: str) -> float | None:
    """How fast a counter rose, a second. Never below 0: a server that was started again counts from 0, so what it has
    counted is all since then. None: one of the samples lacks the server or the counter, or no time lies between."""
    if before is None or after is None or after.at <= before.at:
        return None
    earlier, later = before.counters.get(counter), after.counters.get(counter)
    if earlier is None or later is None:
        return None
    is_another = later < earlier or before.process_id != after.process_id
    return (later if is_another else later - earlier) / (after.at - before.at)


def activity(before: Sample | None, after: Sample) -> Activity:
    """What happened from ``before`` to ``after``; without ``before`` there are no rates."""
    condition = after.condition
    leader, view = condition.leader, condition.view
    nodes = [] if view is None else [*view.data, *view.sessions]
    states = condition.states()
    rows = [("meta", meta.name, meta.state) for meta in condition.metas]
    rows += [(str(node.role), node.name, states.get(node.name, "joins")) for node in nodes]
    known = {} if condition.members is None else condition.members.busiest
    leaders = {} if view is None else {slot.id: slot.leader for slot in view.table.slots}
    return Activity(
        leader=None if leader is None else leader.name,
        term=None if leader is None or leader.known is None else leader.known.term,
        servers=[_server(before, after, *row) for row in rows],
        busiest=[BusySlot(number, leaders.get(number), load) for number, load in known.items()],
        problems=condition.problems(),
    )


def _server(before: Sample | None, after: Sample, role: str, name: str, state: str) -> ServerActivity:
    told, earlier = after.told.get(name), None if before is None else before.told.get(name)
    held: Mapping[str, int] = {} if told is None else told.counters
    return ServerActivity(
        name,
        role,
        state,
        publishes=rate(earlier, told, PUBLISHES),
        pushes=rate(earlier, told, PUSHES),
        changes=rate(earlier, told, CHANGES),
        registrations=held.get(REGISTRATIONS),
        leads=held.get(LED),
        clients=held.get(CLIENTS),
        queue=held.get(QUEUE),
        lag_ms=held.get(LAG_MS),
        age_ms=held.get(AGE_MS),
    )


async def take_sample(
    transport: Transport,
    cluster: str,
    addresses: Iterable[str],
    now: Callable[[], float],
    before: Sample | None = None,
) -> Sample:
    """Ask every server, all at once. ``now`` tells the time in seconds, on a clock that is never set. ``before``: the
    last sample; a slot table that has not changed since does not travel again.

    Raises:
        Unreachable: no meta server answers at all.
    """
    known = None if before is None else before.condition.view
    condition = await cluster_condition(transport, cluster, addresses, now, known)
    view = condition.view
    nodes = {} if view is None else {node.name: node for node in [*view.data, *view.sessions]}
    told = {name: Told(condition.held_at[name], held, nodes[name].process_id) for name, held in condition.held.items()}

    async def ask(name: str, address: str) -> None:
        try:
            found = await counters(transport, cluster, address)
        except SlotreeveError:
            return
        told[name] = Told(now(), found)

    await asyncio.gather(*(ask(meta.name, meta.address) for meta in condition.metas if meta.known is not None))
    return Sample(condition, told)
