"""Bugs of leases to plant in the product; see ``planted_bugs``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import SlotTable
from slotreeve_servers.data.held_leases import HeldLeases
from slotreeve_servers.data.lease_guard import LeaseGuard
from slotreeve_servers.data.lease_keeper import LeaseKeeper
from slotreeve_servers.data.slots import HeldSlot, HeldSlots
from slotreeve_servers.meta import arranger, next_table
from slotreeve_servers.meta.heartbeats import LastHeartbeats
from slotreeve_servers.meta.known_copies import KnownCopies
from slotreeve_simulator.process_clock import ProcessClock

from tests.simulation.planting import Patch, bug, replaced, returning


@bug("a machine's clock stands still while the machine is suspended", "suspended")
def _clock_stands_still_in_suspend() -> Patch:
    now = ProcessClock.now
    return replaced(ProcessClock, "now", lambda self: now(self) - self.slept)


@bug("a new leader counts what is left of a lease from its registration, and grants nothing anew", "leases")
def _no_new_time_for_leases() -> Patch:
    take_over = HeldLeases.take_over

    def at_once(self: HeldLeases, slot: HeldSlot, record: Publisher, begin: float) -> None:
        take_over(self, slot, record, begin - record.incarnation / 1000 - 4)

    return replaced(HeldLeases, "take_over", at_once)


@bug("a follower copies leases without their time to live, and has the shortest one", "leases")
def _time_to_live_not_copied() -> Patch:
    take_over = HeldLeases.take_over

    def shortest(self: HeldLeases, slot: HeldSlot, record: Publisher, begin: float) -> None:
        copy = Publisher(
            record.register_id, record.data_info_id, record.version, 0, record.session, record.zone, record.data
        )
        take_over(self, slot, copy, begin - 3)

    return replaced(HeldLeases, "take_over", shortest)


@bug("a lease ends its time to live after its registration, however often it is renewed", "leases")
def _ends_from_registration() -> Patch:
    renew = HeldLeases.renew

    def only_known(
        self: HeldLeases, slot: HeldSlot, data_info_id: str, lease_ids: Iterable[str], now: float
    ) -> list[str]:
        held = self._leases.get(slot, {}).get(data_info_id, {})
        return renew(self, slot, data_info_id, [lease_id for lease_id in lease_ids if lease_id not in held], now)

    return replaced(HeldLeases, "renew", only_known)


@bug("a renewal of a lease that there is not is answered as if it were there", "leases", 3)
def _unknown_is_known() -> Patch:
    renew = HeldLeases.renew

    def known(self: HeldLeases, slot: HeldSlot, data_info_id: str, lease_ids: Iterable[str], now: float) -> list[str]:
        renew(self, slot, data_info_id, lease_ids, now)
        return []

    return replaced(HeldLeases, "renew", known)


@bug("leases that nobody renews stay", "leases")
def _leases_never_end() -> Patch:
    return replaced(LeaseKeeper, "_expire", lambda self, slot, leases: None)


@bug("the guard against mass expiry holds leases for ever", "leases")
def _guard_for_ever() -> Patch:
    return replaced(LeaseGuard, "_ends", lambda self, lease, is_allowed, silence, now: is_allowed)


@bug("what is registered again while it is due ends nevertheless", "leases", 3)
def _due_ends_although_renewed() -> Patch:
    def still_due(self: HeldLeases, lease: Any) -> None:
        return None

    return replaced(HeldLeases, "_is_due_no_more", still_due)


@bug("a follower that was in sync until its leader died counts no more than an empty one", "copies", 11)
def _no_follower_was_in_sync() -> Patch:
    return replaced(KnownCopies, "recently_settled", lambda self, server, slot: False)


@bug("every follower that lives counts as in sync", "copies")
def _every_follower_is_in_sync() -> Patch:
    original = LastHeartbeats.copies

    def copies(self: LastHeartbeats, table: SlotTable) -> KnownCopies:
        return replace(original(self, table), unsettled={name: set() for name in self._last})

    return replaced(LastHeartbeats, "copies", copies)


@bug("what was in sync under an older table counts as in sync under this one", "copies")
def _in_sync_under_any_table() -> Patch:
    original = LastHeartbeats.copies

    def copies(self: LastHeartbeats, table: SlotTable) -> KnownCopies:
        return replace(original(self, table), unsettled={name: set(h.unsettled) for name, h in self._last.items()})

    return replaced(LastHeartbeats, "copies", copies)


@bug("followers that are not in sync stay among the heirs of a dead leader", "copies", 6)
def _unready_heirs() -> Patch:
    return replaced(arranger, "_without_unready_heirs", lambda table, live, copies: (table, []))


@bug("a step of the balancer takes a copy before the next one is complete", "leases")
def _steps_take_copies_at_once() -> Patch:
    return replaced(arranger, "with_spares", lambda before, plan, live: plan)


@bug("what servers reported under a table is forgotten with the next one", "copies", 14)
def _reports_forgotten_with_a_table() -> Patch:
    return replaced(LastHeartbeats, "table_changed", lambda self, old, new: None)


@bug("a new meta leader gives slots away before it has heard who has a copy", "copies", 56)
def _deaf_choice() -> Patch:
    return returning(next_table, "only_silent_may_lead", False)


@bug("a follower that lost its leader calls its copy complete for as long as it has it", "copies", 11)
def _complete_for_ever() -> Patch:
    return replaced(HeldSlots, "recent", lambda self, since: self.unsettled())
