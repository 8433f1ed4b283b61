"""Where each slot's leader is (original: ``SlotTableCacheImpl``). Pure."""

from __future__ import annotations

from slotreeve.model.slots import Slot, SlotTable

from slotreeve_servers.node.outbox import Peer


class Routes:
    """Slot to (leader, leader epoch), by the newest table and the links that are up.

    A leader that compares a slot under a newer leader epoch has a newer table than this server. What went to the former
    leader after the comparison would be missing at the new one, so from then on everything goes to the new one.

    Attributes:
        slots: the rows of the newest table.
        linked: the connected data servers by name.
    """

    def __init__(self) -> None:
        self.slots: tuple[Slot, ...] = ()
        self._leaders: tuple[str, ...] | None = None
        self.linked: dict[str, Peer] = {}
        self._ahead: dict[int, tuple[str, int]] = {}

    def opened(self, peer: Peer) -> None:
        """The link to a data server is up."""
        self.linked[peer.node] = peer

    def closed(self, peer: Peer) -> None:
        """A link to a data server is down."""
        if self.linked.get(peer.node) is peer:
            del self.linked[peer.node]

    def apply(self, table: SlotTable) -> list[int]:
        """Take a newer table; return the slots whose leader or leader epoch changed."""
        before = [self._row(slot.id) for slot in self.slots]
        self.slots = table.slots
        self._leaders = None
        self._ahead = {
            row.id: self._ahead[row.id]
            for row in table.slots
            if row.id in self._ahead and self._ahead[row.id][1] > row.leader_epoch
        }
        if len(before) != len(self.slots):
            return [slot.id for slot in self.slots]
        return [slot for slot, row in enumerate(before) if row != self._row(slot)]

    def begin_anew(self) -> None:
        """Leader epochs are counted anew: the next table says who leads."""
        self.slots, self._leaders, self._ahead = (), None, {}

    def compares(self, node: str, slot: int, leader_epoch: int) -> bool:
        """``node`` compares the slot as its leader under this epoch. Returns whether that is news here."""
        if slot >= len(self.slots) or leader_epoch <= self._row(slot)[1]:
            return False
        self._ahead[slot] = node, leader_epoch
        self._leaders = None
        return True

    @property
    def leaders(self) -> tuple[str, ...]:
        """The names of all slot leaders, sorted."""
        if self._leaders is None:
            names = {self._row(slot.id)[0] for slot in self.slots}
            self._leaders = tuple(sorted(name for name in names if name is not None))
        return self._leaders

    def _row(self, slot: int) -> tuple[str | None, int]:
        if slot in self._ahead:
            return self._ahead[slot]
        row = self.slots[slot]
        return row.leader, row.leader_epoch

    def leader_of(self, slot: int) -> tuple[Peer, int] | None:
        """The leader of ``slot`` and its epoch; None while no leader is known or linked."""
        if slot >= len(self.slots):
            return None
        if self._ahead:
            leader, epoch = self._row(slot)
        else:  # for each record that is sent
            row = self.slots[slot]
            leader, epoch = row.leader, row.leader_epoch
        peer = self.linked.get(leader or "")
        return None if peer is None else (peer, epoch)

    def leads(self, peer: Peer, slot: int) -> bool:
        """Whether the slot's leader is linked, and by this connection."""
        leader = self.leader_of(slot)
        return leader is not None and leader[0] is peer

    def led(self) -> dict[Peer, list[tuple[int, int]]] | None:
        """Slots with their leader epochs, by the leader; None while a slot has no leader that is known and linked."""
        found: dict[Peer, list[tuple[int, int]]] = {}
        for slot in range(len(self.slots)):
            leader = self.leader_of(slot)
            if leader is None:
                return None
            found.setdefault(leader[0], []).append((slot, leader[1]))
        return found

    def led_by(self, node: str) -> list[int]:
        """The slots that ``node`` leads."""
        return [slot.id for slot in self.slots if self._row(slot.id)[0] == node]
