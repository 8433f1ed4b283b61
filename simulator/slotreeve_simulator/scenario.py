"""What a simulation is made of, as a small TOML file: nodes, network, clocks, workload, faults.

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
    """What can go wrong. Every fault but the instantaneous ones ends after some seconds, and is mended then."""

    CRASH_META = "crash_meta"
    """A meta server is killed, and started again with its disk."""
    WIPE_META = "wipe_meta"
    """A meta server is killed, and started again with an empty disk; no other one fails meanwhile."""
    FULL_DISK = "full_disk"
    """A meta server's disk refuses every write."""
    CRASH_DATA = "crash_data"
    """A data server is killed, and started again."""
    CRASH_SESSION = "crash_session"
    """A session server is killed, and started again."""
    CRASH_CLIENT = "crash_client"
    """A client is killed; a new one comes in its place."""
    CLOSE_CLIENT = "close_client"
    """A client says goodbye; a new one comes in its place."""
    STOP_SERVER = "stop_server"
    """A data or session server ends in order, for good or for a restart, and is started again."""
    ADD_DATA = "add_data"
    """One more data server, which is killed at the end."""
    PAUSE = "pause"
    """A server's process stands still."""
    PAUSE_CLIENT = "pause_client"
    """A client's process stands still."""
    CUT = "cut"
    """At once: every connection between two processes breaks, and what was under way is lost."""
    CUT_CLIENT = "cut_client"
    """At once: a client's connections break."""
    PARTITION = "partition"
    """Nothing passes between some servers and the others."""
    PARTITION_ONE_WAY = "partition_one_way"
    """Nothing passes from one server to some others; the way back is open."""
    ISOLATE_DATA = "isolate_data"
    """Nothing passes between one data server and everybody else; the others are untouched."""
    SLOW = "slow"
    """Everything to and from one server takes up to a hundred times as long."""
    CLOCK_JUMP = "clock_jump"
    """A server is killed, and comes back with another wall clock."""
    STORE_DOWN = "store_down"
    """The database of a lock election cannot be reached by anybody."""
    STORE_SILENT = "store_silent"
    """It carries out what it is told, but answers nobody."""
    STORE_SLOW = "store_slow"
    """Everything to and from it takes up to a hundred times as long."""
    STORE_RESTART = "store_restart"
    """At once: every connection to it ends, with the locks that hang on it."""
    STORE_CUT = "store_cut"
    """One meta server does not reach it."""


STORE_FAULTS = frozenset(kind for kind in FaultKind if kind.startswith("store_"))


def _rising(span: tuple[float, float]) -> tuple[float, float]:
    if not 0 <= span[0] <= span[1]:
        raise ValueError("two numbers, the smaller one first")
    return span


Span = Annotated[tuple[float, float], AfterValidator(_rising)]
"""From, to."""


class _ScenarioTable(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Nodes(_ScenarioTable):
    """How many processes of each kind, and their common settings by dotted key (``"cluster.slots" = 32``)."""

    meta: int = Field(default=3, ge=1)
    data: int = Field(default=3, ge=1)
    session: int = Field(default=2, ge=1)
    clients: int = Field(default=6, ge=1)
    election: Literal["fle", "lock"] = Field(
        default="fle", description="lock: the election by a row in a database, on a simulated one."
    )
    settings: dict[str, int | float | str | bool] = {}


class NetworkPlan(_ScenarioTable):
    """Travel time of a packet, drawn anew for each: order holds within a connection, not between two."""

    delay_ms: Span = (0.1, 3.0)


class Clocks(_ScenarioTable):
    """How wrong each server's clocks are: the wall clock by up to ``wall_skew_ms``, the speed by up to ``drift``."""

    wall_skew_ms: int = Field(default=3_600_000, ge=0)
    drift: float = Field(default=0.009, ge=0, lt=0.01, description="The product bears 2 % between any two clocks.")


class WorkloadPlan(_ScenarioTable):
    """What the clients do: publish at first, then ``calls_per_second`` changes, subscriptions and reads in all."""

    services: int = Field(default=30, ge=1)
    publishers: int = Field(default=90, ge=0)
    subscriptions: int = Field(default=60, ge=0)
    calls_per_second: float = Field(default=6.0, ge=0)


class FaultPlan(_ScenarioTable):
    """When what goes wrong. Virtual time is cut in storms; after each everything is mended and must be well again
    within ``heal_seconds``, and stay so for ``calm_seconds``. ``kinds`` are weights; each storm uses a few of them."""

    storm_seconds: float = Field(default=15.0, gt=0)
    heal_seconds: float = Field(default=45.0, gt=0)
    calm_seconds: float = Field(default=3.0, ge=0)
    per_storm: tuple[int, int] = (1, 7)
    kinds_per_storm: tuple[int, int] = (1, 4)
    lasting_seconds: Span = (0.02, 9.0)
    kinds: dict[FaultKind, float] = {kind: 1.0 for kind in FaultKind if kind not in STORE_FAULTS}


class Scenario(_ScenarioTable):
    """One scenario; everything has a default."""

    name: str = "scenario"
    description: str = ""
    minutes: float = Field(default=1.0, gt=0, description="Virtual time under faults, unless told otherwise.")
    nodes: Nodes = Nodes()
    network: NetworkPlan = NetworkPlan()
    clocks: Clocks = Clocks()
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
        ConfigError: there is no such scenario, or something in it is unknown or wrong; says what would be right.
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
