"""Settings of the event log: the table ``[events]``."""

from __future__ import annotations

from pydantic import Field
from slotreeve.configuration import Section


class EventSettings(Section):
    """Where and how a server writes its event log."""

    path: str = Field(default="", description="Directory that event logs are written to; empty: none is written.")
    segment_bytes: int = Field(
        default=16 << 20, ge=1_000, description="A segment of this size is finished, and readers see it."
    )
    flush_seconds: float = Field(
        default=0.25, gt=0, description="Interval of writes; a crash loses the events of at most this time."
    )


class HistorySettings(Section):
    """What a server keeps of the past, for the people who ask it (``slotreeve why``, ``get --at``, ``events``)."""

    enabled: bool = Field(default=True, description="Whether a server keeps a history.")
    directory: str = Field(
        default="var/history",
        description="Where; each server has a directory of its own below it, named after cluster and server. One that "
        "cannot be used costs the history, and the server starts without.",
    )
    most_bytes: int = Field(default=256 << 20, ge=1 << 20, description="A history of this size loses its oldest part.")
    keep_seconds: float = Field(
        default=86_400.0, ge=60, allow_inf_nan=False, description="What is older may be removed."
    )
    flush_seconds: float = Field(
        default=0.5,
        ge=0.05,
        allow_inf_nan=False,
        description="Interval of writes. Changes of a registration within it are one entry.",
    )
    changes_per_second: int = Field(
        default=2_000,
        ge=10,
        description="So many changes are written in a second, those of 5 s may wait. Where there are more, the history "
        "has a gap until there are few again: it tells from when to when, and how many.",
    )
