"""Logging of server processes: one line an event on standard error, key=value for people, JSON for machines."""

from __future__ import annotations

import logging
import sys

from slotreeve.model.text import in_a_line
from slotreeve_servers.node.settings import LogSettings
from slotreeve_servers.node.settings_in_force import SettingsInForce


def configure_logging(rules: LogSettings, node: str) -> None:
    """Send everything logged by this process through one formatter; ``node`` stands on every line."""
    import structlog
    from structlog.typing import EventDict, Processor, WrappedLogger

    def add_node(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        event.setdefault("node", node)
        return event

    def in_lines(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        event["event"] = in_a_line(str(event.get("event", "")))
        return event

    as_json = rules.format == "json" or (rules.format == "auto" and not sys.stderr.isatty())
    renderer = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(pad_event_to=0)
    before: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        add_node,
    ]
    after: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    after.append(structlog.processors.format_exc_info if as_json else in_lines)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=before, processors=[*after, renderer]))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(rules.level.upper())


def follow_level(settings: SettingsInForce) -> None:
    """Change the level of this process where the operator changes ``log.level``."""
    settings.follow(lambda now: logging.getLogger().setLevel(now.log.level.upper()))
