"""Slots and the slot table (original: ``Slot``, ``SlotTable``)."""

from __future__ import annotations

import msgspec


class Slot(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One shard of the data.

    Attributes:
        id: 0 .. slots - 1.
        leader: the data server that accepts writes and answers reads; None while nobody holds the slot.
        leader_epoch: the table epoch at which the leader took over; changes exactly when the leader does (I4).
        followers: the data servers that hold copies, in the order they were added.
    """

    id: int
    leader: str | None
    leader_epoch: int
    followers: tuple[str, ...]


class SlotTable(msgspec.Struct, array_like=True, frozen=True):
    """Who holds which slot.

    Attributes:
        epoch: rises with every change, also across meta leaders (I4); 0 for the empty table.
        slots: slot ``i`` at index ``i``; empty until the first assignment.
    """

    epoch: int = 0
    slots: tuple[Slot, ...] = ()

    @classmethod
    def unassigned(cls, slots: int) -> SlotTable:
        """A table of ``slots`` slots that nobody holds, at epoch 0."""
        return cls(0, tuple(Slot(i, None, 0, ()) for i in range(slots)))


class SlotFacts(msgspec.Struct, array_like=True, frozen=True):
    """What must be equal on every server of a cluster (original: ``SlotBasicInfo``).

    Attributes:
        slots: number of slots.
        replicas: copies of each slot, the leader's included.
        function: name of the slot function.
    """

    slots: int
    replicas: int
    function: str


class Limits(msgspec.Struct, frozen=True):
    """What an assigner or balancer must keep to.

    Attributes:
        replicas: copies of each slot, the leader's included; fewer where fewer servers live.
    """

    replicas: int


class Move(msgspec.Struct, array_like=True, frozen=True):
    """One change to one slot, with its reason.

    Attributes:
        slot: its id.
        kind: ``leader`` (``target`` becomes leader), ``follower`` (``target`` becomes follower) or ``drop``
            (``source`` stops being follower, nobody takes its place).
        source: who gives up the place; None where it was empty.
        target: who takes it; None for ``drop``.
        reason: why, for a person: one clause, e.g. ``leader left`` or ``data-3 leads 20, fair share is 16``.
    """

    slot: int
    kind: str
    source: str | None
    target: str | None
    reason: str
