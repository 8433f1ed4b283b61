"""Settings of data servers: the table ``[data]``."""

from __future__ import annotations

from pydantic import Field
from slotreeve.configuration import Section


class DataSettings(Section):
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
