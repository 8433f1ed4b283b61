"""A slot leader's work with leases: it registers, renews and ends them for callers, and ends those that nobody renews.

See docs/decisions/0024-leases-that-no-connection-holds.md for the reasons of each rule here.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice

from slotreeve.model.publisher import Publisher
from slotreeve_events.history import NO_REASONS
from slotreeve_events.log import EventLog
from slotreeve_protocol.lease_messages import KeepLeases, KeptLeases, LeaseIds, LeasesKept, LeaseTerms, SlotLeases
from slotreeve_protocol.leases import LEASE_OWNER, is_lease, lease_record
from slotreeve_protocol.slot_messages import Access, SlotWrite

from slotreeve_servers.data.brake import Brake
from slotreeve_servers.data.confirmations import FollowerConfirmations
from slotreeve_servers.data.departures import SlotWriter
from slotreeve_servers.data.held_leases import DRIFT, HeldLeases, find_lease
from slotreeve_servers.data.lease_guard import LeaseGuard
from slotreeve_servers.data.lease_times import HeldLease
from slotreeve_servers.data.slots import HeldSlot, HeldSlots
from slotreeve_servers.node.membership import Membership
from slotreeve_servers.node.outbox import Outbox, Peer, Request, TurnEnd

log = logging.getLogger("slotreeve.leases")

LOOK_SECONDS = 0.25
LOOKED_AT_ONCE = 20_000
ENDED_AT_ONCE = 1_000
TAKEN_OVER_AT_ONCE = 2_000
"""So many leases are looked at, ended and taken over in one turn: they hold up nothing else."""
HELD_PER_SECOND = 20_000
"""The more leases the guard holds back, the longer it pauses before it looks at all of them again."""
NAMED_SERVICES = 20
"""An alarm names so many services."""


class LeaseKeeper:
    """The leases of the slots that one data server leads.

    Attributes:
        held: when each of them ends.
        expired: leases that ended since the start because nobody renewed them.
    """

    def __init__(
        self,
        outbox: Outbox,
        slots: HeldSlots,
        writer: SlotWriter,
        membership: Membership,
        confirmations: FollowerConfirmations,
        brake: Brake,
        events: EventLog | None = None,
    ) -> None:
        self._outbox, self._slots, self._writer, self._membership = outbox, slots, writer, membership
        self._confirmations, self._brake, self._events = confirmations, brake, events
        self.held = HeldLeases(slots, outbox.attended())
        self._guard = LeaseGuard(brake)
        self._alarmed: set[str] = set()
        self._next_release = 0.0
        self._to_take_over: deque[tuple[HeldSlot, Iterator[Publisher]]] = deque()
        self._take_over_more = TurnEnd(outbox, self._take_over_some)
        self._ending: deque[HeldLease] = deque()
        self._is_ending = False
        self._end_more = TurnEnd(outbox, self._end_some)
        self.expired = 0

    # --- what callers want -------------------------------------------------------------------------------------------

    def keep(self, peer: Peer, message: KeepLeases, request: Request) -> None:
        """Carry out a request of a session server. It is answered once the followers have what was stored.

        A server that the meta leader has not confirmed of late does nothing: another one may lead the slot by now, and
        what is acknowledged here would be unknown there.
        """
        answers: list[KeptLeases] = []
        written: list[HeldSlot] = []
        for batch in message.batches:
            slot = self._slots.get(batch.slot)
            access = Access.MOVED
            if slot is not None and self._membership.has_lease:
                access = slot.access(batch.leader_epoch)
            if slot is None or access is Access.MOVED or access is Access.MISMATCH:
                answers.append(KeptLeases(batch.slot, access, slot.slot.leader_epoch if slot is not None else 0, {}))
                continue
            answers.append(KeptLeases(batch.slot, access, batch.leader_epoch, self._carry_out(slot, batch)))
            if batch.registered or batch.ended:
                written.append(slot)
        if written:
            self._confirmations.confirm(written, partial(self._answer, request, answers))
        else:
            self._answer(request, answers, frozenset())

    def _answer(self, request: Request, answers: list[KeptLeases], unconfirmed: Iterable[int]) -> None:
        failed = set(unconfirmed)
        self._outbox.reply(
            request,
            LeasesKept([KeptLeases(a.slot, Access.MOVED, 0, {}) if a.slot in failed else a for a in answers]),
        )

    def _carry_out(self, slot: HeldSlot, batch: SlotLeases) -> LeaseIds:
        """Returns the leases that are unknown."""
        now = self._outbox.attended()
        if batch.registered:
            self._register(slot, batch.registered, now)
        unknown: LeaseIds = {}
        for data_info_id, lease_ids in batch.renewed.items():
            missing = self.held.renew(slot, data_info_id, lease_ids, now)
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
            self.held.registered(slot, record, now)
            if self._events is not None:
                self._events.registration(record)

    def _end(self, slot: HeldSlot, data_info_id: str, lease_ids: list[str]) -> list[str]:
        tombstones, missing = list[Publisher](), list[str]()
        for lease_id in lease_ids:
            record = find_lease(slot, data_info_id, lease_id)
            if record is None:
                missing.append(lease_id)
            else:
                tombstones.append(_tombstone(slot, record, lease_id))
                self.held.ended(slot, data_info_id, lease_id)
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
        self.held.forget_former()
        for slot in led:
            self._to_take_over.append((slot, _leases_in(slot)))
            self._take_over_more.soon()

    def _take_over_some(self) -> None:
        left = TAKEN_OVER_AT_ONCE
        while self._to_take_over and left > 0:
            slot, records = self._to_take_over[0]
            part = list(islice(records, left)) if self._is_led(slot) else []
            begin = self._outbox.attended() + DRIFT * self._membership.lease_seconds
            for record in part:
                if slot.store.find(record) is record:
                    self.held.take_over(slot, record, begin)
            left -= len(part)
            if left > 0:
                self._to_take_over.popleft()
        if self._to_take_over:
            self._take_over_more.soon()

    def _is_led(self, slot: HeldSlot) -> bool:
        return slot.leads and self._slots.get(slot.slot.id) is slot

    # --- leases that nobody renews -----------------------------------------------------------------------------------

    def look(self) -> float | None:
        """Find the leases whose time is over, and begin to end those that may end.

        A lease ends only after the meta leader has confirmed this server by an answer to a heartbeat that it had sent
        after the end of the lease's time: nobody else can have acknowledged a renewal until then.
        """
        now = self._outbox.attended()
        self.held.look(now, LOOKED_AT_ONCE)
        if now >= self._next_release and self._membership.has_lease and not self._is_ending:
            confirmed_at = now - (self._outbox.now() - self._membership.granted_at)
            due = self.held.due_before(confirmed_at)
            silence = now - self.held.heard_at if self.held.count > self._brake.limits.few else 0.0
            released = self._guard.release(due, self._slots.registrations, silence, now)
            self._next_release = now + sum(self._guard.held.values()) / HELD_PER_SECOND
            self._report()
            if released:
                self._is_ending = True
                # Renewals that have arrived and were not read yet count.
                self._outbox.when_read(partial(self._end_unless_renewed, released))
        return None

    def _end_unless_renewed(self, leases: list[HeldLease]) -> None:
        self._ending.extend(leases)
        self._end_some()

    def _end_some(self) -> None:
        by_slot: dict[HeldSlot, list[HeldLease]] = {}
        for _ in range(min(ENDED_AT_ONCE, len(self._ending))):
            lease = self._ending.popleft()
            is_over = lease.is_due and not self._brake.is_frozen
            if is_over and self._is_led(lease.slot) and self._membership.has_lease:
                by_slot.setdefault(lease.slot, []).append(lease)
        for slot, leases in by_slot.items():
            self._expire(slot, leases)
        self._is_ending = bool(self._ending)
        if self._ending:
            self._end_more.soon()

    def _expire(self, slot: HeldSlot, leases: list[HeldLease]) -> None:
        tombstones = []
        for lease in leases:
            record = find_lease(slot, lease.data_info_id, lease.lease_id)
            self.held.ended(slot, lease.data_info_id, lease.lease_id)
            if record is not None:
                tombstones.append(_tombstone(slot, record, lease.lease_id))
                if self._events is not None:
                    self._events.expired(record)
        self.expired += len(tombstones)
        self._store(slot, tombstones, "its lease was not renewed in time")

    def _report(self) -> None:
        """Log when the guard begins and ends to hold leases of a service back."""
        if self._brake.is_frozen:
            return  # who ordered that knows it
        held = self._guard.held
        begun, over = held.keys() - self._alarmed, self._alarmed - held.keys()
        self._alarmed = set(held)
        for name in sorted(begun)[:NAMED_SERVICES]:
            log.error(
                "ALARM: %d leases of %s were not renewed and are held back, because a large share of the leases would "
                "end, or nobody renews any (data.brake_share); each for %g s at most (data.brake_hold_seconds)",
                held[name],
                name,
                self._brake.limits.hold_seconds,
            )
        if len(begun) > NAMED_SERVICES:
            log.error("ALARM: leases of %d more services are held back", len(begun) - NAMED_SERVICES)
        for name in sorted(over)[:NAMED_SERVICES]:
            log.warning("no lease of %s is held back any more", name)

    # --- for people --------------------------------------------------------------------------------------------------

    @property
    def held_back(self) -> dict[str, int]:
        """Number of leases that the guard holds back, by service."""
        return dict(self._guard.held)

    def counters(self) -> dict[str, int]:
        """How many leases there are, ended unrenewed, are held back, and ended although the guard held them."""
        return {
            "leases": self.held.count,
            "leases_expired": self.expired,
            "leases_held": sum(self._guard.held.values()),
            "leases_overdue": self._guard.overdue,
        }


def _tombstone(slot: HeldSlot, record: Publisher, lease_id: str) -> Publisher:
    return lease_record(lease_id, record.data_info_id, slot.next_version(), record.incarnation, record.zone, None)


def _leases_in(slot: HeldSlot) -> Iterator[Publisher]:
    for name in slot.store.services_of(LEASE_OWNER):
        yield from [record for record in slot.store.services.get(name, {}).values() if is_lease(record)]
