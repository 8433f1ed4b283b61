"""What the event log has about one incident, small enough for the driver. Times are seconds since its beginning."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MOST_FACTS = 20_000
"""Rows about clients that are read."""


class What(StrEnum):
    """What happened to registrations."""

    ALIVE = "alive"
    """They were there when the incident began."""
    PUBLISHED = "published"
    """New ones."""
    REPUBLISHED = "republished"
    """Published again under a higher version."""
    RETURNED = "returned"
    """Sent again under the version that they had: their client has connected to another session server."""
    UNPUBLISHED = "unpublished"
    EXPIRED = "expired"
    """Removed because their client was gone, or had closed."""


@dataclass(frozen=True)
class SeedLimits:
    """How large a scenario may become.

    Attributes:
        services: those that lost most and changed most are kept.
        clients: those that lost most and publish most are kept.
        registrations: of all clients together at their start.
        calls: of the churn, all services together.
    """

    services: int = 30
    clients: int = 40
    registrations: int = 2_000
    calls: int = 2_000


@dataclass(frozen=True)
class MemberEvent:
    """A data or session server joined, or left for a ``reason``."""

    at: float
    joined: bool
    name: str
    role: str
    reason: str = ""


@dataclass(frozen=True)
class ProcessLife:
    """One process of a server: the times of its first and its last event."""

    node: str
    first: float
    last: float
    is_meta: bool = False
    is_session: bool = False


@dataclass(frozen=True)
class RecordedLeader:
    """From then on, this meta server led."""

    at: float
    leader: str


@dataclass(frozen=True)
class ServiceCounts:
    """Number of registrations of one service and the kept clients, by what happened to them."""

    service: str
    counts: dict[What, int]


@dataclass(frozen=True)
class RegistrationFact:
    """Something happened to ``count`` registrations of one client and service; ``node`` wrote it down."""

    at: float
    what: What
    client: str
    service: str
    node: str
    count: int = 1


@dataclass(frozen=True)
class Incident:
    """Everything that a scenario is made from.

    Attributes:
        seconds: its duration.
        began, ended: for people.
        members: of the whole history up to the end, in order.
        processes: of the whole history up to the end.
        leaders: the meta leaders, in order.
        slots, replicas: of the slot table; None where there was none.
        services: the kept ones, the most important one first.
        clients: ids of the kept ones, the most important one first.
        facts: about the kept clients and services, in order.
        all_services, all_clients: how many there were.
    """

    seconds: float
    began: str
    ended: str
    members: tuple[MemberEvent, ...] = ()
    processes: tuple[ProcessLife, ...] = ()
    leaders: tuple[RecordedLeader, ...] = ()
    slots: int | None = None
    replicas: int | None = None
    services: tuple[ServiceCounts, ...] = ()
    clients: tuple[str, ...] = ()
    facts: tuple[RegistrationFact, ...] = ()
    all_services: int = 0
    all_clients: int = 0
