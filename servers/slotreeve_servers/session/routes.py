"""Where each slot's leader is (original: ``SlotTableCacheImpl``)."""

from __future__ import annotations

from slotreeve.model.slots import Slot, SlotTable
from slotreeve.ports import Connection

from slotreeve_servers.node.links import Links


class Routes:
    """Slot to (leader's connection, leader epoch), by the newest table."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self.slots: tuple[Slot, ...] = ()

    def apply(self, table: SlotTable) -> list[int]:
        """Take a newer table; returns the slots whose leader or leader epoch changed."""
        old, self.slots = self.slots, table.slots
        if len(old) != len(table.slots):
            return [slot.id for slot in table.slots]
        return [
            new.id
            for before, new in zip(old, table.slots, strict=True)
            if new.leader_epoch != before.leader_epoch or new.leader != before.leader
        ]

    def leader_of(self, slot: int) -> tuple[Connection, int] | None:
        """The connection to the leader of ``slot`` and its epoch; None while there is none to talk to."""
        if slot >= len(self.slots):
            return None
        row = self.slots[slot]
        connection = self._links.connected.get(row.leader or "")
        return None if connection is None else (connection, row.leader_epoch)

    def led_by(self, node: str) -> list[int]:
        """The slots that ``node`` leads."""
        return [slot.id for slot in self.slots if slot.leader == node]
