"""The hooks a plugin may implement, on one page.

The first five hand out offers at start-up. The others observe: they are called a few times a second at most, after
the fact, and cannot change it; an exception in one is logged and counted and disturbs nobody.
"""

from __future__ import annotations

from collections.abc import Sequence

import pluggy

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
def slotreeve_leader_changed(leadership: Leadership) -> None:
    """The meta leader changed, as this node sees it."""


@hookspec
def slotreeve_table_published(table: SlotTable, moves: Sequence[Move], reason: str) -> None:
    """The meta leader committed a new slot table; ``moves`` lead to it from the one before, each with its reason."""


@hookspec
def slotreeve_node_joined(node: Node) -> None:
    """A data or session server joined (on the meta leader)."""


@hookspec
def slotreeve_node_left(node: Node, reason: str) -> None:
    """A data or session server left (on the meta leader); ``reason`` says how that was noticed."""
