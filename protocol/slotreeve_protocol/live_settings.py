"""Live settings: those that an operator changes while servers run.

They are one entry of the provided configuration, as the standing orders are: written through the meta leader, kept
through restarts and changes of the leader, and told to every server. What stands there outranks the file of each
server; what is removed is as the file says again. The list here names all that a server can follow at once, with bounds
within which no value stops a cluster.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import NamedTuple

import msgspec
from slotreeve.errors import ModelError
from slotreeve.model.text import UNDECODABLE

SETTINGS_KEY = "slotreeve.settings"
Value = float | int | str
"""A number, or one of some words."""
MOST_SHOWN = 60
_DAY, _HOUR = 86_400.0, 3_600.0


class LiveSetting(NamedTuple):
    """One setting that may be changed.

    Attributes:
        name: its key in the configuration. The first part is the role that reads it, or ``log``, which every role
            reads.
        least, most: bounds of a number. They are whole numbers where the setting is one.
        words: what it may be where it is no number.
    """

    name: str
    least: float | int = 0
    most: float | int = 0
    words: tuple[str, ...] = ()

    @property
    def section(self) -> str:
        """The table of the configuration that it stands in."""
        return self.name.partition(".")[0]

    @property
    def bounds(self) -> str:
        """What it may be, for people."""
        if self.words:
            return ", ".join(self.words)
        if isinstance(self.least, int):
            return f"a whole number from {self.least} to {self.most}"
        return f"{self.least:g} to {self.most:g}"

    def of(self, value: object) -> Value:
        """The value as servers take it.

        Raises:
            ModelError: it is not within the bounds.
        """
        if self.words:
            if isinstance(value, str) and value in self.words:
                return value
        elif isinstance(value, int | float) and not isinstance(value, bool) and self.least <= value <= self.most:
            if isinstance(self.least, float):
                return float(value)
            if math.floor(value) == value:
                return int(value)
        raise ModelError(f"the setting {self.name} is {_shown(value)}; expected {self.bounds}")

    def parse(self, text: str) -> Value:
        """The value that a text stands for. Raises ModelError: as :meth:`of`."""
        if self.words:
            return self.of(text)
        try:
            value = int(text) if isinstance(self.least, int) else float(text)
        except ValueError:
            raise ModelError(f"the setting {self.name} is {_shown(text)}; expected {self.bounds}") from None
        return self.of(value)


LIVE_SETTINGS: Mapping[str, LiveSetting] = {
    setting.name: setting
    for setting in (
        LiveSetting("meta.protect_below", 0, 1_000),
        LiveSetting("meta.arrange_seconds", 0.1, 60.0),
        LiveSetting("data.session_grace_seconds", 0.5, 600.0),
        LiveSetting("data.brake_few", 0, 1_000_000),
        LiveSetting("data.brake_share", 0.0, 1.0),
        LiveSetting("data.brake_window_seconds", 1.0, _HOUR),
        LiveSetting("data.brake_hold_seconds", 0.0, _DAY),
        LiveSetting("data.emergency_seconds", 0.0, _DAY),
        LiveSetting("data.drain_seconds", 0.0, _HOUR),
        LiveSetting("session.linger_seconds", 0.0, 300.0),
        LiveSetting("session.push_window_seconds", 0.0, 60.0),
        LiveSetting("session.push_ceiling_seconds", 0.01, 60.0),
        LiveSetting("session.max_pending_writes", 1_000, 10_000_000),
        LiveSetting("session.drain_seconds", 0.0, _HOUR),
        LiveSetting("gateway.most_services", 1, 1_000_000),
        LiveSetting("gateway.idle_seconds", 5.0, _DAY),
        LiveSetting("gateway.directory_seconds", 0.1, 60.0),
        LiveSetting("gateway.most_connections", 10, 1_000_000),
        LiveSetting("log.level", words=("debug", "info", "warning", "error")),
    )
}
"""All of them, by name."""


def live_setting(name: str) -> LiveSetting:
    """The setting of this name.

    Raises:
        ModelError: there is none that may be changed; names the nearest one.
    """
    found = LIVE_SETTINGS.get(name)
    if found is None:
        near = get_close_matches(name, LIVE_SETTINGS, 1, 0.5)
        hint = f"; did you mean {near[0]}" if near else f"; they are {', '.join(LIVE_SETTINGS)}"
        raise ModelError(f"no setting {_shown(name)} can be changed while servers run{hint}")
    return found


class LiveSettings:
    """The operator's table of settings. Values of servers that are older or newer than this one may be among them:
    they are kept as they are.

    Attributes:
        values: by name; not all of them need to be good.
    """

    __slots__ = ("values",)

    def __init__(self, values: Mapping[str, object] | None = None) -> None:
        self.values: Mapping[str, object] = dict(values or {})

    def __eq__(self, other: object) -> bool:
        """Whether the other table has the same values."""
        return isinstance(other, LiveSettings) and self.values == other.values

    def __repr__(self) -> str:
        """For people: ``log.level=debug, meta.protect_below=3``."""
        return ", ".join(f"{name}={_shown(value)}" for name, value in sorted(self.values.items())) or "none"

    def good(self) -> dict[str, Value]:
        """The values that this program knows, within their bounds."""
        return {name: value for name, value in map(_checked, self.values.items()) if not isinstance(value, ModelError)}

    def faults(self) -> dict[str, str]:
        """What is wrong with the other ones, by name."""
        found = map(_checked, self.values.items())
        return {name: str(value) for name, value in found if isinstance(value, ModelError)}

    def changed(self, name: str, value: Value | None) -> LiveSettings:
        """A copy in which ``name`` has this value; None: its file's again.

        Raises:
            ModelError: no such setting may be changed, or the value is not within its bounds.
        """
        values = dict(self.values)
        if value is not None:
            values[name] = live_setting(name).of(value)
        elif values.pop(name, None) is None:
            live_setting(name)
        return LiveSettings(values)

    def encode(self) -> bytes | None:
        """As JSON; equal tables have equal JSON. None: nothing is changed."""
        return _encode(dict(self.values)) if self.values else None

    @classmethod
    def decode(cls, value: bytes | None) -> LiveSettings:
        """From JSON; None stands for an empty table.

        Raises:
            ModelError: ``value`` is not the JSON of a table.
        """
        if value is None:
            return cls()
        try:
            return cls(_decode(value))
        except UNDECODABLE as error:
            raise ModelError(
                f"provided configuration {SETTINGS_KEY!r}: {error}; slotreeve settings writes it"
            ) from None


def check_settings_change(before: bytes | None, after: bytes | None) -> None:
    """Check what somebody writes. What the table had before may stay, or go, whatever it is.

    Raises:
        ModelError: a setting that the change brings is unknown or out of its bounds, or ``after`` is no table.
    """
    try:
        known = LiveSettings.decode(before).values
    except ModelError:
        known = {}
    written = LiveSettings.decode(after)
    for name, fault in written.faults().items():
        if name not in known or not _same(known[name], written.values[name]):
            raise ModelError(fault)


def names_of(sections: Iterable[str]) -> list[str]:
    """The names of the live settings in these tables of the configuration, in their order."""
    wanted = set(sections)
    return [name for name, setting in LIVE_SETTINGS.items() if setting.section in wanted]


def _checked(item: tuple[str, object]) -> tuple[str, Value | ModelError]:
    try:
        return item[0], live_setting(item[0]).of(item[1])
    except ModelError as error:
        return item[0], error


def _same(one: object, other: object) -> bool:
    """Whether both are the same JSON: 1 is not true."""
    return type(one) is type(other) and one == other


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(dict[str, object]).decode
