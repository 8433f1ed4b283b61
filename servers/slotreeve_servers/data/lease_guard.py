"""Which of the leases that nobody has renewed may end: a guard against mass expiry, with an end. Pure: time is an
argument.

See docs/decisions/0024-leases-that-no-connection-holds.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from slotreeve_protocol.leases import lease_suffix

from slotreeve_servers.data.brake import Brake, ServiceTallies
from slotreeve_servers.data.lease_times import HeldLease

SILENT_PART = 0.5
"""Where nothing was renewed for this part of the time to live of a lease, those who renew are cut off."""


class DueService(NamedTuple):
    """The leases of one service that nobody has renewed in time, of ``size`` registrations that it has."""

    leases: list[HeldLease]
    size: int


class LeaseGuard:
    """Holds the end of leases back where the brake does, or where nobody is heard renewing anything; each for
    ``data.brake_hold_seconds`` at most.

    Attributes:
        held: number of leases that it held back at the last look, by service.
        overdue: leases that ended since the start because that time was over.
    """

    def __init__(self, brake: Brake) -> None:
        self._brake = brake
        self.held: dict[str, int] = {}
        self.overdue = 0

    def release(
        self, due: Mapping[str, DueService], registrations: Callable[[], int], silence: float, now: float
    ) -> list[HeldLease]:
        """The leases that end now, of those that are due.

        Args:
            due: by service.
            registrations: counts all that this server leads, leases among them.
            silence: for how long nobody has registered or renewed a lease; 0 where there are few.
        """
        self.held = {}
        if not due:
            return []
        if self._brake.is_frozen:
            self.held = {name: len(service.leases) for name, service in due.items()}
            return []
        tallies, leaving = ServiceTallies(), ServiceTallies()
        for name, service in due.items():
            tallies.add_singles(name, _register_ids(name, service.leases))
        is_few = self._brake.allows_server(tallies.total, registrations, now)
        released: list[HeldLease] = []
        for name, (leases, size) in due.items():
            is_allowed = is_few and self._brake.allows_service(name, tallies.services[name], size, now)
            ending = [lease for lease in leases if self._ends(lease, is_allowed, silence, now)]
            leaving.add_singles(name, _register_ids(name, ending))
            released += ending
            if len(ending) < len(leases):
                self.held[name] = len(leases) - len(ending)
        self._brake.release(leaving, now)
        return released

    def _ends(self, lease: HeldLease, is_allowed: bool, silence: float, now: float) -> bool:
        if is_allowed and silence <= SILENT_PART * lease.ttl:
            return True
        is_overdue = self._brake.has_held_longest(lease.until, now)
        self.overdue += is_overdue
        return is_overdue


def _register_ids(data_info_id: str, leases: list[HeldLease]) -> list[str]:
    suffix = lease_suffix(data_info_id)
    return [lease.lease_id + suffix for lease in leases]
