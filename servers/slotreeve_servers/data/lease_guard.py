"""Which of the leases that nobody has renewed may end: a guard against mass expiry, with an end. Pure: time is an
argument.

See docs/decisions/0024-leases-that-no-connection-holds.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from slotreeve_protocol.leases import lease_suffix

from slotreeve_servers.data.brake import Brake, BrakeLimits, ServiceTallies
from slotreeve_servers.data.lease_times import HeldLease
from slotreeve_servers.data.settings import DataSettings

SILENT_PART = 0.5
"""Where nothing was renewed for this part of the time to live of a lease, those who renew are cut off."""


class DueService(NamedTuple):
    """The leases of one service that nobody has renewed in time, of ``size`` leases that it has."""

    leases: list[HeldLease]
    size: int


class LeaseGuard:
    """Holds the end of leases back where a large share of them would end, or where nobody is heard renewing anything;
    each for ``data.lease_guard_hold_seconds`` at most.

    Attributes:
        held: number of leases that it held back at the last look, by service.
        overdue: leases that ended since the start because that time was over.
    """

    def __init__(self, rules: DataSettings) -> None:
        self._few, self._hold = rules.lease_guard_leases, rules.lease_guard_hold_seconds
        self._brake = Brake(_limits(rules))
        self.held: dict[str, int] = {}
        self.overdue = 0

    @property
    def is_frozen(self) -> bool:
        """Whether an order lets no lease end."""
        return self._brake.is_frozen

    def freeze(self, frozen: bool, now: float) -> None:
        """See :meth:`slotreeve_servers.data.brake.Brake.freeze`."""
        self._brake.freeze(frozen, now)

    def rules_changed(self, rules: DataSettings) -> None:
        """The operator has changed the rules."""
        self._few, self._hold = rules.lease_guard_leases, rules.lease_guard_hold_seconds
        self._brake.limits = _limits(rules)

    def release(self, due: Mapping[str, DueService], total: int, heard_at: float, now: float) -> list[HeldLease]:
        """The leases that end now, of those that are due.

        Args:
            due: by service.
            total: number of all leases that this server leads.
            heard_at: when somebody last registered or renewed one of them.
        """
        self.held = {}
        if not due:
            return []
        if self.is_frozen:
            self.held = {name: len(service.leases) for name, service in due.items()}
            return []
        tallies, leaving = ServiceTallies(), ServiceTallies()
        for name, service in due.items():
            tallies.add_singles(name, _register_ids(name, service.leases))
        is_few = self._brake.allows_server(tallies.total, lambda: total, now)
        silence = now - heard_at if total > self._few else 0.0
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
        is_overdue = now >= max(lease.until, self._brake.thawed_at) + self._hold
        self.overdue += is_overdue
        return is_overdue


def _limits(rules: DataSettings) -> BrakeLimits:
    return BrakeLimits(rules.lease_guard_leases, rules.lease_guard_share, rules.lease_guard_window_seconds)


def _register_ids(data_info_id: str, leases: list[HeldLease]) -> list[str]:
    suffix = lease_suffix(data_info_id)
    return [lease.lease_id + suffix for lease in leases]
