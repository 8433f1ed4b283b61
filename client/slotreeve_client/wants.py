"""The subscriptions that a session server does not have yet, or has not confirmed. Pure.

A session server confirms each subscription with a push, which is empty if the client's copy is current. A client with
a hundred thousand subscriptions would get a hundred thousand pushes at once, more than a queue holds. So only
:data:`MOST_UNCONFIRMED` are on their way at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from slotreeve_protocol.client_messages import Scope

MOST_UNCONFIRMED = 4_000
"""Most subscriptions that were sent and may be on their way, or whose first push may be."""
WANTS_PER_MESSAGE = 1_000
"""Most subscriptions in one Subscribe."""

ServiceKey = tuple[str, Scope]
"""A data info id and a scope."""


class Wants:
    """The subscriptions of one connection that are not confirmed.

    The answer to a ping proves that the server has read everything sent before the ping. What is still unconfirmed then
    waits for its turn there, or for a slot leader, perhaps for long. It does not count to the limit any more, so that
    it does not hold up the others.

    Args:
        keys: the subscriptions to send.
    """

    __slots__ = ("_before_ping", "_on_the_way", "_unsent", "_waiting")

    def __init__(self, keys: Iterable[ServiceKey]) -> None:
        self._unsent = dict.fromkeys(keys)
        self._on_the_way: set[ServiceKey] = set()
        self._before_ping: set[ServiceKey] = set()
        self._waiting: set[ServiceKey] = set()

    def add(self, key: ServiceKey) -> None:
        """A new subscription."""
        self._unsent[key] = None

    def discard(self, key: ServiceKey) -> bool:
        """A subscription has ended. True if it was sent, so that an Unsubscribe must follow."""
        if key in self._unsent:
            del self._unsent[key]
            return False
        self.confirmed(key)
        return True

    def confirmed(self, key: ServiceKey) -> None:
        """A push of it has arrived."""
        self._on_the_way.discard(key)
        self._waiting.discard(key)

    def is_confirmed(self, key: ServiceKey) -> bool:
        """Whether a push of it has arrived."""
        return not (key in self._on_the_way or key in self._waiting or key in self._unsent)

    def ping_sent(self) -> None:
        """Everything that :meth:`take` returned was sent before this ping."""
        self._before_ping = set(self._on_the_way)

    def ping_answered(self) -> None:
        """The server has read everything sent before the ping."""
        waiting = self._before_ping & self._on_the_way
        self._on_the_way -= waiting
        self._waiting |= waiting
        self._before_ping.clear()

    def take(self) -> list[ServiceKey]:
        """The next ones to send, in the order in which they came; none while too many are unconfirmed."""
        room = min(WANTS_PER_MESSAGE, MOST_UNCONFIRMED - len(self._on_the_way))
        if room <= 0 or not self._unsent:
            return []
        keys = list(islice(self._unsent, room))
        for key in keys:
            del self._unsent[key]
        self._on_the_way.update(keys)
        return keys

    @property
    def has_room(self) -> bool:
        """Whether it is worth while to send: there are some to send, and room for a whole message of them."""
        return bool(self._unsent) and len(self._on_the_way) <= MOST_UNCONFIRMED - WANTS_PER_MESSAGE

    @property
    def unconfirmed(self) -> int:
        """Number of subscriptions of which no push has arrived."""
        return len(self._unsent) + len(self._on_the_way) + len(self._waiting)

    @property
    def are_confirmed(self) -> bool:
        """Whether all of them are."""
        return not self.unconfirmed
