"""Bugs of leases to plant in the product; see ``planted_bugs``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from unittest.mock import patch

from slotreeve.model.publisher import Publisher
from slotreeve_servers.data.held_leases import HeldLeases
from slotreeve_servers.data.lease_guard import LeaseGuard
from slotreeve_servers.data.lease_keeper import LeaseKeeper
from slotreeve_servers.data.slots import HeldSlot

from tests.simulation.planting import Patch, bug


@bug("a new leader counts what is left of a lease from its registration, and grants nothing anew", "leases")
def _no_new_time_for_leases() -> Patch:
    take_over = HeldLeases.take_over

    def at_once(self: HeldLeases, slot: HeldSlot, record: Publisher, begin: float) -> None:
        take_over(self, slot, record, begin - record.incarnation / 1000 - 4)

    return patch.object(HeldLeases, "take_over", at_once)


@bug("a follower copies leases without their time to live, and has the shortest one", "leases")
def _time_to_live_not_copied() -> Patch:
    take_over = HeldLeases.take_over

    def shortest(self: HeldLeases, slot: HeldSlot, record: Publisher, begin: float) -> None:
        copy = Publisher(
            record.register_id, record.data_info_id, record.version, 0, record.session, record.zone, record.data
        )
        take_over(self, slot, copy, begin - 3)

    return patch.object(HeldLeases, "take_over", shortest)


@bug("a lease ends its time to live after its registration, however often it is renewed", "leases")
def _ends_from_registration() -> Patch:
    renew = HeldLeases.renew

    def only_known(self: HeldLeases, slot: HeldSlot, name: str, lease_ids: Iterable[str], now: float) -> list[str]:
        held = self._leases.get(slot, {}).get(name, {})
        return renew(self, slot, name, [lease_id for lease_id in lease_ids if lease_id not in held], now)

    return patch.object(HeldLeases, "renew", only_known)


@bug("a renewal of a lease that there is not is answered as if it were there", "leases")
def _unknown_is_known() -> Patch:
    renew = HeldLeases.renew

    def known(self: HeldLeases, slot: HeldSlot, name: str, lease_ids: Iterable[str], now: float) -> list[str]:
        renew(self, slot, name, lease_ids, now)
        return []

    return patch.object(HeldLeases, "renew", known)


@bug("leases that nobody renews stay", "leases")
def _leases_never_end() -> Patch:
    return patch.object(LeaseKeeper, "_expire", lambda self, slot, leases: None)


@bug("the guard against mass expiry holds leases for ever", "leases")
def _guard_for_ever() -> Patch:
    return patch.object(LeaseGuard, "_ends", lambda self, lease, is_allowed, silence, now: is_allowed)


@bug("what is registered again while it is due ends nevertheless", "leases")
def _due_ends_although_renewed() -> Patch:
    def still_due(self: HeldLeases, lease: Any) -> None:
        return None

    return patch.object(HeldLeases, "_is_due_no_more", still_due)
