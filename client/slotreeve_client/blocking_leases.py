"""Leases for threads; see :mod:`slotreeve_client.leases`."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from typing import Protocol, TypeVar

from slotreeve_client.leases import DEFAULT_TTL_SECONDS, Lease, LeaseAnswers, LeaseRegistrations

T = TypeVar("T")
TIMEOUT_SECONDS = 10.0


class LoopOwner(Protocol):
    """Has an event loop in a thread of its own."""

    def wait(self, coroutine: Coroutine[object, object, T], timeout_seconds: float) -> T:
        """Run ``coroutine`` there and return its result. Raises RequestTimeout, ClientClosed, and what it raises."""


class BlockingLeases:
    """The leases of a registry for threads. Every call raises what :class:`slotreeve_client.leases.LeaseRegistrations`
    raises, and RequestTimeout after ``timeout_seconds``."""

    def __init__(self, owner: LoopOwner, leases: LeaseRegistrations) -> None:
        self._owner, self._leases = owner, leases

    def register(
        self,
        service: str,
        lease_id: str,
        *data: bytes | str,
        ttl_seconds: float = DEFAULT_TTL_SECONDS,
        zone: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        """Register a lease, or replace one that exists."""
        call = self._leases.register(service, lease_id, *data, ttl_seconds=ttl_seconds, zone=zone)
        self._owner.wait(call, timeout_seconds)

    def register_many(self, leases: Iterable[Lease], timeout_seconds: float = TIMEOUT_SECONDS) -> LeaseAnswers:
        """Register many leases."""
        return self._owner.wait(self._leases.register_many(leases), timeout_seconds)

    def renew(self, service: str, *lease_ids: str, timeout_seconds: float = TIMEOUT_SECONDS) -> set[str]:
        """Renew leases of one service. Returns the lease ids that are unknown."""
        return self._owner.wait(self._leases.renew(service, *lease_ids), timeout_seconds)

    def renew_many(self, leases: Mapping[str, Iterable[str]], timeout_seconds: float = TIMEOUT_SECONDS) -> LeaseAnswers:
        """Renew leases of many services; ``leases`` has lease ids by service."""
        return self._owner.wait(self._leases.renew_many(leases), timeout_seconds)

    def deregister(self, service: str, lease_id: str, timeout_seconds: float = TIMEOUT_SECONDS) -> bool:
        """End a lease now. Returns whether there was one."""
        return self._owner.wait(self._leases.deregister(service, lease_id), timeout_seconds)

    def deregister_many(
        self, leases: Mapping[str, Iterable[str]], timeout_seconds: float = TIMEOUT_SECONDS
    ) -> LeaseAnswers:
        """End leases of many services; ``leases`` has lease ids by service."""
        return self._owner.wait(self._leases.deregister_many(leases), timeout_seconds)
