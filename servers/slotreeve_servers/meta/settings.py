"""Settings of meta servers: the table ``[meta]``."""

from __future__ import annotations

from pydantic import Field, model_validator
from slotreeve.configuration import Section
from slotreeve_protocol.meta_messages import MOST_BACK_SECONDS


class MetaSettings(Section):
    """The meta leader's rules."""

    lease_seconds: float = Field(
        default=5.0, gt=0, description="A server that sends no heartbeat for this long has left."
    )
    heartbeat_seconds: float = Field(default=1.0, gt=0, description="Servers' heartbeat interval.")
    lost_connection_seconds: float = Field(
        default=0.3, ge=0, description="A server whose connection closed has this long to come back before it has left."
    )
    unseen_seconds: float = Field(
        default=1.0, gt=0, description="A member not connected to a new meta leader has this long to show up."
    )
    first_assign_seconds: float = Field(
        default=0.3, ge=0, description="The very first assignment waits this long for more data servers to join."
    )
    shadow_election: str = Field(
        default="",
        description="A second election plugin that holds elections of its own and never acts, to rehearse a migration.",
    )
    protect_below: int = Field(
        default=0,
        ge=0,
        description="Protection mode: while fewer data servers than this live, the slot table stays as it is.",
    )
    restart_seconds: float = Field(
        default=30.0,
        gt=0,
        le=MOST_BACK_SECONDS,
        description="A server that stops for a restart keeps its places as follower for so long.",
    )
    arrange_seconds: float = Field(
        default=1.0, gt=0, description="The slot table is looked at when nodes change, and this often."
    )

    @model_validator(mode="after")
    def _lease_outlives_heartbeats(self) -> MetaSettings:
        if self.lease_seconds < 3 * self.heartbeat_seconds:
            raise ValueError("lease_seconds must be at least 3 x heartbeat_seconds, or one lost heartbeat ends a lease")
        return self
