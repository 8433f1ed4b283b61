"""Slots and the slot table (original: ``Slot``, ``SlotTable``)."""

from __future__ import annotations

from collections.abc import Collection, Set

import msgspec


class Slot(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One shard of the services.

    Attributes:
        id: 0 .. slots - 1.
        leader: the data server that accepts writes and answers reads; None if the slot has no leader.
        leader_epoch: the table epoch at which the leader took over; changes exactly when the leader does (I4).
        followers: the data servers in sync, in the order in which they were added: each has every write that was
            acknowledged and that nobody can send again. One of them leads next.
        learners: the data servers that copy the slot and are not in sync yet. Assigners and balancers see none.
    """

    id: int
    leader: str | None
    leader_epoch: int
    followers: tuple[str, ...]
    learners: tuple[str, ...] = ()

    @property
    def in_sync(self) -> tuple[str, ...]:
        """The servers in sync, the leader first."""
        return self.followers if self.leader is None else (self.leader, *self.followers)

    @property
    def holders(self) -> tuple[str, ...]:
        """Who is in sync, and the learners."""
        return (*self.in_sync, *self.learners)

    def is_led_alone(self, by: Collection[str], live: Set[str]) -> bool:
        """Whether one of ``by`` leads it, and nobody of ``live`` follows."""
        return self.leader in by and live.isdisjoint(self.followers)


class SlotTable(msgspec.Struct, array_like=True, frozen=True):
    """The leader and the followers of every slot.

    Attributes:
        epoch: rises with every change, also when the meta leader changes (I4); 0 for the empty table.
        slots: slot ``i`` is at index ``i``; empty before the first assignment.
    """

    epoch: int = 0
    slots: tuple[Slot, ...] = ()

    @classmethod
    def unassigned(cls, slots: int) -> SlotTable:
        """A table of ``slots`` slots without leader and followers, at epoch 0."""
        return cls(0, tuple(Slot(i, None, 0, ()) for i in range(slots)))


class SlotFacts(msgspec.Struct, array_like=True, frozen=True):
    """The facts that must be equal on every server of a cluster (original: ``SlotBasicInfo``).

    Attributes:
        slots: number of slots.
        replicas: copies of each slot, the leader's included.
        function: name of the slot function.
    """

    slots: int
    replicas: int
    function: str


class Limits(msgspec.Struct, frozen=True):
    """Limits for assigners and balancers.

    Attributes:
        replicas: copies of each slot, the leader's included; with fewer live servers, one on each.
    """

    replicas: int


class Move(msgspec.Struct, array_like=True, frozen=True):
    """One change of one slot.

    Attributes:
        slot: its id.
        kind: ``leader`` (``target`` becomes leader), ``follower`` (``target`` becomes follower) or ``drop``
            (``source`` holds the slot no more and is not replaced). In committed tables also ``learn`` (``target``
            begins to copy) and ``demote`` (``source`` follows no more and copies).
        source: the server that loses the place; None if the place was empty.
        target: the server that gets it; None for ``drop`` and ``demote``.
        reason: one clause for people, e.g. ``leader left`` or ``data-3 leads 20, fair share is 16``.
    """

    slot: int
    kind: str
    source: str | None
    target: str | None
    reason: str
