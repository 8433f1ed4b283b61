"""A bounded number of places for clients that come all at once. While some wait, half of the places are given at
once, and the holders of keys take turns."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from slotreeve_servers.node.fair_queue import FairQueue
from slotreeve_servers.node.outbox import Outbox, TurnEnd
from slotreeve_servers.session.clients.clients import ConnectedClient

PLACE_SECONDS = 1.0
"""A client keeps its place for so long at most: it may have very much to send, and others wait."""


class Places:
    """The clients that have a place, and those that wait for one.

    Args:
        most: so many clients have a place at the same time.
        begin: is called at the end of a turn, with each client that gets a place.
    """

    def __init__(self, outbox: Outbox, most: int, begin: Callable[[ConnectedClient], None]) -> None:
        self._outbox, self._most, self._begin = outbox, most, begin
        self._waiting = FairQueue[ConnectedClient]()
        self._taken: OrderedDict[ConnectedClient, float] = OrderedDict()
        self._fill = TurnEnd(outbox, self._give_places)
        self._is_timed = False
        self._is_crowded = False

    def come(self, client: ConnectedClient) -> None:
        """This client needs a place."""
        self._waiting.add(client.peer.holder, client)
        self._fill.soon()

    @property
    def waiting(self) -> int:
        """Number of clients without a place."""
        return len(self._waiting)

    def is_waiting(self, client: ConnectedClient) -> bool:
        """Whether the client has had no place yet."""
        return self._waiting.has(client.peer.holder, client)

    def has(self, client: ConnectedClient) -> bool:
        """Whether the client has a place."""
        return client in self._taken

    def leave(self, client: ConnectedClient) -> None:
        """The client needs no place any more."""
        self._waiting.remove(client.peer.holder, client)
        if self._taken.pop(client, None) is not None:
            self._fill.soon()

    def clear(self) -> None:
        """No client needs a place any more."""
        self._waiting.clear()
        self._taken.clear()

    def _give_places(self) -> None:
        """Give the free places away; look again when the next one is free by its time."""
        now = self._outbox.now()
        while self._taken and next(iter(self._taken.values())) <= now:
            self._taken.popitem(last=False)
        free = self._most - len(self._taken)
        if self._is_crowded and 2 * free < self._most:
            free = 0  # clients that come together are much cheaper than one after the other, for every process
        for _ in range(min(free, len(self._waiting))):
            client = self._waiting.take()
            self._taken[client] = now + PLACE_SECONDS
            self._begin(client)
        self._is_crowded = bool(self._waiting)
        if self._waiting and not self._is_timed:
            self._is_timed = True
            self._outbox.after(max(0.0, next(iter(self._taken.values())) - now), self._look_again)

    def _look_again(self) -> None:
        self._is_timed = False
        self._give_places()
