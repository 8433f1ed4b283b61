"""A planned change of the slot table: what assigners and balancers return."""

from __future__ import annotations

import msgspec

from slotreeve.model.slots import Move, SlotTable


class Plan(msgspec.Struct, frozen=True):
    """A changed table and how it came about.

    Attributes:
        table: same number of slots; epochs as in the input (whoever commits the plan raises them).
        moves: every change from the input to ``table``, in order, each with its reason.
    """

    table: SlotTable
    moves: tuple[Move, ...]
