"""Zones: the number of copies of a slot that one zone may hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from slotreeve import Server


class Zones:
    """The zones of the live servers. A server of unknown zone counts as a zone of its own.

    Attributes:
        limit: number of copies of one slot that a zone may hold: one if there are as many zones as copies, else the
            lowest number that leaves room for all copies.
        trivial: no two servers share a zone, so the limit has no effect.
    """

    def __init__(self, servers: Sequence[Server], copies: int) -> None:
        # "\0" keeps names of servers different from names of zones.
        self._zones = {server.name: server.zone or f"\0{server.name}" for server in servers}
        sizes = Counter(self._zones.values())
        self.trivial = len(sizes) == len(servers)
        self.limit = 1
        while sum(min(self.limit, size) for size in sizes.values()) < min(copies, len(servers)):
            self.limit += 1

    def zone_of(self, name: str) -> str:
        """The server's zone."""
        return self._zones[name]

    def has_room(self, name: str, others: Iterable[str | None]) -> bool:
        """Whether ``name`` may hold a slot that ``others`` hold too."""
        if self.trivial:
            return True
        zone, zones = self._zones[name], self._zones
        return sum(1 for other in others if other is not None and zones[other] == zone) < self.limit
