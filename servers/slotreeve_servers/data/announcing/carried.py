"""How long changes are on their way to session servers, and which of these do not read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from slotreeve.ports import Message
from slotreeve_protocol.slot_messages import Confirm

from slotreeve_servers.node.outbox import Outbox, Peer
from slotreeve_servers.node.timings import Timing

PAUSE_SECONDS = 1.0
"""Between two measurements of one session server."""


class Carried:
    """Now and then, a question goes out behind the changes of a turn. Its reply proves that the session server
    has read them. Both ends of the way are seen on the clock of this server; the way back of the reply is part of what
    is measured, so that a change takes less.

    Attributes:
        times: from the changes of a turn until the reply.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._next: dict[Peer, float] = {}
        self._unanswered: dict[Peer, float] = {}
        self.times = Timing()

    def sent(self, peer: Peer) -> None:
        """Changes were sent to a session server."""
        now = self._outbox.now()
        if peer in self._unanswered or now < self._next.get(peer, -math.inf):
            return
        self._next[peer] = now + PAUSE_SECONDS
        if self._outbox.ask(peer, Confirm([]), partial(self._answered, peer, now), math.inf):
            self._unanswered[peer] = now

    def _answered(self, peer: Peer, since: float, reply: Message | None, error: Exception | None) -> None:
        if self._unanswered.get(peer) == since:
            del self._unanswered[peer]
        if reply is not None:
            self.times.took(self._outbox.now() - since)

    def forget(self, peer: Peer) -> None:
        """The connection to a session server has ended."""
        self._next.pop(peer, None)
        self._unanswered.pop(peer, None)

    def unanswered(self) -> Iterator[tuple[Peer, float]]:
        """The session servers that have not read yet what was sent to them, and since when."""
        return iter(self._unanswered.items())
