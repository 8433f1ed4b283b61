"""The hooks a plugin may implement, on one page.

The first six return offers and are called once, at start-up. The others observe: they are called after something has
happened, at most a few times a second, and cannot change it. An exception in one is logged and has no other effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pluggy

from slotreeve.model.loads import SlotLoad
from slotreeve.model.nodes import Node
from slotreeve.model.slots import Move, SlotTable
from slotreeve.offers import Offer
from slotreeve.ports import Leadership

PROJECT = "slotreeve"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def slotreeve_elections() -> Sequence[Offer]:  # type: ignore[empty-body]
    """Offers that build an :class:`slotreeve.ports.Election`."""


@hookspec
def slotreeve_slot_functions() -> Sequence[Offer]:  # type: ignore[empty-body]
    """Offers that build a :class:`slotreeve.ports.SlotFunction`."""


@hookspec
def slotreeve_assigners() -> Sequence[Offer]:  # type: ignore[empty-body]
    """Offers that build an :class:`slotreeve.ports.Assigner`."""


@hookspec
def slotreeve_balancers() -> Sequence[Offer]:  # type: ignore[empty-body]
    """Offers that build a :class:`slotreeve.ports.Balancer`."""


@hookspec
def slotreeve_transports() -> Sequence[Offer]:  # type: ignore[empty-body]
    """Offers that build a :class:`slotreeve.ports.Transport`."""


@hookspec
def slotreeve_faces() -> Sequence[Offer]:  # type: ignore[empty-body]
    """Offers that build a :class:`slotreeve.ports.Face`."""


@hookspec
def slotreeve_leader_changed(leadership: Leadership) -> None:
    """The meta leader changed, or its term did, in this meta server's view."""


@hookspec
def slotreeve_table_published(table: SlotTable, moves: Sequence[Move], reason: str) -> None:
    """The meta leader committed a new slot table. ``moves`` are all changes from the table before it."""


@hookspec
def slotreeve_node_joined(node: Node) -> None:
    """A data or session server joined. Called on the meta leader only."""


@hookspec
def slotreeve_node_left(node: Node, reason: str) -> None:
    """A data or session server left. Called on the meta leader only; ``reason`` says how the leader noticed."""


@hookspec
def slotreeve_loads_changed(loads: Mapping[int, SlotLoad]) -> None:
    """The loads of these slots have changed noticeably. Called on the meta leader only, at most every half minute, with
    at most a thousand slots; a new leader tells those of all slots again."""
