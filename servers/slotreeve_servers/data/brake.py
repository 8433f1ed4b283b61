"""How many registrations may be removed without a word from their clients (Eureka's self-preservation, but for each
service, and with an end). Pure: time is an argument.

See docs/decisions/0010-a-brake-on-mass-expiry.md.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection
from typing import NamedTuple

from slotreeve.model.publisher import Publisher

from slotreeve_servers.data.claims import client_of
from slotreeve_servers.data.settings import DataSettings


class DepartureTally:
    """Records that leave together: how many, and of which clients.

    Attributes:
        records: how many records.
        clients: the ids of their clients.
    """

    __slots__ = ("clients", "records")

    def __init__(self) -> None:
        self.records = 0
        self.clients: set[str] = set()

    def add(self, record: Publisher) -> None:
        """Count one record."""
        self.records += 1
        self.clients.add(client_of(record.register_id))

    def merge(self, other: DepartureTally) -> None:
        """Count all that ``other`` counts."""
        self.records += other.records
        self.clients |= other.clients


class ServiceTallies:
    """Tallies by service, and of all services together.

    Attributes:
        total: of all services.
        services: by data info id.
    """

    def __init__(self) -> None:
        self.total = DepartureTally()
        self.services: dict[str, DepartureTally] = {}

    def add(self, record: Publisher) -> None:
        """Count one record."""
        self.total.add(record)
        self._of(record.data_info_id).add(record)

    def add_singles(self, data_info_id: str, register_ids: Collection[str]) -> None:
        """Count records of one service, each of which counts as a client: leases."""
        for tally in (self.total, self._of(data_info_id)):
            tally.records += len(register_ids)
            tally.clients.update(register_ids)

    def _of(self, data_info_id: str) -> DepartureTally:
        tally = self.services.get(data_info_id)
        if tally is None:
            tally = self.services[data_info_id] = DepartureTally()
        return tally


class BrakeLimits(NamedTuple):
    """What may be removed within ``window_seconds``: so ``few`` clients and leases; beyond that, less than this share.
    Each is held for ``hold_seconds`` at most."""

    few: int
    share: float
    window_seconds: float
    hold_seconds: float


def limits_of(rules: DataSettings) -> BrakeLimits:
    """The limits that the settings of a data server state."""
    return BrakeLimits(rules.brake_few, rules.brake_share, rules.brake_window_seconds, rules.brake_hold_seconds)


class Brake:
    """Allows a removal of few, or of a small share; counts what it allowed within a window of time. Clients and leases
    count alike, a lease as a client.

    Attributes:
        limits: what it allows.
        is_frozen: an order lets nothing be removed.
    """

    def __init__(self, limits: BrakeLimits) -> None:
        self.limits = limits
        self.is_frozen = False
        self._thawed_at = -math.inf
        self._released: deque[tuple[float, ServiceTallies]] = deque()

    def freeze(self, frozen: bool, now: float) -> None:
        """An order lets nothing be removed from now on, or does so no more. What it held back waits its whole time
        anew."""
        if self.is_frozen and not frozen:
            self._thawed_at = now
        self.is_frozen = frozen

    def has_held_longest(self, since: float, now: float) -> bool:
        """Whether what was due at ``since`` may be held no longer."""
        return not self.is_frozen and now >= max(since, self._thawed_at) + self.limits.hold_seconds

    def release(self, tallies: ServiceTallies, now: float) -> None:
        """These are removed now."""
        if tallies.total.records:
            self._released.append((now, tallies))

    def allows_server(self, leaving: DepartureTally, registrations: Callable[[], int], now: float) -> bool:
        """Whether so many may leave a server that leads ``registrations()`` records, these included."""
        self._forget(now)
        return self._allows(leaving, [past.total for _, past in self._released], registrations)

    def allows_service(self, data_info_id: str, leaving: DepartureTally, size: int, now: float) -> bool:
        """Whether so many may leave a service of ``size`` records, these included."""
        self._forget(now)
        past = [tally for _, past in self._released if (tally := past.services.get(data_info_id)) is not None]
        return self._allows(leaving, past, lambda: size)

    def _allows(self, leaving: DepartureTally, past: list[DepartureTally], size: Callable[[], int]) -> bool:
        together = DepartureTally()
        for tally in (leaving, *past):
            together.merge(tally)
        if len(together.clients) <= self.limits.few:
            return True
        return together.records < self.limits.share * (size() + together.records - leaving.records)

    def _forget(self, now: float) -> None:
        while self._released and self._released[0][0] <= now - self.limits.window_seconds:
            self._released.popleft()
