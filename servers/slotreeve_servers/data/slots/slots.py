"""The slots that one data server holds, and what it may do with each (original: ``SlotManagerImpl``). Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from slotreeve.model.datum import first_version, with_change
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.slot_messages import Access, Known, SlotAnswer, SlotWrite

from slotreeve_servers.node.deltas import PART_BYTES
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.node.records import SlotStore, Stored

_CHANGED = Stored.CHANGED


@dataclass(eq=False, slots=True)
class TrackedService:
    """A service that some session server has an interest in.

    Attributes:
        version: version of the present content. ``announced``: the version that the session servers have.
        digest: content digest at ``version``, once :meth:`HeldSlot.hashed` was called.
        sessions: the interested session servers. The value is what the session server knew when it declared its
            interest, and None once changes are sent to it: when the slot serves, was compared with it, and the
            service was announced to it.
        pending: what changed since ``announced``, by register id: the new record, or None where it went away.
        born: when the oldest change that was not announced came to the first server, on the clock of this one: when it
            came here, less what that one says that it took there. Infinite: all were announced.

    While its slot does not serve, its births are noted on the slot: session servers declare their interest meanwhile.
    """

    version: int
    announced: int
    digest: int = 0
    is_hashed: bool = False
    sessions: dict[Peer, Known | None] = field(default_factory=dict)
    pending: dict[str, Publisher | None] = field(default_factory=dict)
    born: float = math.inf


@dataclass(eq=False, slots=True)
class HeldSlot:
    """One slot on this server.

    Attributes:
        slot: the row of the table. ``leads``: this server is its leader.
        serving: leader: the slot was compared with every session server, so that reads are complete (I7).
        led_since, served_since: leader: when this server began to lead it, and it to serve, in attended seconds.
        compared: leader: the session processes that were compared with under this leader epoch.
        leaving: leader: registrations that end because their clients said so, once the session servers have answered.
        was_in_sync: this server had all that was acknowledged when it began to hold the slot in this role: it was in
            sync, or led, or learned and was made the leader by one that lived.
        synced: follower or learner: complete, and streamed to by the leader. ``synced_since``: on the clock of this
            server, in seconds.
        writes: records, ends and purges that were stored since this server holds the slot in this role.
        version: rises with every change of content; at least ``first_version(leader_epoch)`` (I11).
        tracked: services with an interested session server, by data info id. ``watched``: those of each of them.
        copying: leader: the followers and learners that are streamed to while they still copy what differs, each with
            the :attr:`since` of its copy.
        streams: leader: those that have all and are streamed to, in the order in which they came, with the same.
        since: the epoch of the table with which this server began to hold the slot in this role, or began anew.
        is_streamed: follower: the leader has answered a question about this copy; what it streamed before that is of
            another one.
        leases_written, leases_confirmed: leader: how often leases were written, and how much of that all in sync have.
        born: leader: the birth of the oldest change that came before it serves (:class:`TrackedService`).
    """

    slot: Slot
    leads: bool
    store: SlotStore = field(default_factory=SlotStore)
    serving: bool = False
    led_since: float = 0.0
    served_since: float = -math.inf
    compared: set[str] = field(default_factory=set)
    leaving: int = 0
    was_in_sync: bool = False
    synced: bool = False
    synced_since: float = -math.inf
    writes: int = 0
    version: int = 0
    tracked: dict[str, TrackedService] = field(default_factory=dict)
    watched: dict[Peer, dict[str, None]] = field(default_factory=dict)
    copying: dict[Peer, int] = field(default_factory=dict)
    streams: dict[Peer, int] = field(default_factory=dict)
    since: int = 0
    is_streamed: bool = False
    leases_written: int = 0
    leases_confirmed: int = -1
    born: float = math.inf

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

    def caught_up(self, now: float) -> None:
        """The leader streams everything from now on."""
        self.synced, self.synced_since = True, now

    def next_version(self) -> int:
        """A version for the record of a lease: greater than each one given before, also under an earlier leader
        epoch."""
        self.version += 1
        return self.version

    def apply(self, write: SlotWrite, now: float) -> dict[str, TrackedService]:
        """Store ``write``; return the tracked services whose content changed, by data info id."""
        touched: dict[str, TrackedService] = {}
        self.writes += len(write.records) + len(write.gone) + len(write.purged)
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

    def _removed(self, old: Publisher | None, touched: dict[str, TrackedService]) -> None:
        assert old is not None
        service = self.tracked.get(old.data_info_id)
        if service is None:
            self.version += 1
            return
        self._note(service, old, None, old.register_id)
        touched[old.data_info_id] = service

    def _note(self, service: TrackedService, old: Publisher | None, new: Publisher | None, register_id: str) -> None:
        self.version += 1
        service.version = self.version
        service.digest = with_change(service.digest, old, new)
        if self.serving:  # else all of it is sent whole, once it serves
            service.pending[register_id] = new

    def track(self, data_info_id: str) -> TrackedService:
        """The tracked state of a service; tracking begins now where no session server had an interest before."""
        service = self.tracked.get(data_info_id)
        if service is None:
            service = self.tracked[data_info_id] = TrackedService(self.version, self.version)
        return service

    def hashed(self, data_info_id: str) -> TrackedService:
        """The tracked service with its digest. Its records are hashed for the first call only, not when tracking
        begins: a session server may declare interest in thousands of services at once."""
        service = self.tracked[data_info_id]
        if not service.is_hashed:
            service.digest, service.is_hashed = self.store.content_digest(data_info_id), True
        return service

    def serve(self) -> None:
        """From now on reads are answered."""
        self.serving = True
        for service in self.tracked.values():
            service.announced = service.version
            service.pending = {}
            service.born = math.inf

    def born_of(self, service: TrackedService) -> float:
        """When the oldest change of a service was born that was not announced; infinite if there is none."""
        return min(self.born, service.born)


class HeldSlots:
    """All slots of one server, kept equal to the newest table.

    Args:
        part_bytes: messages of a comparison are about so large.

    Attributes:
        held: the slots by number.
        epoch: of the table. ``has_missed_one``: there was a table before it that this server did not see.

    Invariant: the number of each slot that is not settled is among ``_open``, with those of some that are.
    """

    def __init__(self, node: str, part_bytes: int = PART_BYTES) -> None:
        self._node, self._part_bytes = node, part_bytes
        self.held: dict[int, HeldSlot] = {}
        self.epoch = 0
        self.has_missed_one = False
        self._open: list[int] = []

    def get(self, number: int) -> HeldSlot | None:
        """The slot, where this server holds it."""
        return self.held.get(number)

    def has(self, slot: HeldSlot) -> bool:
        """Whether this server holds the slot still, in the same role and under the same leader epoch."""
        return self.held.get(slot.slot.id) is slot

    def answer(self, number: int, leader_epoch: int) -> SlotAnswer:
        """What a request for a slot that names ``leader_epoch`` may do here, and the slot's own leader epoch."""
        slot = self.held.get(number)
        if slot is None:
            return SlotAnswer(number, Access.MOVED, 0)
        return SlotAnswer(number, slot.access(leader_epoch), slot.slot.leader_epoch)

    def led(self) -> Iterator[HeldSlot]:
        """The slots that this server leads."""
        return (slot for slot in self.held.values() if slot.leads)

    def registrations(self) -> int:
        """Number of live records in the slots that this server leads."""
        return sum(slot.store.size for slot in self.led())

    def followed(self, leader: str) -> Iterator[HeldSlot]:
        """The slots that this server follows and ``leader`` leads."""
        return (slot for slot in self.held.values() if not slot.leads and slot.slot.leader == leader)

    def leaders(self) -> set[str]:
        """The servers that lead a slot which this server follows."""
        return {slot.slot.leader for slot in self.held.values() if not slot.leads and slot.slot.leader is not None}

    def complete_of(self, numbers: Collection[int]) -> set[int]:
        """Of these slots, those that this server holds completely."""
        return (self.held.keys() & numbers).difference(self.unsettled()) if numbers else set()

    def unsettled(self) -> list[int]:
        """The slots that this server does not hold completely yet, sorted. It costs what is open, not what is held."""
        self._open = sorted({number for number in self._open if self._is_open(number)})
        return list(self._open)

    @property
    def are_settled(self) -> bool:
        """Whether this server holds all its slots completely. Asked after each slot, it costs as little."""
        while self._open and not self._is_open(self._open[-1]):
            self._open.pop()
        return not self._open

    def _is_open(self, number: int) -> bool:
        slot = self.held.get(number)
        return slot is not None and not slot.settled

    def leader_lost(self, leader: str) -> None:
        """The connection to a leader has ended: what it stores may be missing here."""
        for slot in self.followed(leader):
            slot.synced = slot.is_streamed = False
            self._open.append(slot.slot.id)

    def apply(self, table: SlotTable, unclean: Collection[int] = ()) -> tuple[list[HeldSlot], list[HeldSlot]]:
        """Follow a newer table; return the slots newly led, and those newly followed or with a new leader to follow.
        ``unclean``: the slots that this table gives to a server that was not in sync, or may give.

        A slot whose leader epoch changed starts again as migrating, even where this server led it before. The records
        of slots that this server keeps are kept; those of slots that it lost are dropped.

        A server that was cut off may have missed a table that did not name it. The leader has ended its stream then, so
        a follower that has missed a table follows anew.
        """
        self.has_missed_one, self.epoch = self.epoch < table.epoch - 1, table.epoch
        led: list[HeldSlot] = []
        followed: list[HeldSlot] = []
        mine = {row.id: row for row in self._rows(table)}
        for number in self.held.keys() - mine.keys():
            self.held.pop(number).tracked.clear()
        for number, row in mine.items():
            old = self.held.get(number)
            leads = row.leader == self._node
            if old is not None and old.slot.leader_epoch == row.leader_epoch and old.leads == leads:
                old.slot = row
                if self.has_missed_one and not leads:
                    old.synced = old.is_streamed = False
                    old.since = table.epoch
                    self._open.append(number)
                    followed.append(old)
                continue
            new = self.held[number] = HeldSlot(row, leads, version=first_version(row.leader_epoch), since=table.epoch)
            self._open.append(number)
            if old is None:
                new.store = SlotStore(self._part_bytes)
            else:
                old.tracked.clear()  # what waits to be announced from it is dropped
                learned = number not in unclean and self._node in old.slot.learners
                new.store, new.was_in_sync = old.store, learned or self._node in old.slot.in_sync
            (led if leads else followed).append(new)
        return led, followed

    def _rows(self, table: SlotTable) -> Iterable[Slot]:
        return (row for row in table.slots if self._node in row.holders)
