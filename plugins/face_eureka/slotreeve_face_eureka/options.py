"""Options of the face."""

from __future__ import annotations

from pydantic import Field
from slotreeve import Options
from slotreeve.model.data_info import DEFAULT_GROUP


class EurekaOptions(Options):
    """How services look to clients of Eureka."""

    group: str = Field(default=DEFAULT_GROUP, min_length=1, description="Group of the services; others are not shown.")
