"""The configuration: a TOML file, overridden by environment variables, overridden by flags.

Every value keeps its origin, for messages. ``SLOTREEVE__META__LEASE_SECONDS=3`` sets ``meta.lease_seconds``; with the
suffix ``_FILE`` the variable names a file that holds the value (for secrets). An unknown key is an error that names
the nearest known one.
"""

from __future__ import annotations

import functools
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator, model_validator

from slotreeve.catalogue import Catalogue, Listed, explain_validation
from slotreeve.errors import ConfigError
from slotreeve.offers import MAX_TEXT, Options, Port

ENVIRONMENT_PREFIX = "SLOTREEVE__"
DEFAULT_ORIGIN = "default"
PORTS_OF_SERVERS = tuple(port for port in Port if port is not Port.FACE)
WHOLE = "cluster.meta"
"""A layer that sets any meta server replaces all of them; every other table is merged key by key."""


class Section(BaseModel):
    """One table of the configuration: frozen, an unknown key is an error, and texts can be encoded in UTF-8."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=MAX_TEXT, allow_inf_nan=False)


class PluginTables(BaseModel):
    """The table of a port: ``use`` names what is chosen, and each offer may have a table under its name. A table of
    another name says with ``plugin`` which offer it is for, so that one offer can be configured in several ways."""

    model_config = ConfigDict(frozen=True, extra="allow")

    @model_validator(mode="after")
    def _extras_are_tables(self) -> Self:
        for name, table in (self.model_extra or {}).items():
            if not isinstance(table, dict):
                raise ValueError(f"unknown key {name!r}; only 'use' and tables named after plugins may stand here")
        return self

    def table(self, name: str) -> Mapping[str, object]:
        """The options given under ``name``."""
        return {key: value for key, value in (self.model_extra or {}).get(name, {}).items() if key != "plugin"}

    def plugin(self, name: str) -> str:
        """The offer that ``name`` stands for: the one that its table names, or the one of this name."""
        return str((self.model_extra or {}).get(name, {}).get("plugin", name))


class PluginChoice(PluginTables):
    """A port of which a process uses one plugin."""

    use: str


class PluginChoices(PluginTables):
    """A port of which a process uses several plugins at once. In the environment and in flags ``use`` may be a text
    with commas."""

    use: tuple[str, ...]

    @field_validator("use", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


class PortChoices(Section):
    """The chosen plugins of each port. A product derives its settings from this class and adds its own tables."""

    election: PluginChoice = PluginChoice(use="fle")
    slot_function: PluginChoice = PluginChoice(use="crc32c")
    assigner: PluginChoice = PluginChoice(use="default")
    balancer: PluginChoice = PluginChoice(use="default")
    transport: PluginChoice = PluginChoice(use="zmq")
    face: PluginChoices = PluginChoices(use=("rest", "prometheus", "consul", "eureka", "envoy", "console"))

    @field_validator(*(port.value for port in Port), mode="before")
    @classmethod
    def _default_use(cls, value: object, info: ValidationInfo) -> object:
        """A table without ``use`` keeps the default choice."""
        if isinstance(value, dict) and "use" not in value:
            field = cls.model_fields[str(info.field_name)]
            return {"use": field.default.use, **value}
        return value


S = TypeVar("S", bound=PortChoices)


@dataclass(frozen=True)
class Configuration(Generic[S]):
    """Validated settings, and the origin of each value by dotted key."""

    settings: S
    origins: Mapping[str, str]

    def where(self, key: str) -> str:
        """A key with its origin, for messages: ``meta.lease_seconds (cluster.toml)``."""
        while key not in self.origins and "." in key:
            key = key.rpartition(".")[0]
        return f"{key} ({self.origin(key)})"

    def origin(self, key: str) -> str:
        """The file, environment variable or flag that set ``key``; ``default`` if none did."""
        return self.origins.get(key, DEFAULT_ORIGIN)

    def where_in(self, prefix: str, key: str) -> str:
        """As :meth:`where`, for ``key`` in the table ``prefix``."""
        return self.where(f"{prefix}.{key}")

    def choice(self, port: Port) -> PluginChoice:
        """The table of a port of which one plugin is used."""
        choice: PluginChoice = getattr(self.settings, port.value)
        return choice

    def check_plugins(self, catalogue: Catalogue) -> dict[Port, Options]:
        """Check that the chosen offer of each port that a server needs exists and validate its options; return the
        options by port.

        Raises:
            PluginError: there is no such offer, or its options do not validate.
            ConfigError: a port has a table that is named after none of its plugins.
        """
        return {port: self._checked(catalogue, port, self.choice(port).use)[1] for port in PORTS_OF_SERVERS}

    def check_faces(self, catalogue: Catalogue) -> dict[str, tuple[Listed, Options]]:
        """The same for the faces of a gateway; return each chosen offer with its options, by its name in ``face.use``.

        Raises:
            PluginError, ConfigError: as :meth:`check_plugins`.
        """
        return {name: self._checked(catalogue, Port.FACE, name) for name in self.settings.face.use}

    def _checked(self, catalogue: Catalogue, port: Port, use: str) -> tuple[Listed, Options]:
        """An offer that ``use`` names in the table of a port, with its options."""
        tables: PluginTables = getattr(self.settings, port.value)
        known = catalogue.names(port)
        entry = catalogue.find(port, tables.plugin(use), self.where(f"{port}.use"))
        for name in tables.model_extra or {}:
            if tables.plugin(name) not in known:
                raise ConfigError(
                    f"{self.where(f'{port}.{name}')}: there is no {port} plugin {tables.plugin(name)!r}; "
                    f"available: {', '.join(known)}"
                )
        where = functools.partial(self.where_in, f"{port}.{use}")
        return entry, catalogue.options(entry, tables.table(use), where)


def load_configuration(
    model: type[S], file: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]
) -> Configuration[S]:
    """Read the three layers, merge them and validate the result as ``model``. ``flags`` has dotted keys.

    Raises:
        ConfigError: the file cannot be read or parsed, a key is unknown, or a value does not validate.
    """
    layers: list[list[tuple[str, object, str]]] = [
        [] if file is None else [(key, value, str(file)) for key, value in read_toml(file).items()],
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
        settings = model.model_validate(merged)
    except ValidationError as error:
        where = Configuration(model(), origins).where
        raise ConfigError(explain_validation(error, model, where)) from None
    return Configuration(settings, origins)


def read_toml(file: Path) -> dict[str, object]:
    """The content of a TOML file.

    Raises:
        ConfigError: it cannot be read, or is not TOML.
    """
    try:
        return _with_numbers(tomllib.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # also of a text that is no UTF-8, and of a number with very many digits
        raise ConfigError(f"{file}: not valid TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{file}: its values are nested too deeply; expected a few levels") from None


def _with_numbers(table: dict[str, object]) -> dict[str, object]:
    """The table itself. Raises ValueError where a number in it is larger than TOML has them."""
    waiting: list[object] = [table]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError(f"a number has {value.bit_length()} bits; expected at most 64")
    return table


def _from_environment(variable: str, text: str) -> tuple[str, object]:
    key = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".")
    if key.endswith("_file"):
        try:
            return key.removesuffix("_file"), Path(text).read_text(encoding="utf-8").rstrip("\n")
        except OSError as error:
            raise ConfigError(f"environment {variable}: {text} cannot be read: {error.strerror}") from None
        except ValueError as error:  # it is not UTF-8, or no file can have such a name
            raise ConfigError(f"environment {variable}: {text!r} cannot be read as text: {error}") from None
    return key, read_value(text)


def read_value(text: str) -> object:
    """The table or list that ``text`` is the JSON of; otherwise ``text`` itself, which the model converts."""
    if text[:1] in ("{", "["):
        try:
            parsed: object = json.loads(text)
            return parsed
        except (ValueError, RecursionError):
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
