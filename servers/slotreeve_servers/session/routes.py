"""Where each slot's leader is (original: ``SlotTableCacheImpl``). Pure."""

from __future__ import annotations

from slotreeve.model.slots import Slot, SlotTable

from slotreeve_servers.node.outbox import Peer


class Routes:
    """Slot to (leader, leader epoch), by the newest table and the links that are up.

    Attributes:
        slots: the rows of the newest table. ``leaders``: the names in it, sorted.
        linked: the connected data servers by name.
    """

    def __init__(self) -> None:
        self.slots: tuple[Slot, ...] = ()
        self.leaders: tuple[str, ...] = ()
        self.linked: dict[str, Peer] = {}

    def opened(self, peer: Peer) -> None:
        """The link to a data server is up."""
        self.linked[peer.node] = peer

    def closed(self, peer: Peer) -> None:
        """A link to a data server is down."""
        if self.linked.get(peer.node) is peer:
            del self.linked[peer.node]

    def apply(self, table: SlotTable) -> list[int]:
        """Take a newer table; return the slots whose leader or leader epoch changed."""
        old, self.slots = self.slots, table.slots
        self.leaders = tuple(sorted({slot.leader for slot in table.slots if slot.leader is not None}))
        if len(old) != len(table.slots):
            return [slot.id for slot in table.slots]
        return [
            new.id
            for before, new in zip(old, table.slots, strict=True)
            if new.leader_epoch != before.leader_epoch or new.leader != before.leader
        ]

    def leader_of(self, slot: int) -> tuple[Peer, int] | None:
        """The leader of ``slot`` and its epoch; None while no leader is known or linked."""
        if slot >= len(self.slots):
            return None
        row = self.slots[slot]
        peer = self.linked.get(row.leader or "")
        return None if peer is None else (peer, row.leader_epoch)

    def led_by(self, node: str) -> list[int]:
        """The slots that ``node`` leads."""
        return [slot.id for slot in self.slots if slot.leader == node]
