"""Messages between meta servers and everybody.

Rules for all messages: :mod:`slotreeve.wire.messages`.
"""

from __future__ import annotations

import msgspec

from slotreeve.model.nodes import Node
from slotreeve.model.slots import SlotFacts, SlotTable


class View(msgspec.Struct, array_like=True, frozen=True, tag=60):
    """Meta leader to all: the committed state of the cluster. Receivers apply only a higher ``revision``.

    ``term`` is the term it was committed under; ``table.epoch`` rises more slowly than ``revision``, which counts
    every committed change of table or membership. ``facts`` are those of the whole cluster, for ever.
    """

    term: int
    revision: int
    table: SlotTable
    data: list[Node]
    sessions: list[Node]
    facts: SlotFacts | None = None


class Heartbeat(msgspec.Struct, array_like=True, frozen=True, tag=61):
    """Data or session to meta leader, ? Beat or LeaderIs: I live.

    ``unsettled`` (data only): slots of table ``table_epoch`` that I should lead or follow but do not yet hold
    completely.
    """

    node: Node
    revision: int
    table_epoch: int
    unsettled: list[int]


class Beat(msgspec.Struct, array_like=True, frozen=True, tag=62):
    """Reply: your lease is renewed for ``lease_seconds``; ``view`` where you lag behind."""

    term: int
    lease_seconds: float
    view: View | None


class LeaderIs(msgspec.Struct, array_like=True, frozen=True, tag=63):
    """Meta to all connected, and reply of a meta that does not lead: who does (None: nobody known)."""

    term: int
    leader: str | None
    address: str | None


class Leave(msgspec.Struct, array_like=True, frozen=True, tag=64):
    """Data or session to meta leader, ? Done or LeaderIs: I stop on purpose."""

    node: Node
    reason: str


class GetView(msgspec.Struct, array_like=True, frozen=True, tag=65):
    """Anybody to meta, ? View: the committed state as you know it."""


class GetLeader(msgspec.Struct, array_like=True, frozen=True, tag=66):
    """Anybody to meta, ? LeaderIs."""
