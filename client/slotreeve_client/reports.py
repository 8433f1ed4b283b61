"""What operators read of a cluster, as documents: the same on the command line and through a gateway. Pure."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from slotreeve_protocol.meta_messages import View
from slotreeve_protocol.people_messages import ClientIs

from slotreeve_client.audience import AllClients, AllSubscribers, AllUses
from slotreeve_client.condition import ClusterCondition


class ServerReport(msgspec.Struct, frozen=True, kw_only=True):
    """One server. A meta server has no zone, weight, slots or clients.

    Attributes:
        name, role, address: which one it is.
        state: in some words; ``well`` where there is nothing to say.
        zone, weight: as it was configured.
        leads, follows: number of slots.
        clients: number of connected clients; None if it does not tell, or has none to tell of.
        silent_s: seconds since the meta leader heard it last.
        process_id: differs after each start of the process.
    """

    name: str
    role: str
    state: str
    address: str
    zone: str | None = None
    weight: float | None = None
    leads: int | None = None
    follows: int | None = None
    clients: int | None = None
    silent_s: float | None = None
    process_id: str | None = None


class ClusterReport(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster at one moment.

    Attributes:
        well: whether there is no problem.
        leader, term, election: the meta leader, its term, and the election that is in use; None while none leads.
        slots: number of slots.
        table_epoch: of the slot table.
        is_planning: the next table is being made.
        problems: what is not as it should be, in sentences, the worst first.
        news: who left in the last hour, in sentences.
        servers: meta servers, then data and session servers.
    """

    well: bool
    leader: str | None
    term: int | None
    election: str | None
    slots: int
    table_epoch: int | None
    is_planning: bool
    problems: list[str]
    news: list[str]
    servers: list[ServerReport]


class SlotReport(msgspec.Struct, frozen=True):
    """One slot: its leader, the epoch of the table that made it the leader, the followers, which are in sync, and the
    learners, which copy it."""

    slot: int
    leader: str | None
    leader_epoch: int
    followers: tuple[str, ...]
    learners: tuple[str, ...] = ()


class PlacedServer(msgspec.Struct, frozen=True):
    """A data server as assigners and balancers see it."""

    name: str
    zone: str
    weight: float


class TableReport(msgspec.Struct, frozen=True):
    """The slot table with what a dry run of a plugin needs.

    Attributes:
        epoch, term, revision: of the table, of the commit, and of the view.
        servers: the data servers.
        replicas: number of copies of each slot, with the leader's; None: not known.
        slots: the slots in their order.
    """

    epoch: int
    term: int
    revision: int
    servers: list[PlacedServer]
    replicas: int | None
    slots: list[SlotReport]


Silent = Annotated[dict[str, str], Meta(description="Session servers that did not tell, with the reason.")]
Next = Annotated[str | None, Meta(description="Ask again with this as after; null: no others follow.")]
Late = Annotated[float, Meta(description="How many seconds its callbacks were late, by its last ping.")]
Unread = Annotated[int, Meta(description="Pushes whose receipt has not come.")]


class ClientReport(msgspec.Struct, frozen=True):
    """A client that is connected to a session server."""

    client: Annotated[str, Meta(description="Its id.")]
    address: str
    server: str
    connected_s: Annotated[float, Meta(description="For so many seconds.")]
    records: Annotated[int, Meta(description="Number of its registrations.")]
    not_stored: Annotated[int, Meta(description="Those that the leaders of their slots have not stored yet.")]
    services: Annotated[int, Meta(description="Number of services that it subscribes to.")]
    unread: Unread
    hidden: Annotated[bool, Meta(description="An order hides what it publishes.")]
    late_s: Late = 0.0
    application: Annotated[str, Meta(description="As it says it is called; empty: it does not say.")] = ""


class ClientsReport(msgspec.Struct, frozen=True):
    """Connected clients."""

    clients: list[ClientReport]
    silent: Silent
    next: Next = None


class ApplicationReport(msgspec.Struct, frozen=True):
    """An application, by its connected clients."""

    application: Annotated[str, Meta(description="As its clients say it is called; empty: they do not say.")]
    clients: Annotated[int, Meta(description="Number of connected clients.")]
    records: Annotated[int, Meta(description="Number of their registrations.")]
    subscriptions: Annotated[int, Meta(description="Number of their subscriptions.")]


class ApplicationsReport(msgspec.Struct, frozen=True):
    """The applications of all connected clients."""

    applications: list[ApplicationReport]
    silent: Silent


class UseReport(msgspec.Struct, frozen=True):
    """What a client of an application does with a service."""

    service: Annotated[str, Meta(description="The service, as a whole data info id.")]
    publishes: Annotated[int, Meta(description="Number of its registrations of the service.")]
    subscribes: bool
    client: Annotated[str, Meta(description="The id of the client.")]
    address: str
    server: str


class UsesReport(msgspec.Struct, frozen=True):
    """What an application publishes and subscribes to."""

    uses: list[UseReport]
    silent: Silent
    next: Next = None


class SubscriberReport(msgspec.Struct, frozen=True):
    """A subscriber of a service."""

    client: Annotated[str, Meta(description="Its id.")]
    address: str
    server: str
    scope: Annotated[str, Meta(description="zone: providers of its zone; data_center: all of them.")]
    is_current: Annotated[bool, Meta(description="It was sent the newest version, and has read it.")]
    sent: Annotated[int, Meta(description="The version that the last push brings it to.")]
    unread: Unread
    late_s: Late = 0.0


class SubscribersReport(msgspec.Struct, frozen=True):
    """Subscribers of a service."""

    newest: Annotated[int, Meta(description="The newest version that a session server has.")]
    subscribers: list[SubscriberReport]
    silent: Silent
    next: Next = None


def server_reports(found: ClusterCondition) -> list[ServerReport]:
    """Meta servers, then data and session servers."""
    metas = [ServerReport(name=m.name, role="meta", state=m.state, address=m.address) for m in found.metas]
    if found.view is None:
        return metas
    heard = {} if found.members is None else {each.node.name: each.heard_seconds for each in found.members.members}
    states, slots = found.states(), found.view.table.slots
    return metas + [
        ServerReport(
            name=node.name,
            role=str(node.role),
            state=states.get(node.name, "joins"),
            address=node.address,
            zone=node.zone,
            weight=node.weight,
            leads=sum(slot.leader == node.name for slot in slots),
            follows=sum(node.name in slot.holders[1:] for slot in slots),
            clients=found.held.get(node.name, {}).get("clients"),
            silent_s=None if node.name not in heard else round(heard[node.name], 1),
            process_id=node.process_id,
        )
        for node in [*found.view.data, *found.view.sessions]
    ]


def cluster_report(found: ClusterCondition) -> ClusterReport:
    """The whole cluster."""
    leader, view, problems = found.leader, found.view, found.problems()
    known = None if leader is None else leader.known
    return ClusterReport(
        well=not problems,
        leader=None if leader is None else leader.name,
        term=None if known is None else known.term,
        election=None if known is None else known.use,
        slots=0 if view is None else len(view.table.slots),
        table_epoch=None if view is None else view.table.epoch,
        is_planning=found.members is not None and found.members.is_planning,
        problems=problems,
        news=found.news(),
        servers=server_reports(found),
    )


def table_report(view: View) -> TableReport:
    """The slot table."""
    return TableReport(
        view.table.epoch,
        view.term,
        view.revision,
        [PlacedServer(node.name, node.zone, node.weight) for node in view.data],
        view.facts.replicas if view.facts else None,
        [SlotReport(s.id, s.leader, s.leader_epoch, s.followers, s.learners) for s in view.table.slots],
    )


def clients_report(found: AllClients, prefix: str = "", application: str | None = None) -> ClientsReport:
    """The clients whose id or address begins with ``prefix``, by session server; only those of ``application``, if that
    is given."""
    clients = [
        ClientReport(
            one.id,
            one.address,
            server,
            round(one.connected_seconds, 1),
            one.records,
            one.unacknowledged,
            one.services,
            one.unread,
            one.is_off,
            round(one.late_seconds, 1),
            one.application,
        )
        for server, listed in sorted(found.clients.items())
        for one in listed
        if one.id.startswith(prefix) or one.address.startswith(prefix)
        if application is None or one.application == application
    ]
    return ClientsReport(clients, dict(found.silent))


def applications_report(found: AllClients) -> ApplicationsReport:
    """The applications of these clients, by name."""
    clients: dict[str, list[ClientIs]] = {}
    for listed in found.clients.values():
        for one in listed:
            clients.setdefault(one.application, []).append(one)
    applications = [
        ApplicationReport(name, len(its), sum(one.records for one in its), sum(one.services for one in its))
        for name, its in sorted(clients.items())
    ]
    return ApplicationsReport(applications, dict(found.silent))


def uses_report(found: AllUses) -> UsesReport:
    """What the clients of an application do with services, by service."""
    uses = [
        UseReport(one.data_info_id, one.publishes, one.subscribes, one.client, one.address, server)
        for server, listed in found.uses.items()
        for one in listed
    ]
    return UsesReport(sorted(uses, key=lambda use: (use.service, use.client, use.server)), dict(found.silent))


def subscribers_report(found: AllSubscribers) -> SubscribersReport:
    """The subscribers, by session server."""
    subscribers = [
        SubscriberReport(
            one.id,
            one.address,
            server,
            one.scope.name.lower(),
            found.is_current(one),
            one.sent,
            one.unread,
            round(one.late_seconds, 1),
        )
        for server, listed in sorted(found.subscribers.items())
        for one in listed
    ]
    return SubscribersReport(found.newest, subscribers, dict(found.silent))
