"""What a cluster went through, as tables of a scenario: clients, joins, deaths and churn, and the symptom to look for.

::

    [[recorded.actions]]
    at = 12.4
    kind = "crash_client"
    node = "client-3"
    seconds = 40.0

    [symptom]
    service = "com.example.Payments"
    lost = 5
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator
from slotreeve.model.data_info import MAX_LENGTH

from slotreeve_simulator.fault_kinds import FaultKind

LONGEST_SECONDS = 3_600.0
MOST_ACTIONS, MOST_CLIENTS, MOST_SERVICES = 1_000, 1_000, 1_000
MOST_CALLS = 20_000
MOST_REGISTRATIONS = 20_000

STRUCK_ROLES: dict[FaultKind, frozenset[str]] = {
    FaultKind.CRASH_META: frozenset({"meta"}),
    FaultKind.CRASH_DATA: frozenset({"data"}),
    FaultKind.CRASH_SESSION: frozenset({"session"}),
    FaultKind.CRASH_CLIENT: frozenset({"client"}),
    FaultKind.CLOSE_CLIENT: frozenset({"client"}),
    FaultKind.STOP_SERVER: frozenset({"data", "session"}),
    FaultKind.PAUSE: frozenset({"meta", "data", "session"}),
    FaultKind.PAUSE_CLIENT: frozenset({"client"}),
    FaultKind.CUT_CLIENT: frozenset({"client"}),
    FaultKind.ADD_DATA: frozenset({"data"}),
    FaultKind.ADD_SESSION: frozenset({"session"}),
    FaultKind.ADD_CLIENT: frozenset({"client"}),
}
"""The kinds of faults that a recorded action may have, and the roles of the process that each strikes."""
ADDING = frozenset({FaultKind.ADD_DATA, FaultKind.ADD_SESSION, FaultKind.ADD_CLIENT})

Count = Annotated[int, Field(ge=0, le=MOST_CALLS)]
ServiceName = Annotated[str, Field(min_length=1, max_length=MAX_LENGTH)]


class ScenarioTable(BaseModel):
    """A table of a scenario file. A key that is not known is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class RecordedAction(ScenarioTable):
    """Something that happened to one process.

    Attributes:
        at: seconds since the beginning of the recording.
        node: the process in the simulation: ``data-1``, ``client-3``, ...
        seconds: how long it lasted, until the process was back.
        recorded_as: the name of the process in the recording, for people.
    """

    at: float = Field(ge=0, le=LONGEST_SECONDS)
    kind: FaultKind
    node: str = Field(pattern=r"^(meta|data|session|client)-[1-9][0-9]{0,5}$")
    seconds: float = Field(default=1.0, gt=0, le=LONGEST_SECONDS)
    recorded_as: str = ""

    @property
    def number(self) -> int:
        """The number in the name of the process, from 1."""
        return int(self.node.rpartition("-")[2])

    @model_validator(mode="after")
    def _strikes_a_process_that_it_can(self) -> RecordedAction:
        roles = STRUCK_ROLES.get(self.kind)
        if roles is None:
            raise ValueError(f"{self.kind} cannot be recorded; kinds are {', '.join(STRUCK_ROLES)}")
        if self.node.partition("-")[0] not in roles:
            raise ValueError(f"{self.kind} cannot strike {self.node}, only a process of {' or '.join(sorted(roles))}")
        return self


class IncidentClient(ScenarioTable):
    """The client of the same place: the first one is ``client-1``.

    Attributes:
        publishes: number of registrations by service, which it makes at its start.
        loses: how many of them, by service, expired in the recording. No call of the churn unpublishes these.
        subscribes: services that it subscribes to at its start.
        subscribes_to_all: it subscribes to every service of the recording.
        recorded_as: its id in the recording, for people.
    """

    publishes: dict[ServiceName, Count] = {}
    loses: dict[ServiceName, Count] = {}
    subscribes: tuple[ServiceName, ...] = ()
    subscribes_to_all: bool = False
    recorded_as: str = ""


class ServiceChurn(ScenarioTable):
    """Number of calls for one service in the whole recording. Clients that publish it make them, at even rates; one
    that has nothing left to change or to unpublish makes none."""

    service: ServiceName
    publishes: Count = 0
    republishes: Count = 0
    unpublishes: Count = 0


class Recording(ScenarioTable):
    """An incident: it takes the place of the random faults and calls of a scenario."""

    services: tuple[ServiceName, ...] = Field(min_length=1, max_length=MOST_SERVICES)
    clients: tuple[IncidentClient, ...] = Field(min_length=1, max_length=MOST_CLIENTS)
    actions: tuple[RecordedAction, ...] = Field(default=(), max_length=MOST_ACTIONS)
    churn: tuple[ServiceChurn, ...] = Field(default=(), max_length=MOST_SERVICES)

    def publishers_of(self, service: str) -> list[int]:
        """Places of the clients that publish a service, from 0; of all clients where none does."""
        found = [place for place, client in enumerate(self.clients) if client.publishes.get(service)]
        return found or list(range(len(self.clients)))

    @model_validator(mode="after")
    def _names_each_service_once(self) -> Recording:
        for service, times in Counter(self.services).items():
            if times > 1:
                raise ValueError(f"services has {service!r} twice")
        named = [name for client in self.clients for name in (*client.publishes, *client.loses, *client.subscribes)]
        for name in [*named, *(churn.service for churn in self.churn)]:
            if name not in self.services:
                raise ValueError(f"{name!r} is published, subscribed or changed, and is not among services")
        return self

    @model_validator(mode="after")
    def _is_small_enough_to_play(self) -> Recording:
        registrations = sum(sum(client.publishes.values()) for client in self.clients)
        if registrations > MOST_REGISTRATIONS:
            raise ValueError(f"clients publish {registrations:,} registrations; {MOST_REGISTRATIONS:,} are allowed")
        calls = sum(churn.publishes + churn.republishes + churn.unpublishes for churn in self.churn)
        if calls > MOST_CALLS:
            raise ValueError(f"churn has {calls:,} calls; {MOST_CALLS:,} are allowed")
        return self

    def problem(self, sizes: dict[str, int], seconds: float) -> str | None:
        """Why it does not fit into a simulation with so many processes by role and so many seconds; None if it does."""
        added = {action.node for action in self.actions if action.kind in ADDING}
        for place, action in enumerate(self.actions):
            where = f"recorded.actions[{place}]"
            role = action.node.partition("-")[0]
            exists = action.number <= sizes[role]
            if action.at > seconds:
                return f"{where}.at: {action.at:g} is after the end, [faults] storm_seconds = {seconds:g}"
            if action.kind in ADDING and exists:
                return f"{where}.node: {action.node} is there from the beginning, [nodes] has {sizes[role]} of its role"
            if action.kind not in ADDING and not exists and action.node not in added:
                return f"{where}.node: there is no {action.node}, and no action adds it"
        clients = sizes["client"] + sum(node.startswith("client-") for node in added)
        if len(self.clients) > clients:
            return f"recorded.clients: {len(self.clients)} are described, but there are {clients}, added ones included"
        return None


class Symptom(ScenarioTable):
    """What subscribers saw: a service lost instances that nobody had unpublished. A run that shows it ends there, and
    is shrunk as one that breaks an invariant.

    Attributes:
        service: the service.
        lost: a subscriber must see at least so many instances disappear ...
        within_seconds: ... within this time.
        from_seconds, until_seconds: the time of the recording in which they must disappear.
    """

    service: ServiceName
    lost: int = Field(ge=1)
    within_seconds: float = Field(default=10.0, gt=0)
    from_seconds: float = Field(default=0.0, ge=0)
    until_seconds: float = Field(default=LONGEST_SECONDS, gt=0)

    def __str__(self) -> str:
        return (
            f"{self.service} lose {self.lost} or more instances within {self.within_seconds:g} s, between "
            f"{self.from_seconds:g} s and {self.until_seconds:g} s of the recording"
        )

    @model_validator(mode="after")
    def _ends_after_it_begins(self) -> Symptom:
        if self.until_seconds <= self.from_seconds:
            raise ValueError("until_seconds must be greater than from_seconds")
        return self
