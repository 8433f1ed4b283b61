"""Incidents for tests: servers that join and leave."""

from __future__ import annotations

from dataclasses import replace

from slotreeve_spark.seed.facts import (
    Incident,
    MemberEvent,
)

SECONDS = 60.0
QUIET = Incident(SECONDS, "noon", "a minute later")


def joined(at: float, name: str) -> MemberEvent:
    return MemberEvent(at, True, name, name.partition("-")[0])


def left(at: float, name: str, reason: str) -> MemberEvent:
    return MemberEvent(at, False, name, name.partition("-")[0], reason)


def with_members(*events: MemberEvent) -> Incident:
    """Two data servers and a session server, and then these."""
    before = [joined(-90.0, name) for name in ("data-a", "data-b", "session-x")]
    return replace(QUIET, members=(*before, *events))
