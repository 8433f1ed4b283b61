"""The one configuration: TOML file < environment < flags, every value with the place it came from.

Environment: ``SLOTREEVE__META__LEASE_SECONDS=3`` sets ``meta.lease_seconds``; with the suffix ``_FILE`` the value is
read from the file named (secrets). Unknown keys are errors with the nearest match, wherever they stand.
"""

from __future__ import annotations

import functools
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from slotreeve.catalogue import Catalogue, Listed, explain_validation
from slotreeve.errors import ConfigError
from slotreeve.offers import Options, Port

ENVIRONMENT_PREFIX = "SLOTREEVE__"
DEFAULT_ORIGIN = "default"
WHOLE = "cluster.meta"
"""A layer that names any meta server names all of them; every other table is merged key by key."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ClusterSettings(_Section):
    """What is the same on every process of a cluster."""

    name: str = Field(default="slotreeve", min_length=1, description="Processes of another cluster are refused.")
    slots: int = Field(default=256, ge=1, le=65_536, description="Number of slots; fixed for the life of the cluster.")
    replicas: int = Field(
        default=2, ge=1, le=7, description="Copies of each slot, the leader's included; fixed as well."
    )
    meta: dict[str, str] = Field(
        default={"meta-1": "127.0.0.1:7710"},
        min_length=1,
        description="Advertised address of every meta server, by name.",
    )


class NodeSettings(_Section):
    """What is particular to this process."""

    name: str = Field(default="", description="Unique in the cluster, stable across restarts; empty: role and address.")
    bind: str = Field(default="", description="host:port to listen on; empty: the advertised address.")
    advertise: str = Field(
        default="", description="host:port where others reach this process; empty: 127.0.0.1, role's port."
    )
    port_offset: int = Field(default=0, ge=0, le=50_000, description="Added to the role's default port.")
    zone: str = Field(default="", description="Failure domain; also what scope 'zone' of subscribers compares.")
    weight: float = Field(
        default=1.0, gt=0, description="Share of slots (data) or clients (session) against the others."
    )
    insecure: bool = Field(default=False, description="Allow listening on other than loopback addresses.")


class MetaSettings(_Section):
    """The meta leader's rules."""

    lease_seconds: float = Field(
        default=5.0, gt=0, description="A server that sends no heartbeat for this long has left."
    )
    heartbeat_seconds: float = Field(default=1.0, gt=0, description="Servers' heartbeat interval.")
    lost_connection_seconds: float = Field(
        default=0.3, ge=0, description="A server whose connection closed has this long to come back before it has left."
    )
    unseen_seconds: float = Field(
        default=1.0, gt=0, description="A member not connected to a new meta leader has this long to show up."
    )
    first_assign_seconds: float = Field(
        default=0.3, ge=0, description="The very first assignment waits this long for more data servers to join."
    )
    shadow_election: str = Field(
        default="",
        description="A second election plugin that holds elections of its own and never acts, to rehearse a migration.",
    )
    protect_below: int = Field(
        default=0,
        ge=0,
        description="Protection mode: while fewer data servers than this live, the slot table stays as it is.",
    )
    restart_seconds: float = Field(
        default=30.0, gt=0, description="A server that stops for a restart keeps its places as follower for so long."
    )
    arrange_seconds: float = Field(
        default=1.0, gt=0, description="The slot table is looked at when nodes change, and this often."
    )

    @model_validator(mode="after")
    def _lease_outlives_heartbeats(self) -> MetaSettings:
        if self.lease_seconds < 3 * self.heartbeat_seconds:
            raise ValueError("lease_seconds must be at least 3 x heartbeat_seconds, or one lost heartbeat ends a lease")
        return self


class DataSettings(_Section):
    """A data server's rules."""

    session_grace_seconds: float = Field(
        default=3.0,
        gt=0,
        description="Publishers of a session server that left stay this long, for their clients to return.",
    )
    compare_timeout_seconds: float = Field(default=1.0, gt=0, description="Time-out of one digest comparison.")
    emergency_seconds: float = Field(
        default=40.0,
        ge=0,
        description="A slot waits so long for one silent session server of several, then serves anyway; 0: for ever.",
    )
    repair_seconds: float = Field(
        default=6.0, gt=0, description="Interval of the digest comparison with each session server."
    )
    drain_seconds: float = Field(
        default=30.0, ge=0, description="A server that stops has this long to hand over its slots; then it leaves."
    )
    tombstone_seconds: float = Field(
        default=180.0, gt=0, description="How long the trace of an ended registration is kept."
    )


class SessionSettings(_Section):
    """A session server's rules."""

    client_lease_seconds: float = Field(default=10.0, gt=0, description="A client silent for this long has left.")
    drain_seconds: float = Field(
        default=10.0, ge=0, description="Clients of a server that stops have this long to move; then it leaves."
    )
    linger_seconds: float = Field(
        default=0.3, ge=0, description="A client whose connection closed has this long to come back."
    )
    push_window_seconds: float = Field(
        default=0.002,
        ge=0,
        description="After a push, further changes of that service coalesce for at least this long.",
    )
    push_ceiling_seconds: float = Field(default=1.0, gt=0, description="No change waits longer than this to be pushed.")
    scan_seconds: float = Field(
        default=10.0, gt=0, description="Interval at which slot leaders are told the versions of all watched services."
    )
    write_timeout_seconds: float = Field(
        default=2.0, gt=0, description="Time-out of one batch of writes to a data server."
    )
    max_pending_writes: int = Field(
        default=200_000, ge=1, description="Unacknowledged records above which publishes are refused."
    )


class LogSettings(_Section):
    """What is written to standard error."""

    level: str = Field(
        default="info", pattern="^(debug|info|warning|error)$", description="debug, info, warning or error."
    )
    format: str = Field(
        default="auto", pattern="^(auto|text|json)$", description="auto: text on a terminal, else JSON."
    )


class EventSettings(_Section):
    """The event log, for the pipeline on Spark."""

    path: str = Field(default="", description="Directory that event logs are written to; empty: none is written.")
    segment_bytes: int = Field(
        default=16 << 20, ge=1_000, description="A segment of this size is finished, and readers see it."
    )
    flush_seconds: float = Field(
        default=0.25, gt=0, description="Records wait this long to be written; a crash loses so many."
    )


class PluginChoice(BaseModel):
    """Which offer fills a port (``use``), and each offer's own table under the offer's name."""

    model_config = ConfigDict(frozen=True, extra="allow")
    use: str

    @model_validator(mode="after")
    def _extras_are_tables(self) -> PluginChoice:
        for name, table in (self.model_extra or {}).items():
            if not isinstance(table, dict):
                raise ValueError(f"unknown key {name!r}; only 'use' and tables named after plugins may stand here")
        return self

    def table(self, name: str) -> Mapping[str, object]:
        """The settings given for the offer called ``name``."""
        table: Mapping[str, object] = (self.model_extra or {}).get(name, {})
        return table


class Settings(_Section):
    """Everything that can be set. Each plugin's own options stand in the table named after it."""

    cluster: ClusterSettings = ClusterSettings()
    node: NodeSettings = NodeSettings()
    meta: MetaSettings = MetaSettings()
    data: DataSettings = DataSettings()
    session: SessionSettings = SessionSettings()
    log: LogSettings = LogSettings()
    events: EventSettings = EventSettings()
    election: PluginChoice = PluginChoice(use="fle")
    slot_function: PluginChoice = PluginChoice(use="crc32c")
    assigner: PluginChoice = PluginChoice(use="default")
    balancer: PluginChoice = PluginChoice(use="default")
    transport: PluginChoice = PluginChoice(use="zmq")

    @field_validator("election", "slot_function", "assigner", "balancer", "transport", mode="before")
    @classmethod
    def _default_use(cls, value: object, info: ValidationInfo) -> object:
        """A section that only holds tables keeps the default choice."""
        if isinstance(value, dict) and "use" not in value:
            field = cls.model_fields[str(info.field_name)]
            return {"use": field.default.use, **value}
        return value


@dataclass(frozen=True)
class Configuration:
    """Validated settings, and where each value came from (dotted key to place)."""

    settings: Settings
    origins: Mapping[str, str]

    def where(self, key: str) -> str:
        """Key and place, for messages: ``meta.lease_seconds (cluster.toml)``."""
        while key not in self.origins and "." in key:
            key = key.rpartition(".")[0]
        return f"{key} ({self.origin(key)})"

    def origin(self, key: str) -> str:
        """The file, environment variable or flag that set ``key``; ``default`` where nothing did."""
        return self.origins.get(key, DEFAULT_ORIGIN)

    def _where_in(self, prefix: str, key: str) -> str:
        return self.where(f"{prefix}.{key}")

    def choice(self, port: Port) -> PluginChoice:
        """What the config says about a port."""
        choice: PluginChoice = getattr(self.settings, port.value)
        return choice

    def check_plugins(self, catalogue: Catalogue) -> dict[Port, Options]:
        """Every port's selected offer exists and its options validate; the validated options by port.

        Raises:
            PluginError: unknown name or bad options.
            ConfigError: a table is named after no plugin of that port.
        """
        options = {}
        for port in Port:
            choice = self.choice(port)
            known = catalogue.names(port)
            entry = catalogue.find(port, choice.use, self.where(f"{port}.use"))
            for name in choice.model_extra or {}:
                if name not in known:
                    raise ConfigError(
                        f"{self.where(f'{port}.{name}')}: there is no {port} plugin {name!r}; "
                        f"available: {', '.join(known)}"
                    )
            prefix = f"{port}.{choice.use}"
            options[port] = catalogue.options(
                entry, choice.table(choice.use), functools.partial(self._where_in, prefix)
            )
        return options

    def check_shadow(self, catalogue: Catalogue) -> tuple[Listed, Options] | None:
        """The shadow election's offer with its options; None where there is to be none.

        Raises:
            PluginError: unknown name or bad options.
            ConfigError: it is the election in use: it would meet itself.
        """
        name = self.settings.meta.shadow_election
        if not name:
            return None
        where = self.where("meta.shadow_election")
        if name == self.settings.election.use:
            raise ConfigError(f"{where}: {name!r} is the election in use; a shadow must be another one")
        entry = catalogue.find(Port.ELECTION, name, where)
        table = self.settings.election.table(name)
        return entry, catalogue.options(entry, table, functools.partial(self._where_in, f"election.{name}"))


def load_configuration(file: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]) -> Configuration:
    """Read and merge the three layers. ``flags`` are dotted keys.

    Raises:
        ConfigError: the file cannot be read or parsed, or anything is unknown or does not validate.
    """
    layers: list[list[tuple[str, object, str]]] = [
        [] if file is None else [(key, value, str(file)) for key, value in _read_toml(file).items()],
        [
            (*_from_environment(variable, environment[variable]), f"environment {variable}")
            for variable in sorted(environment)
            if variable.startswith(ENVIRONMENT_PREFIX)
        ],
        [(key, value, f"flag for {key}") for key, value in flags.items()],
    ]
    merged: dict[str, object] = {}
    origins: dict[str, str] = {}
    for layer in layers:
        if any(f"{key}.".startswith(WHOLE + ".") for key, _, _ in layer):
            _forget(merged, WHOLE)
        for key, value, origin in layer:
            _merge(merged, origins, _nested(key, value), origin)
    try:
        settings = Settings.model_validate(merged)
    except ValidationError as error:
        where = Configuration(Settings(), origins).where
        raise ConfigError(explain_validation(error, Settings, where)) from None
    return Configuration(settings, origins)


def _read_toml(file: Path) -> dict[str, object]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not valid TOML: {error}") from None


def _from_environment(variable: str, text: str) -> tuple[str, object]:
    key = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".")
    if key.endswith("_file"):
        try:
            return key.removesuffix("_file"), Path(text).read_text(encoding="utf-8").rstrip("\n")
        except OSError as error:
            raise ConfigError(f"environment {variable}: {text} cannot be read: {error.strerror}") from None
    return key, read_value(text)


def read_value(text: str) -> object:
    """Tables and lists are given as JSON; everything else is text that pydantic converts."""
    if text[:1] in ("{", "["):
        try:
            parsed: object = json.loads(text)
            return parsed
        except ValueError:
            return text
    return text


def _nested(key: str, value: object) -> dict[str, object]:
    for step in reversed(key.split(".")):
        value = {step: value}
    assert isinstance(value, dict)
    return value


def _forget(target: dict[str, object], key: str) -> None:
    section, _, name = key.partition(".")
    table = target.get(section)
    if isinstance(table, dict):
        table.pop(name, None)


def _merge(
    target: dict[str, object], origins: dict[str, str], layer: Mapping[str, object], origin: str, at: str = ""
) -> None:
    for key, value in layer.items():
        path = f"{at}{key}"
        if isinstance(value, Mapping):
            below = target.get(key)
            if not isinstance(below, dict):
                below = target[key] = {}
            origins[path] = origin
            _merge(below, origins, value, origin, f"{path}.")
        else:
            target[key] = value
            origins[path] = origin
