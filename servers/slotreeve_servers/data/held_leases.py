"""The leases of the slots that one data server leads: when each of them ends. Pure: time is an argument.

The records themselves are in the stores of the slots, as all others. This is what only their leader knows of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from slotreeve.model.publisher import Publisher
from slotreeve_protocol.leases import is_lease, lease_id_of, lease_suffix, ttl_seconds_of

from slotreeve_servers.data.lease_guard import DueService
from slotreeve_servers.data.lease_times import HeldLease, LeaseTimes
from slotreeve_servers.data.slots import HeldSlot, HeldSlots

DRIFT = 1.02
"""Clocks may differ in speed by up to 2 %: a lease lasts so much longer on the clock of its leader."""


class HeldLeases:
    """Leases by slot, service and lease id.

    A lease is here once it was registered or renewed under this leadership of its slot, or taken over from an earlier
    one (:meth:`take_over`). One that is in the store and not here yet cannot end.

    Attributes:
        count: number of leases here.
        heard_at: when somebody last registered or renewed a lease, known or not; at first, when this object was made.
    """

    def __init__(self, slots: HeldSlots, now: float) -> None:
        self._slots = slots
        self._times = LeaseTimes(now)
        self._leases: dict[HeldSlot, dict[str, dict[str, HeldLease]]] = {}
        self._due: dict[str, dict[str, HeldLease]] = {}
        self.count = 0
        self.heard_at = now

    def forget_former(self) -> None:
        """The table has changed: forget the slots that this server leads no more, or leads anew."""
        for slot in [slot for slot in self._leases if self._slots.get(slot.slot.id) is not slot]:
            for name, leases in self._leases.pop(slot).items():
                self.count -= len(leases)
                self._due.pop(name, None)
                for lease in leases.values():
                    self._times.drop(lease)

    # --- what callers do ---------------------------------------------------------------------------------------------

    def registered(self, slot: HeldSlot, record: Publisher, now: float) -> None:
        """A lease was stored in a led slot: its time to live begins."""
        self.heard_at = now
        self._begin(slot, record, now + DRIFT * ttl_seconds_of(record))

    def renew(self, slot: HeldSlot, data_info_id: str, lease_ids: Iterable[str], now: float) -> list[str]:
        """The time to live of these leases of one service begins anew. Returns those that are unknown."""
        self.heard_at = now
        leases = self._leases.get(slot, {}).get(data_info_id, {})
        unknown: list[str] = []
        for lease_id in lease_ids:
            lease = leases.get(lease_id)
            if lease is None:
                record = find_lease(slot, data_info_id, lease_id)
                if record is None:
                    unknown.append(lease_id)
                else:
                    self._begin(slot, record, now + DRIFT * ttl_seconds_of(record))
                    leases = self._leases[slot][data_info_id]
            else:
                lease.until = now + lease.ttl
                if lease.is_due:
                    self._is_due_no_more(lease)
                    self._times.add(lease)
        return unknown

    def ended(self, slot: HeldSlot, data_info_id: str, lease_id: str) -> None:
        """The lease is no more."""
        services = self._leases.get(slot, {})
        leases = services.get(data_info_id, {})
        lease = leases.pop(lease_id, None)
        if lease is None:
            return
        self.count -= 1
        self._times.drop(lease)
        if lease.is_due:
            self._is_due_no_more(lease)
        if not leases:
            del services[data_info_id]

    def take_over(self, slot: HeldSlot, record: Publisher, begin: float) -> None:
        """The slot has this lease from its former leader: its time to live begins anew at ``begin``, unless somebody
        has registered or renewed it here already."""
        if lease_id_of(record.register_id) not in self._leases.get(slot, {}).get(record.data_info_id, {}):
            self._begin(slot, record, begin + DRIFT * ttl_seconds_of(record))

    def _begin(self, slot: HeldSlot, record: Publisher, until: float) -> None:
        leases = self._leases.setdefault(slot, {}).setdefault(record.data_info_id, {})
        lease_id = lease_id_of(record.register_id)
        ttl = DRIFT * ttl_seconds_of(record)
        lease = leases.get(lease_id)
        if lease is None:
            lease = leases[lease_id] = HeldLease(slot, record.data_info_id, lease_id, ttl, until)
            self.count += 1
        else:
            lease.ttl, lease.until = ttl, until
            if lease.is_due:
                self._is_due_no_more(lease)
        self._times.add(lease)

    # --- what nobody renewed -----------------------------------------------------------------------------------------

    def look(self, now: float, most: int) -> None:
        """Find the leases whose time is over, of ``most`` that are looked at."""
        for lease in self._times.due(now, most):
            lease.is_due = True
            self._due.setdefault(lease.data_info_id, {})[lease.lease_id] = lease

    @property
    def due(self) -> int:
        """Number of leases whose time is over."""
        return sum(map(len, self._due.values()))

    def due_before(self, moment: float) -> dict[str, DueService]:
        """The leases whose time was over at ``moment``, in slots that serve, by service."""
        found: dict[str, DueService] = {}
        for name, leases in self._due.items():
            over = [lease for lease in leases.values() if lease.until <= moment and lease.slot.serving]
            if over:
                found[name] = DueService(over, len(over[0].slot.store.services.get(name, ())))
        return found

    def _is_due_no_more(self, lease: HeldLease) -> None:
        lease.is_due = False
        leases = self._due[lease.data_info_id]
        del leases[lease.lease_id]
        if not leases:
            del self._due[lease.data_info_id]


def find_lease(slot: HeldSlot, data_info_id: str, lease_id: str) -> Publisher | None:
    """The record of a lease in a slot; None where there is none."""
    record = slot.store.services.get(data_info_id, {}).get(lease_id + lease_suffix(data_info_id))
    return record if record is not None and is_lease(record) else None
