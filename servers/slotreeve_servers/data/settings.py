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
    brake_few: int = Field(
        default=64,
        ge=0,
        description="So many lost clients and unrenewed leases may end at once, of one service and of all together.",
    )
    brake_share: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="Beyond brake_few, only less than this share of a service and of all registrations ends.",
    )
    brake_window_seconds: float = Field(
        default=10.0, gt=0, description="Ends within this time count together for brake_few and brake_share."
    )
    brake_hold_seconds: float = Field(
        default=60.0, ge=0, description="Longest time for which the end of a lost client or of a lease is held back."
    )
    emergency_seconds: float = Field(
        default=40.0,
        ge=0,
        description="A slot waits so long for one silent session server of several, then serves anyway; 0: for ever.",
    )
    repair_seconds: float = Field(
        default=6.0,
        gt=0,
        description="Interval of the digest comparison with each session server; of 256 slots in turn.",
    )
    drain_seconds: float = Field(
        default=30.0, ge=0, description="A server that stops has this long to hand over its slots; then it leaves."
    )
    tombstone_seconds: float = Field(
        default=180.0, gt=0, description="How long the trace of an ended registration is kept."
    )
