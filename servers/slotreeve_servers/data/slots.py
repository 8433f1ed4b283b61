"""The slots one data server holds, and what it may do with each (original: ``SlotManagerImpl``). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from slotreeve.model.datum import content_digest, first_version, with_change
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve.ports import Connection
from slotreeve_protocol.slot_messages import Access, Known, SlotWrite

from slotreeve_servers.node.records import SlotStore, Stored

_CHANGED = Stored.CHANGED


@dataclass(eq=False, slots=True)
class Tracked:
    """A service that some session server wants to hear about.

    Attributes:
        version: of the present content; ``told``: of the content that the sessions were last told.
        digest: content digest at ``version``.
        sessions: who wants it; until the slot serves and the session was compared with: with what it already knows.
        pending: what changed since ``told``: the new record, or None where it went away.
    """

    version: int
    told: int
    digest: int
    sessions: dict[Connection, Known | None] = field(default_factory=dict)
    pending: dict[str, Publisher | None] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class HeldSlot:
    """One slot on this server.

    Attributes:
        slot: the table's row. ``leads``: this server is its leader.
        serving: leader: every session has been compared with, so that reads are complete (I7).
        led_since: leader: when it began to lead, on the server's clock.
        compared: leader: session processes compared with under this leader epoch.
        departing: leader: how many words of leaving clients wait to be believed.
        synced: follower: complete, and streamed to by the leader.
        version: rises with every change of content; at least ``first_version(leader_epoch)`` (I11).
        tracked: services with an interested session, by data info id.
        streams: leader: connections of the followers in sync.
    """

    slot: Slot
    leads: bool
    store: SlotStore = field(default_factory=SlotStore)
    serving: bool = False
    led_since: float = 0.0
    compared: set[str] = field(default_factory=set)
    departing: int = 0
    synced: bool = False
    version: int = 0
    tracked: dict[str, Tracked] = field(default_factory=dict)
    streams: set[Connection] = field(default_factory=set)

    def access(self, leader_epoch: int) -> Access:
        """What a request that names ``leader_epoch`` may do (original: ``SlotAccess``)."""
        if not self.leads:
            return Access.MOVED
        if leader_epoch != self.slot.leader_epoch:
            return Access.MISMATCH
        return Access.ACCEPT if self.serving else Access.MIGRATING

    @property
    def settled(self) -> bool:
        """Complete in its role."""
        return self.serving if self.leads else self.synced

    def apply(self, write: SlotWrite, now: float) -> dict[str, Tracked]:
        """Store what ``write`` says; returns the tracked services whose content changed."""
        touched: dict[str, Tracked] = {}
        put, tracked = self.store.put, self.tracked
        for record in write.records:
            service = tracked.get(record.data_info_id) if tracked else None
            if service is None:
                if put(record, now) is _CHANGED:
                    self.version += 1
                continue
            old = self.store.find(record)
            if put(record, now) is _CHANGED:
                self._note(service, old, None if record.is_tombstone else record, record.register_id)
                touched[record.data_info_id] = service
        for tombstone in write.gone:
            old = self.store.find(tombstone)
            if self.store.put_gone(tombstone, now):
                self._removed(old, touched)
        for data_info_id, register_id in write.purged:
            old = self.store.services.get(data_info_id, {}).get(register_id)
            if self.store.purge(data_info_id, register_id):
                self._removed(old, touched)
        return touched

    def _removed(self, old: Publisher | None, touched: dict[str, Tracked]) -> None:
        assert old is not None
        service = self.tracked.get(old.data_info_id)
        if service is None:
            self.version += 1
            return
        self._note(service, old, None, old.register_id)
        touched[old.data_info_id] = service

    def _note(self, service: Tracked, old: Publisher | None, new: Publisher | None, register_id: str) -> None:
        self.version += 1
        service.version = self.version
        service.digest = with_change(service.digest, old, new)
        service.pending[register_id] = new

    def track(self, data_info_id: str) -> Tracked:
        """The tracked state of a service, begun now if nobody was interested before."""
        service = self.tracked.get(data_info_id)
        if service is None:
            digest = content_digest(self.store.services.get(data_info_id, {}).values())
            service = self.tracked[data_info_id] = Tracked(self.version, self.version, digest)
        return service

    def serve(self) -> None:
        """Every session has been compared with: from now on reads are answered."""
        self.serving = True
        for service in self.tracked.values():
            service.told = service.version
            service.pending = {}


class HeldSlots:
    """All slots of one server, kept equal to the newest table."""

    def __init__(self, node: str) -> None:
        self._node = node
        self.held: dict[int, HeldSlot] = {}

    def led(self) -> Iterable[HeldSlot]:
        """The slots this server leads."""
        return (slot for slot in self.held.values() if slot.leads)

    def unsettled(self) -> list[int]:
        """The slots this server does not yet hold completely."""
        return sorted(number for number, slot in self.held.items() if not slot.settled)

    def apply(self, table: SlotTable) -> tuple[list[HeldSlot], list[HeldSlot]]:
        """Follow a newer table; returns (slots newly led, slots newly followed or with a new leader to follow).

        A slot whose leader epoch changed starts over as migrating, even where this server led it before. Records
        of slots that this server keeps are kept; those of slots it lost are dropped.
        """
        led: list[HeldSlot] = []
        followed: list[HeldSlot] = []
        mine = {row.id: row for row in table.slots if row.leader == self._node or self._node in row.followers}
        for number in self.held.keys() - mine.keys():
            del self.held[number]
        for number, row in mine.items():
            old = self.held.get(number)
            leads = row.leader == self._node
            if old is not None and old.slot.leader_epoch == row.leader_epoch and old.leads == leads:
                old.slot = row
                continue
            store = old.store if old is not None else SlotStore()
            new = self.held[number] = HeldSlot(row, leads, store, version=first_version(row.leader_epoch))
            if leads:
                led.append(new)
            else:
                followed.append(new)
        return led, followed
