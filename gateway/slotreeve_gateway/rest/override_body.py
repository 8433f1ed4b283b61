"""What callers send and get of an operator's override, in every face that speaks REST. Pure."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from slotreeve_protocol.instance import MAX_WEIGHT
from slotreeve_protocol.overrides import MAX_OVERRIDE_NOTE_LENGTH, Override

Weight = Annotated[int, Meta(ge=0, le=MAX_WEIGHT)]


class OverrideBody(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What an operator wants of an instance, whatever its provider says. At least one of weight, enabled and drain."""

    weight: Annotated[Weight | None, Meta(description="null: as the provider says.")] = None
    enabled: Annotated[bool | None, Meta(description="null: as the provider says.")] = None
    drain: Annotated[bool, Meta(description="true: no new traffic; its weight is 0.")] = False
    note: Annotated[str, Meta(max_length=MAX_OVERRIDE_NOTE_LENGTH, description="Why, for people.")] = ""

    def override(self) -> Override:
        """The override."""
        return Override(self.weight, self.enabled, self.drain, self.note)

    @classmethod
    def of(cls, override: Override) -> OverrideBody:
        """What callers see of an override."""
        return cls(override.weight, override.enabled, override.drain, override.note)
