"""A planned change of the slot table, made by an assigner or balancer."""

from __future__ import annotations

import msgspec

from slotreeve.model.slots import Move, SlotTable


class Plan(msgspec.Struct, frozen=True):
    """A changed table and the moves that lead to it.

    Attributes:
        table: has as many slots and the same epochs as the input; the meta leader raises the epochs.
        moves: every change from the input to ``table``, in order, each with its reason.
    """

    table: SlotTable
    moves: tuple[Move, ...]
