"""A slot leader's work with leases: it registers, renews and ends them for callers.

What nobody renews ends as everything else that nobody vouches for (:mod:`slotreeve_servers.data.endings.endings`). See
docs/decisions/0024-leases-that-no-connection-holds.md for the reasons of each rule here.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial

from slotreeve.model.publisher import Publisher
from slotreeve_events.history import NO_REASONS
from slotreeve_events.log import EventLog
from slotreeve_protocol.lease_messages import KeepLeases, KeptLeases, LeaseIds, LeasesKept, LeaseTerms, SlotLeases
from slotreeve_protocol.leases import LEASE_OWNER, is_lease, lease_record, lease_suffix, ttl_seconds_of
from slotreeve_protocol.slot_messages import Access, SlotWrite

from slotreeve_servers.data.endings.ending import DRIFT, EndingEvent, HeldLease, lease_in, lease_tombstone
from slotreeve_servers.data.endings.ending_rounds import SlotWriter
from slotreeve_servers.data.endings.endings import Endings
from slotreeve_servers.data.replication.confirmations import FollowerConfirmations
from slotreeve_servers.data.slots.slots import HeldSlot, HeldSlots
from slotreeve_servers.node.membership import Membership
from slotreeve_servers.node.outbox import Outbox, Peer, Request

SILENT_PART = 0.5
"""Where nothing was renewed for this part of the time to live of a lease, those who renew may be cut off."""


class LeaseKeeper:
    """The leases of the slots that one data server leads.

    A lease may end once it was registered or renewed under this leadership of its slot, or taken over from an earlier
    one. One that is in the store only cannot end.

    Attributes:
        heard_at: when somebody last registered or renewed a lease, known or not; at first, when this object was made.
        regained_at: see :class:`slotreeve_servers.data.endings.ending_rounds.LeaseRules`.
    """

    def __init__(
        self,
        outbox: Outbox,
        slots: HeldSlots,
        membership: Membership,
        confirmations: FollowerConfirmations,
        endings: Endings,
        writer: SlotWriter,
        events: EventLog | None = None,
    ) -> None:
        self._outbox, self._slots, self._membership = outbox, slots, membership
        self._confirmations, self._endings, self._writer, self._events = confirmations, endings, writer, events
        self.heard_at = outbox.attended()
        self.regained_at = self._confirmed_until = -math.inf
        self._to_take_over: deque[HeldSlot] = deque()

    # --- what callers want -------------------------------------------------------------------------------------------

    def keep(self, peer: Peer, message: KeepLeases, request: Request) -> None:
        """Carry out a request of a session server. It is answered once the followers have what was stored. So is a
        renewal: nobody may have confirmed the registration of the lease yet, which is not acknowledged then.

        A server that the meta leader has not confirmed of late does nothing: another one may lead the slot by now, and
        what is acknowledged here would be unknown there.
        """
        answers: list[KeptLeases] = []
        unconfirmed: dict[HeldSlot, int] = {}
        for batch in message.batches:
            slot = self._slots.get(batch.slot)
            access = Access.MOVED
            if slot is not None and self._membership.has_lease:
                access = slot.access(batch.leader_epoch)
            if slot is None or access is Access.MOVED or access is Access.MISMATCH:
                answers.append(KeptLeases(batch.slot, access, slot.slot.leader_epoch if slot is not None else 0, {}))
                continue
            answers.append(KeptLeases(batch.slot, access, batch.leader_epoch, self._carry_out(slot, batch)))
            slot.leases_written += bool(batch.registered or batch.ended)
            if slot.leases_confirmed != slot.leases_written:
                unconfirmed[slot] = slot.leases_written
        if unconfirmed:
            self._confirmations.confirm(unconfirmed, partial(self._answer, request, answers, unconfirmed))
        else:
            self._answer(request, answers, {}, set())

    def _answer(
        self, request: Request, answers: list[KeptLeases], asked: dict[HeldSlot, int], failed: set[int]
    ) -> None:
        for slot, written in asked.items():
            if slot.slot.id not in failed:
                slot.leases_confirmed = max(slot.leases_confirmed, written)
        if not self._membership.has_lease:  # any more: another one may lead by now
            failed = failed.union(answer.slot for answer in answers if answer.access is not Access.MOVED)
        self._outbox.reply(
            request,
            LeasesKept([KeptLeases(a.slot, Access.MOVED, 0, {}) if a.slot in failed else a for a in answers]),
        )

    def _carry_out(self, slot: HeldSlot, batch: SlotLeases) -> LeaseIds:
        """Returns the leases that are unknown."""
        self.heard_at = now = self._outbox.attended()
        if batch.registered:
            self._register(slot, batch.registered, now)
        unknown: LeaseIds = {}
        for data_info_id, lease_ids in batch.renewed.items():
            missing = self.renew(slot, data_info_id, lease_ids, now)
            if missing:
                unknown[data_info_id] = missing
        for data_info_id, lease_ids in batch.ended.items():
            missing = self._end(slot, data_info_id, lease_ids)
            if missing:
                unknown.setdefault(data_info_id, []).extend(missing)
        return unknown

    def _register(self, slot: HeldSlot, terms: list[LeaseTerms], now: float) -> None:
        records = [
            lease_record(t.lease_id, t.data_info_id, slot.next_version(), t.ttl_ms, t.zone, t.data) for t in terms
        ]
        self._store(slot, records)
        for record in records:
            self.begin(slot, record, now)
            if self._events is not None:
                self._events.registration(record)

    def renew(self, slot: HeldSlot, data_info_id: str, lease_ids: Iterable[str], now: float) -> list[str]:
        """The time to live of these leases of one service begins anew. Returns those that are unknown."""
        unknown: list[str] = []
        suffix = lease_suffix(data_info_id)
        for lease_id in lease_ids:
            lease = self._lease(slot, data_info_id, lease_id + suffix)
            if lease is not None:
                lease.until = now + lease.ttl
                continue
            record = lease_in(slot, data_info_id, lease_id + suffix)
            if record is None:
                unknown.append(lease_id)
            else:
                self.begin(slot, record, now)
        return unknown

    def _lease(self, slot: HeldSlot, data_info_id: str, register_id: str) -> HeldLease | None:
        for lease in self._endings.of(slot, data_info_id, register_id):
            if isinstance(lease, HeldLease):
                return lease
        return None

    def begin(self, slot: HeldSlot, record: Publisher, now: float) -> None:
        """The time to live of a lease begins."""
        lease, ttl = self._lease(slot, record.data_info_id, record.register_id), DRIFT * ttl_seconds_of(record)
        if lease is not None:
            lease.ttl, lease.until = ttl, now + ttl
            self._endings.put_off(lease)
        else:
            self._endings.watch(HeldLease(slot, record, now + ttl))

    def _end(self, slot: HeldSlot, data_info_id: str, lease_ids: list[str]) -> list[str]:
        tombstones, missing, suffix = list[Publisher](), list[str](), lease_suffix(data_info_id)
        for lease_id in lease_ids:
            record = lease_in(slot, data_info_id, lease_id + suffix)
            if record is None:
                missing.append(lease_id)
                continue
            tombstones.append(lease_tombstone(slot, record))
            lease = self._lease(slot, record.data_info_id, record.register_id)
            if lease is not None:
                self._endings.move(lease, EndingEvent.SENT_AGAIN)
        self._store(slot, tombstones, "its lease was ended by a caller")
        if self._events is not None:
            for tombstone in tombstones:
                self._events.registration(tombstone)
        return missing

    def _store(self, slot: HeldSlot, records: list[Publisher], why: str = "") -> None:
        reasons = {record.register_id: why for record in records} if why else NO_REASONS
        self._writer.store(slot, SlotWrite(slot.slot.id, slot.slot.leader_epoch, records, [], []), reasons)

    # --- a slot is led from now on -----------------------------------------------------------------------------------

    def table_changed(self, led: Iterable[HeldSlot]) -> None:
        """A newer table has arrived; ``led`` are the slots newly led. Each lease in them gets its whole time to live
        anew. The former leader may have acknowledged renewals until its own lease was over, so that comes on top."""
        self._to_take_over.extend(led)
        self._outbox.pace(self._take_over)

    def _take_over(self) -> Iterator[None]:
        while self._to_take_over:
            slot = self._to_take_over.popleft()
            for record in _leases_in(slot):
                if not self._slots.has(slot):
                    break
                # Unless somebody has ended it, or has registered or renewed it here already.
                is_known = self._lease(slot, record.data_info_id, record.register_id) is not None
                if slot.store.find(record) is record and not is_known:
                    self.begin(slot, record, self._outbox.attended() + DRIFT * self._membership.lease_seconds)
                yield

    # --- leases that nobody renews -----------------------------------------------------------------------------------

    def confirmed(self) -> None:
        """The meta leader has confirmed this server."""
        now = self._outbox.attended()
        if now > self._confirmed_until:
            self.regained_at = now
        sent_at = now - (self._outbox.now() - self._membership.granted_at)
        self._confirmed_until = sent_at + self._membership.lease_seconds

    def may_end(self, lease: HeldLease) -> bool:
        """Whether the meta leader has confirmed this server, by an answer to a heartbeat that it had sent after the end
        of the lease's time: nobody else can have acknowledged a renewal until then."""
        confirmed_at = self._outbox.attended() - (self._outbox.now() - self._membership.granted_at)
        return self._membership.has_lease and lease.until <= confirmed_at

    def is_unheard(self, lease: HeldLease) -> bool:
        """Whether nothing was registered or renewed for so long that those who renew may be cut off."""
        return self._outbox.attended() - self.heard_at > SILENT_PART * lease.ttl


def _leases_in(slot: HeldSlot) -> Iterator[Publisher]:
    for name in slot.store.services_of(LEASE_OWNER):
        yield from [record for record in slot.store.services.get(name, {}).values() if is_lease(record)]
