"""A scenario: nodes, network, clocks, workload and faults of a simulation, as a small TOML file.

::

    name = "mixed"

    [nodes]
    data = 4

    [faults.kinds]
    crash_data = 3
    partition = 1
"""

from __future__ import annotations

import math
import tomllib
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator
from slotreeve.errors import ConfigError
from slotreeve_protocol.packets import ChannelLimits
from slotreeve_transport_memory.network import UNDER_WAY_PACKETS

from slotreeve_simulator.bounds import bound
from slotreeve_simulator.fault_kinds import GATEWAY_FAULTS, LATER_FAULTS, STORE_FAULTS, FaultKind
from slotreeve_simulator.recorded import LONGEST_SECONDS, Recording, ScenarioTable, Symptom
from slotreeve_simulator.states import ClusterState


def _rising(span: tuple[float, float]) -> tuple[float, float]:
    if not 0 <= span[0] <= span[1]:
        raise ValueError("two numbers, the smaller one first")
    return span


def _are_bounds(bounds: dict[str, int]) -> dict[str, int]:
    for name in bounds:
        bound(name)
    return bounds


Span = Annotated[tuple[float, float], AfterValidator(_rising)]
"""A range: from, to."""


class Nodes(ScenarioTable):
    """The number of processes of each kind, and their common settings by dotted key (``"cluster.slots" = 32``)."""

    meta: int = Field(default=3, ge=1)
    data: int = Field(default=3, ge=1)
    session: int = Field(default=2, ge=1)
    clients: int = Field(default=6, ge=1)
    gateway: int = Field(default=0, ge=0, description="Through these the callers of leases call; 0: as clients.")
    election: Literal["fle", "lock"] = Field(
        default="fle", description="lock: the election by a row of a database, on a simulated database."
    )
    settings: dict[str, int | float | str | bool] = Field(default={})
    client_options: dict[str, int | float | str | bool] = Field(
        default={}, description="Options of the clients; with a small window a replay takes long."
    )

    def names(self) -> dict[str, list[str]]:
        """The processes by role: ``data-1``, ``data-2``, ..."""
        counts = {
            "meta": self.meta,
            "data": self.data,
            "session": self.session,
            "client": self.clients,
            "gateway": self.gateway,
        }
        return {role: [f"{role}-{number + 1}" for number in range(count)] for role, count in counts.items()}

    @property
    def processes(self) -> tuple[str, ...]:
        """All processes."""
        return tuple(name for names in self.names().values() for name in names)


class NetworkPlan(ScenarioTable):
    """Travel time of packets, drawn for each packet. Packets of one connection stay in order."""

    delay_ms: Span = (0.1, 3.0)
    bytes_per_second: float = Field(
        default=math.inf, gt=0, description="How fast each direction of a connection takes bytes."
    )
    under_way_packets: int = Field(
        default=UNDER_WAY_PACKETS, ge=1, description="Packets that each direction of a connection holds."
    )
    queue_bytes: int = Field(
        default=ChannelLimits.queue_bytes,
        ge=1024,
        description="Bytes of further messages that wait for a connection; what does not fit is refused to the sender.",
    )


class Clocks(ScenarioTable):
    """Errors of each server's clocks: up to ``wall_skew_ms`` of the wall clock, up to ``drift`` of the speed."""

    wall_skew_ms: int = Field(default=3_600_000, ge=0)
    drift: float = Field(default=0.009, ge=0, lt=0.01, description="The product tolerates 2 % between any two clocks.")


class ProcessorPlan(ScenarioTable):
    """How slow the processors are: handling a message takes ``slowness`` times as long as on the machine on which the
    costs were measured."""

    slowness: float = Field(default=1.0, ge=0)


class DiskPlan(ScenarioTable):
    """The disks of the meta servers."""

    sync_ms: float = Field(default=0.0, ge=0, description="How long a sync of a healthy disk takes.")


class WorkloadPlan(ScenarioTable):
    """The calls of the clients: first all publish, then ``calls_per_second`` changes, subscriptions and reads in
    total."""

    services: int = Field(default=30, ge=1)
    publishers: int = Field(default=90, ge=0)
    subscriptions: int = Field(default=60, ge=0)
    calls_per_second: float = Field(default=6.0, ge=0)
    lease_callers: int = Field(default=0, ge=0, description="Callers that register, renew, end and abandon leases.")
    steady_callers: int = Field(
        default=0, ge=0, description="So many of the callers renew only: they end and abandon no lease."
    )
    mistakes_per_second: float = Field(
        default=0.0,
        ge=0,
        description="Calls with what no message can carry. Each must be refused, and harm nothing else.",
    )
    operator: bool = Field(
        default=False,
        description="In each storm an operator writes configuration that all clients watch, gives orders and changes "
        "live settings; after it he takes orders and settings back.",
    )
    state_clients: int = Field(
        default=0, ge=0, description="Clients that write and read the meta state; what they see must be linearizable."
    )


class FaultPlan(ScenarioTable):
    """The number, duration and kinds of faults. A run consists of storms. After each storm all faults end; the cluster
    must recover within ``heal_seconds`` and stay recovered for ``calm_seconds``. ``kinds`` are weights; each storm uses
    a few kinds."""

    storm_seconds: float = Field(default=15.0, gt=0)
    heal_seconds: float = Field(
        default=20.0, gt=0, description="The longest bound that ``slotreeve explain staleness`` states, and a little."
    )
    calm_seconds: float = Field(default=3.0, ge=0)
    per_storm: tuple[int, int] = (1, 7)
    kinds_per_storm: tuple[int, int] = (1, 4)
    lasting_seconds: Span = (0.02, 9.0)
    aims: tuple[ClusterState, ...] = Field(
        default=(), description="Each fault waits for one of these states; all kinds and states get their turn."
    )
    triggers: tuple[FaultKind, ...] = Field(
        default=(), description="Of an aimed storm: further faults, evenly spread, which bring the states about."
    )
    spare: tuple[Literal["sessions", "data", "holders", "lives", "nobody"], ...] = Field(
        default=(), description="What storms spare, see docs/simulator.md; without it, what suits the kinds of faults."
    )
    is_held: bool = Field(
        default=False,
        description="The brake is set to hold what is lost for longer than a storm lasts: no client may lose anything, "
        "also those that are struck.",
    )
    loses_state: bool = Field(
        default=False,
        description="At the end of a run the disks of all meta servers are lost, or set back to how they were at "
        "its beginning (election fle).",
    )
    kinds: dict[FaultKind, float] = Field(
        default={kind: 1.0 for kind in FaultKind if kind not in STORE_FAULTS | LATER_FAULTS}
    )


class Scenario(ScenarioTable):
    """One scenario. Every field has a default."""

    name: str = "scenario"
    description: str = ""
    minutes: float = Field(default=1.0, gt=0, description="Virtual minutes under faults, by default.")
    nodes: Nodes = Nodes()
    network: NetworkPlan = NetworkPlan()
    clocks: Clocks = Clocks()
    processors: ProcessorPlan = ProcessorPlan()
    disks: DiskPlan = DiskPlan()
    workload: WorkloadPlan = WorkloadPlan()
    faults: FaultPlan = FaultPlan()
    bounds: Annotated[dict[str, Annotated[int, Field(ge=1)]], AfterValidator(_are_bounds)] = Field(
        default={},
        description="Bounds of the product that are others in this run, by module and name: with few clients and "
        "records nothing reaches them as they are.",
    )
    recorded: Recording | None = None
    symptom: Symptom | None = None

    @property
    def services(self) -> int:
        """Number of services."""
        return self.workload.services if self.recorded is None else len(self.recorded.services)

    def service(self, number: int) -> str:
        """The name of a service by its number, from 0."""
        return f"service-{number + 1}" if self.recorded is None else self.recorded.services[number]

    @model_validator(mode="after")
    def _only_a_lock_has_a_store(self) -> Scenario:
        impossible = [kind for kind in self.faults.kinds if kind in STORE_FAULTS]
        if impossible and self.nodes.election != "lock":
            raise ValueError(f'{impossible[0]} needs a lock election: [nodes] election = "lock"')
        return self

    @model_validator(mode="after")
    def _only_fle_loses_its_state(self) -> Scenario:
        if self.faults.loses_state and self.nodes.election != "fle":
            raise ValueError("faults.loses_state: the state of a lock election is in its database; leave it out")
        return self

    @model_validator(mode="after")
    def _faults_of_gateways_need_gateways(self) -> Scenario:
        impossible = [kind for kind in self.faults.kinds if kind in GATEWAY_FAULTS]
        if impossible and not self.nodes.gateway:
            raise ValueError(f"{impossible[0]} needs gateways: [nodes] gateway = 2")
        return self

    @model_validator(mode="after")
    def _has_what_the_recording_names(self) -> Scenario:
        if self.recorded is None:
            if self.symptom is not None:
                raise ValueError("symptom: a symptom is looked for in a recorded incident only; there is no [recorded]")
            return self
        nodes, seconds = self.nodes, self.faults.storm_seconds
        if seconds > LONGEST_SECONDS:
            raise ValueError(f"faults.storm_seconds: a recording lasts at most {LONGEST_SECONDS:g} seconds")
        sizes = {"meta": nodes.meta, "data": nodes.data, "session": nodes.session, "client": nodes.clients}
        problem = self.recorded.problem(sizes, seconds)
        if problem is None and self.symptom is not None and self.symptom.service not in self.recorded.services:
            problem = f"symptom.service: {self.symptom.service!r} is not among recorded.services"
        if problem is not None:
            raise ValueError(problem)
        return self


def built_in() -> list[str]:
    """Names of the scenarios that come with the package, sorted."""
    folder = resources.files("slotreeve_simulator") / "scenarios"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def load_scenario(name: str) -> Scenario:
    """A built-in scenario by its name, or one from a file by its path.

    Raises:
        ConfigError: there is no such scenario, or a key or value in it is wrong; the message says what would be right.
    """
    if name in built_in():
        text = (resources.files("slotreeve_simulator") / "scenarios" / f"{name}.toml").read_text()
    elif Path(name).is_file():
        text = Path(name).read_text()
    else:
        raise ConfigError(f"scenario {name!r}: no such file; built in are {', '.join(built_in())}")
    try:
        return Scenario.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"scenario {name}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"{part}." for part in first["loc"]).rstrip(".")
        what = first["msg"].removeprefix("Value error, ")
        raise ConfigError(f"scenario {name}: {where}{': ' if where else ''}{what}") from None
