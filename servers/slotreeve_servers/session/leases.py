"""The leases of the clients of one session server: which may be over, and how often a client renews its own. Pure: time
is an argument."""

from __future__ import annotations

import heapq
from itertools import count

from slotreeve_servers.session.clients import ConnectedClient

PINGS_PER_SECOND = 500
"""A ping takes a tenth of a millisecond of processor at each end. More of them than this in a second would leave no
time for anything else where ten thousand clients come to one session server."""
RENEWALS = 3
"""A client is asked for so many pings in the time of a lease at least. With fewer, clients that came together and ping
together would notice a frozen server only after the slot leaders have removed them."""


class ClientLeases:
    """When to look at each client next, so that a look at the leases does not cost a look at every client.

    Attributes:
        lease_seconds: a client from which nothing arrived for so long has left.
    """

    def __init__(self, lease_seconds: float) -> None:
        self.lease_seconds = lease_seconds
        self._looks: list[tuple[float, int, ConnectedClient]] = []
        self._numbers = count()

    def ping_seconds(self, clients: int, are_arriving: bool) -> float:
        """How long each client may wait before its next ping, where there are so many of them. ``are_arriving``: more
        come than are let in at once, so that there is no time to spare."""
        longest = self.lease_seconds / RENEWALS
        return longest if are_arriving else min(clients / PINGS_PER_SECOND, longest)

    def renewed(self, client: ConnectedClient, at: float) -> None:
        """Something arrived from the client at this time: its lease cannot be over before another whole lease."""
        heapq.heappush(self._looks, (at + self.lease_seconds, next(self._numbers), client))

    def due(self, now: float, most: int) -> list[ConnectedClient]:
        """The clients whose lease may be over, ``most`` of them. Each must be :meth:`renewed` again unless it has
        left."""
        due: list[ConnectedClient] = []
        while len(due) < most and self._looks and self._looks[0][0] < now:
            due.append(heapq.heappop(self._looks)[2])
        return due
