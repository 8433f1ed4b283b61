"""What the hooks of a meta server tell, as events: one place for the event log and for the history."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from slotreeve.hookspecs import hookimpl
from slotreeve.model.loads import SlotLoad
from slotreeve.model.nodes import Node
from slotreeve.model.slots import Move, SlotTable
from slotreeve.ports import Leadership

from slotreeve_events.schema import Event, RecordedLoad, SlotHolders, SlotMove


class MetaEvents(ABC):
    """A plugin that turns hooks into events. Register it with the plugin manager of a meta server."""

    def __init__(self) -> None:
        self._term = 0
        self._wrote_whole_table = False

    @abstractmethod
    def _event(self, kind: str) -> Event:
        """A new event of this server and this moment; its other fields are filled in at once."""

    @hookimpl
    def slotreeve_leader_changed(self, leadership: Leadership) -> None:
        """The leader changed in this server's view."""
        event = self._event("leader")
        event.leader, event.reason = leadership.leader, leadership.cause
        self._term = event.term = leadership.term

    @hookimpl
    def slotreeve_table_published(self, table: SlotTable, moves: Sequence[Move], reason: str) -> None:
        """The meta leader committed a new slot table."""
        event = self._event("table")
        event.epoch, event.term, event.reason = table.epoch, self._term, reason
        moved = {move.slot for move in moves}
        event.changed = [
            SlotHolders(s.id, s.leader, s.leader_epoch, s.followers, s.learners)
            for s in table.slots
            if s.id in moved or not self._wrote_whole_table
        ]
        event.moves = [SlotMove.of(move) for move in moves]
        self._wrote_whole_table = True

    @hookimpl
    def slotreeve_node_joined(self, node: Node) -> None:
        """A data or session server joined."""
        self._member("node_joined", node)

    @hookimpl
    def slotreeve_node_left(self, node: Node, reason: str) -> None:
        """A data or session server left."""
        self._member("node_left", node).reason = reason

    @hookimpl
    def slotreeve_loads_changed(self, loads: Mapping[int, SlotLoad]) -> None:
        """The loads of these slots have changed noticeably."""
        self._event("loads").loads = [RecordedLoad.of(slot, load) for slot, load in sorted(loads.items())]

    def _member(self, kind: str, node: Node) -> Event:
        event = self._event(kind)
        event.member, event.role = node.name, str(node.role)
        event.zone, event.weight = node.zone or None, node.weight
        return event
