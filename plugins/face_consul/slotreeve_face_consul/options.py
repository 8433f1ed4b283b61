"""Options of the face."""

from __future__ import annotations

from pydantic import Field
from slotreeve import Options
from slotreeve.model.data_info import DEFAULT_GROUP

DAY_SECONDS = 86_400.0


class ConsulOptions(Options):
    """How services look to clients of Consul."""

    datacenter: str = Field(
        default="", pattern=r"^[a-zA-Z0-9_-]*$", description="Name of the datacenter; empty: that of the cluster."
    )
    group: str = Field(default=DEFAULT_GROUP, min_length=1, description="Group of the services; others are not shown.")
    unchecked_seconds: float = Field(
        default=DAY_SECONDS, ge=1, le=DAY_SECONDS, description="How long a registration without a TTL check lives."
    )
    ignore_other_checks: bool = Field(
        default=False,
        description="True: accept registrations with checks that an agent would run (HTTP, TCP, script); nobody runs "
        "them, so the instance is passing until it ends. False: refuse them.",
    )
    tags_in_lists: bool = Field(
        default=True,
        description="Whether the list of services shows their tags. The gateway watches every service for it.",
    )
