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

import tomllib
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from slotreeve.errors import ConfigError


class FaultKind(StrEnum):
    """The kinds of faults. Every fault but an instantaneous one ends after some seconds; then its damage is
    repaired."""

    CRASH_META = "crash_meta"
    """A meta server is killed, and started again with its disk."""
    WIPE_META = "wipe_meta"
    """A meta server is killed, and started again with an empty disk. No other one fails meanwhile."""
    FULL_DISK = "full_disk"
    """A meta server's disk refuses every write."""
    SLOW_DISK = "slow_disk"
    """Each sync of a meta server's disk takes up to half a second."""
    POWER_CUT = "power_cut"
    """The machines of all meta servers go down at once: what was not synced is lost, in part or out of order."""
    CRASH_DATA = "crash_data"
    """A data server is killed, and started again."""
    CRASH_HOST = "crash_host"
    """A data server and a session server end at the same moment, as those of one host do."""
    CRASH_SESSION = "crash_session"
    """A session server is killed, and started again."""
    CRASH_CLIENT = "crash_client"
    """A client is killed; a new one takes its place."""
    CLOSE_CLIENT = "close_client"
    """A client is closed; a new one takes its place."""
    STOP_SERVER = "stop_server"
    """A data or session server is stopped, for good or for a restart, and is started again."""
    ADD_DATA = "add_data"
    """A data server is added; it is killed at the end."""
    PAUSE = "pause"
    """A server's process is paused."""
    PAUSE_CLIENT = "pause_client"
    """A client's process is paused."""
    CUT = "cut"
    """Instantaneous: every connection between two processes breaks, and messages in flight are lost."""
    CUT_CLIENT = "cut_client"
    """Instantaneous: a client's connections break."""
    PARTITION = "partition"
    """Nothing passes between some servers and the others."""
    PARTITION_ONE_WAY = "partition_one_way"
    """Nothing passes from one server to some others; messages pass in the other direction."""
    ISOLATE_DATA = "isolate_data"
    """Nothing passes between one data server and all other processes."""
    SLOW = "slow"
    """Messages to and from one server take up to a hundred times as long."""
    CUT_LINK = "cut_link"
    """Nothing passes between two processes; everything else passes."""
    CUT_LINK_ONE_WAY = "cut_link_one_way"
    """Nothing passes from one process to another one."""
    CUT_ROLES = "cut_roles"
    """Nothing passes between all servers of two roles, or between the clients and one session server."""
    STARVE = "starve"
    """A process gets a small part of its processor: everything that it does takes up to a hundred times as long."""
    STUTTER = "stutter"
    """A process gets its processor in bursts, with pauses of up to a second between them."""
    FREEZE_SESSION = "freeze_session"
    """A session server's process is paused."""
    STOP_SESSION = "stop_session"
    """A session server is stopped, for good or for a restart, and is started again."""
    STALL = "stall"
    """A process gets no processor at all; what is sent to it arrives and waits."""
    STALL_CLIENTS = "stall_clients"
    """No client gets any processor: all of them run on one host."""
    SLOW_CLIENT = "slow_client"
    """Messages to and from one client take up to four times as long: it replays slowly, but is back in time."""
    CUT_CLIENT_LINK = "cut_client_link"
    """Nothing passes between one client and one session server."""
    BREAK_LINK = "break_link"
    """Instantaneous: the connections between a session server and a data server break."""
    CUT_META = "cut_meta"
    """Nothing passes between one data or session server and all meta servers."""
    CUT_STREAM = "cut_stream"
    """Nothing passes from one data server to another one; what the other one sends passes."""
    CLOCK_JUMP = "clock_jump"
    """A server is killed, and started again with another wall clock."""
    STORE_DOWN = "store_down"
    """No meta server can reach the database of a lock election."""
    STORE_SILENT = "store_silent"
    """The database carries out statements, but does not answer."""
    STORE_SLOW = "store_slow"
    """Statements of the database take up to a hundred times as long."""
    STORE_RESTART = "store_restart"
    """Instantaneous: every connection to the database ends, and with it the locks that it holds."""
    STORE_CUT = "store_cut"
    """One meta server cannot reach the database."""


STORE_FAULTS = frozenset(kind for kind in FaultKind if kind.startswith("store_"))
DISK_FAULTS = frozenset({FaultKind.SLOW_DISK, FaultKind.POWER_CUT})
"""Faults of disks that only the scenario ``lossy`` has."""
LATER_FAULTS = DISK_FAULTS | frozenset(
    {
        FaultKind.CRASH_HOST,
        FaultKind.CUT_LINK,
        FaultKind.CUT_LINK_ONE_WAY,
        FaultKind.CUT_ROLES,
        FaultKind.STARVE,
        FaultKind.STUTTER,
        FaultKind.FREEZE_SESSION,
        FaultKind.STOP_SESSION,
        FaultKind.STALL,
        FaultKind.STALL_CLIENTS,
        FaultKind.SLOW_CLIENT,
        FaultKind.CUT_CLIENT_LINK,
        FaultKind.BREAK_LINK,
        FaultKind.CUT_META,
        FaultKind.CUT_STREAM,
    }
)
"""Faults that scenarios name themselves, so that the seeds of the others stay what they are."""


def _rising(span: tuple[float, float]) -> tuple[float, float]:
    if not 0 <= span[0] <= span[1]:
        raise ValueError("two numbers, the smaller one first")
    return span


Span = Annotated[tuple[float, float], AfterValidator(_rising)]
"""A range: from, to."""


class _ScenarioTable(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Nodes(_ScenarioTable):
    """The number of processes of each kind, and their common settings by dotted key (``"cluster.slots" = 32``)."""

    meta: int = Field(default=3, ge=1)
    data: int = Field(default=3, ge=1)
    session: int = Field(default=2, ge=1)
    clients: int = Field(default=6, ge=1)
    election: Literal["fle", "lock"] = Field(
        default="fle", description="lock: the election by a row of a database, on a simulated database."
    )
    settings: dict[str, int | float | str | bool] = {}
    client_options: dict[str, int | float | str | bool] = Field(
        default={}, description="Options of the clients; with a small window a replay takes long."
    )


class NetworkPlan(_ScenarioTable):
    """Travel time of packets, drawn for each packet. Packets of one connection stay in order."""

    delay_ms: Span = (0.1, 3.0)


class Clocks(_ScenarioTable):
    """Errors of each server's clocks: up to ``wall_skew_ms`` of the wall clock, up to ``drift`` of the speed."""

    wall_skew_ms: int = Field(default=3_600_000, ge=0)
    drift: float = Field(default=0.009, ge=0, lt=0.01, description="The product tolerates 2 % between any two clocks.")


class ProcessorPlan(_ScenarioTable):
    """How slow the processors are: handling a message takes ``slowness`` times as long as on the machine on which the
    costs were measured."""

    slowness: float = Field(default=1.0, ge=0)


class WorkloadPlan(_ScenarioTable):
    """The calls of the clients: first all publish, then ``calls_per_second`` changes, subscriptions and reads in
    total."""

    services: int = Field(default=30, ge=1)
    publishers: int = Field(default=90, ge=0)
    subscriptions: int = Field(default=60, ge=0)
    calls_per_second: float = Field(default=6.0, ge=0)


class FaultPlan(_ScenarioTable):
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
    aimed: bool = Field(
        default=False, description="Each fault waits for a state of the cluster; all kinds and states get their turn."
    )
    triggers: tuple[FaultKind, ...] = Field(
        default=(), description="Of an aimed storm: further faults, evenly spread, which bring the states about."
    )
    held_seconds: float = Field(
        default=0.0, ge=0, description="The brake is set to hold what is lost at least so long, whatever the reason."
    )
    kinds: dict[FaultKind, float] = {kind: 1.0 for kind in FaultKind if kind not in STORE_FAULTS | LATER_FAULTS}


class Scenario(_ScenarioTable):
    """One scenario. Every field has a default."""

    name: str = "scenario"
    description: str = ""
    minutes: float = Field(default=1.0, gt=0, description="Virtual minutes under faults, by default.")
    nodes: Nodes = Nodes()
    network: NetworkPlan = NetworkPlan()
    clocks: Clocks = Clocks()
    processors: ProcessorPlan = ProcessorPlan()
    workload: WorkloadPlan = WorkloadPlan()
    faults: FaultPlan = FaultPlan()

    @model_validator(mode="after")
    def _only_a_lock_has_a_store(self) -> Scenario:
        impossible = [kind for kind in self.faults.kinds if kind in STORE_FAULTS]
        if impossible and self.nodes.election != "lock":
            raise ValueError(f'{impossible[0]} needs a lock election: [nodes] election = "lock"')
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
        raise ConfigError(f"scenario {name}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
