"""The leases of the clients of one session server: which may be over, and how often a client renews its own. Pure: time
is an argument."""

from __future__ import annotations

import heapq
from collections import deque
from itertools import count

from slotreeve_servers.session.clients.clients import ConnectedClient

PINGS_PER_SECOND = 500
"""A ping takes a tenth of a millisecond of processor at each end. More of them than this in a second would leave no
time for anything else where ten thousand clients come to one session server."""
RENEWALS = 3
"""A client is asked for so many pings in the time of a lease at least, unless a herd moves. With fewer, clients that
came together and ping together would notice a frozen server only after the slot leaders have removed them."""
HERD = 500
"""So many clients that come within a lease, or must go, are a herd: their pings cost much of the time that they need to
move."""
HERD_LEASES = 3
"""While a herd moves, a client may wait so many leases before its next ping. With one lease, the pings of ten thousand
clients took a quarter of two processors, and the herd a third longer."""
_GOLDEN = (5**0.5 - 1) / 2
"""The multiples of this, without their whole parts, lie evenly between 0 and 1, however many there are."""


class ClientLeases:
    """When to look at each client next, so that a look at the leases does not cost a look at every client.

    Attributes:
        lease_seconds: a client from which nothing arrived for so long has left.
    """

    def __init__(self, lease_seconds: float) -> None:
        self.lease_seconds = lease_seconds
        self._looks: list[tuple[float, int, ConnectedClient]] = []
        self._numbers = count()
        self._share = 0.0
        self._came_at: deque[float] = deque(maxlen=HERD)

    def came(self, client: ConnectedClient, at: float) -> None:
        """The client has connected at this time: its lease begins."""
        self._came_at.append(at)
        self.renewed(client, at)

    def ask(self, client: ConnectedClient, clients: int, waiting: int, now: float) -> float:
        """How long this client may wait before its next ping: in seconds, noted at the client. ``clients``: how many
        are connected. ``waiting``: how many of them wait until they may come in or must go.

        A herd that moves needs the processors for that. Its pings are therefore fewer, and spread: the waits lie evenly
        between a third of the lease and :data:`HERD_LEASES` leases. So some clients notice early that a server is
        frozen. Their return makes the slot leaders wait for the others, who notice it in turn
        (docs/endings.md).
        """
        shortest = self.lease_seconds / RENEWALS
        have_come = len(self._came_at) == HERD and now - self._came_at[0] < self.lease_seconds
        if clients >= HERD and (waiting or have_come):
            self._share = (self._share + _GOLDEN) % 1
            seconds = shortest + (HERD_LEASES * self.lease_seconds - shortest) * self._share
        else:
            seconds = shortest if waiting else min(clients / PINGS_PER_SECOND, shortest)
        client.rest_seconds = seconds
        return seconds

    def left(self, client: ConnectedClient, linger_seconds: float) -> float:
        """How long a client whose connection has ended has to come back, in seconds: ``linger_seconds``, and the pause
        that it has told before it connects again, which counts up to a lease; longer where its lease runs on, and 0
        where it had all of its lease to send something."""
        if client.peer.is_expelled:
            return linger_seconds  # it will not come back, whatever it has said
        silence = client.peer.silence_at_close
        rest = 0.0 if silence is None else self.lease_seconds + client.rest_seconds - silence
        if rest < 0:
            return 0.0
        if client.has_given_up:
            return self.lease_seconds  # it lives, and may need long to find a server: the next one may be frozen too
        # Where this server closed the connection, because the client did not read, it may be starved, and come back.
        return max(rest, linger_seconds + min(client.peer.pause_seconds, self.lease_seconds))

    def renewed(self, client: ConnectedClient, at: float) -> None:
        """Something arrived from the client at this time: its lease cannot be over before another whole lease."""
        heapq.heappush(self._looks, (at + self.lease_seconds, next(self._numbers), client))

    def due(self, now: float) -> ConnectedClient | None:
        """The next client whose lease may be over, if there is one. It must be :meth:`renewed` again unless it has
        left."""
        return heapq.heappop(self._looks)[2] if self._looks and self._looks[0][0] < now else None
