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
