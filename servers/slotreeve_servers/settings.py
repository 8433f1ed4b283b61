"""Everything that can be set in one configuration; each table belongs to the room that its model comes from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from slotreeve.configuration import Configuration, PortChoices, load_configuration
from slotreeve_events.settings import EventSettings, HistorySettings

from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.meta.settings import MetaSettings
from slotreeve_servers.node.settings import (
    ClusterSettings,
    GatewaySettings,
    HttpSettings,
    LogSettings,
    NodeSettings,
    ObjectiveSettings,
)
from slotreeve_servers.session.settings import SessionSettings


class Settings(PortChoices):
    """Everything that can be set. Each plugin's own options stand in the table named after it."""

    cluster: ClusterSettings = ClusterSettings()
    node: NodeSettings = NodeSettings()
    meta: MetaSettings = MetaSettings()
    data: DataSettings = DataSettings()
    session: SessionSettings = SessionSettings()
    http: HttpSettings = HttpSettings()
    gateway: GatewaySettings = GatewaySettings()
    objective: ObjectiveSettings = ObjectiveSettings()
    log: LogSettings = LogSettings()
    events: EventSettings = EventSettings()
    history: HistorySettings = HistorySettings()


ServerConfiguration = Configuration[Settings]
"""Validated settings of a process, and where each value came from."""


def load_settings(
    file: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]
) -> ServerConfiguration:
    """Read and merge a file, the environment and flags (dotted keys).

    Raises:
        ConfigError: the file cannot be read or parsed, or anything is unknown or does not validate.
    """
    return load_configuration(Settings, file, environment, flags)
