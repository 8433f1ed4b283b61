"""The settings of one process: those of its configuration, and above them what the operator has changed. Pure."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from slotreeve.configuration import DEFAULT_ORIGIN
from slotreeve.errors import ModelError
from slotreeve.model.nodes import Role
from slotreeve_protocol.live_settings import LiveSettings, Value, names_of
from slotreeve_protocol.people_messages import SettingIs, SettingsAre

from slotreeve_servers.settings import Settings

log = logging.getLogger("slotreeve.settings")

OF_EVERY_ROLE = "log"
"""The table of the configuration whose live settings every process follows."""


class SettingsInForce:
    """Follows the operator's table of settings.

    Args:
        configured: the settings as the configuration of this process says.
        origins: where each comes from, by its dotted key.
        role: of this process; it follows the settings of its role, and those of every role.

    Attributes:
        settings: what is in force.
        version: of the operator's table that was read last; 0: there is none.
    """

    def __init__(self, configured: Settings, origins: Mapping[str, str], role: Role) -> None:
        self._configured, self._origins = configured, origins
        self._names = names_of((role, OF_EVERY_ROLE))
        self._live: Mapping[str, Value] = {}
        self._ignored: Mapping[str, str] = {}
        self._followers: list[Callable[[Settings], None]] = []
        self.settings = configured
        self._taken: bytes | None = None
        self.version = 0

    def follow(self, changed: Callable[[Settings], None]) -> None:
        """Call ``changed`` with the settings after each change of those of this process."""
        self._followers.append(changed)

    def take(self, value: bytes | None, version: int) -> None:
        """The operator's table is this one. What cannot be followed in it is logged once, and is as the configuration
        says; a table that cannot be read leaves everything as it is."""
        if (value, version) == (self._taken, self.version):
            return
        self._taken, self.version = value, version
        try:
            table = LiveSettings.decode(value)
        except ModelError as error:
            log.error("%s; the settings before it stay in force", error)
            return
        self._ignore(table.faults())
        live = {name: known for name, known in table.good().items() if name in self._names}
        if live == self._live:
            return
        changed = sorted({*live.items()} ^ {*self._live.items()})
        self._live = live
        self.settings = _merged(self._configured, live)
        for name in dict.fromkeys(name for name, _ in changed):
            origin = "by the operator" if name in live else "as its configuration says"
            log.warning("the setting %s is %s now, %s", name, _read(self.settings, name), origin)
        for follower in self._followers:
            follower(self.settings)

    def _ignore(self, faults: Mapping[str, str]) -> None:
        for name, fault in faults.items():
            if self._ignored.get(name) != fault:
                log.warning("%s; this server ignores it", fault)
        self._ignored = faults

    def report(self) -> SettingsAre:
        """What is in force, for people."""
        settings = [
            SettingIs(
                name,
                _read(self.settings, name),
                _read(self._configured, name),
                self._origins.get(name, DEFAULT_ORIGIN),
                name in self._live,
            )
            for name in self._names
        ]
        return SettingsAre(self.version, settings, dict(self._ignored))


def _merged(configured: Settings, live: Mapping[str, Value]) -> Settings:
    """The settings with these values instead."""
    tables: dict[str, dict[str, Value]] = {}
    for name, value in live.items():
        section, _, key = name.partition(".")
        tables.setdefault(section, {})[key] = value
    sections = {name: getattr(configured, name).model_copy(update=changed) for name, changed in tables.items()}
    return configured.model_copy(update=sections)


def _read(settings: Settings, name: str) -> Value:
    section, _, key = name.partition(".")
    found: Value = getattr(getattr(settings, section), key)
    return found
