"""The pushes that wait for the end of a turn, and are worked off in parts: very many services may change at once, and
very many clients may subscribe at once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Protocol

from slotreeve_servers.node.outbox import Outbox, Retry
from slotreeve_servers.session.clients.clients import ConnectedClient

ROOM_SECONDS = 0.05
"""A client whose connection has no room catches up after this time, if it has room then."""


class Pushes(Hashable, Protocol):
    """One service with its subscribers, as this queue sees it."""

    def fire(self) -> None:
        """Push the present state to all subscribers."""

    def catch_up(self, client: ConnectedClient) -> None:
        """Push the present state to one subscriber."""


class DuePushes:
    """The groups that push when the turn ends, and the clients that catch up with groups: they have just subscribed, or
    may be pushed to again. Clients are patient.

    A client waits once for each group at most, so there are no more entries than groups and subscriptions. A client
    that reads slower than services change waits outside of the turns until its connection has room: then it gets the
    newest state of each, and its queue stays short.

    Attributes:
        sent: pushes that the groups have sent, each to one subscriber.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.sent = 0
        self._behind: dict[ConnectedClient, OrderedDict[Pushes, None]] = {}
        self._crowded: dict[ConnectedClient, dict[Pushes, None]] = {}
        self._look_for_room = Retry(outbox, ROOM_SECONDS, self._let_go_on)

    @property
    def crowded(self) -> int:
        """Number of clients whose connections have no room for what they need."""
        return len(self._crowded)

    def add(self, group: Pushes) -> None:
        """Push to all subscribers of this group."""
        self._outbox.pace(self._fire, group)

    @staticmethod
    def _fire(group: Pushes) -> Iterator[None]:
        group.fire()
        yield from ()

    def add_subscriber(self, client: ConnectedClient, group: Pushes) -> None:
        """Push to one subscriber of this group, after what waits for the client already."""
        groups = self._behind.get(client)
        if groups is None:
            groups = self._behind[client] = OrderedDict()
            self._outbox.pace(self._serve, client, is_patient=True)
        groups[group] = None

    def admits(self, client: ConnectedClient, group: Pushes) -> bool:
        """Whether the client can be pushed to now. If not, it catches up with the group once it can be."""
        if self._outbox.has_room(client.peer):
            return True
        self._crowded.setdefault(client, {})[group] = None
        self._look_for_room.later()
        return False

    def left(self, client: ConnectedClient, group: Pushes) -> None:
        """The client is none of the group's subscribers any more."""
        if (behind := self._behind.get(client)) is not None:
            behind.pop(group, None)
        if (crowded := self._crowded.get(client)) is not None:
            crowded.pop(group, None)
            if not crowded:
                del self._crowded[client]

    def forget(self, client: ConnectedClient) -> None:
        """The connection of the client has ended."""
        self._behind.pop(client, None)
        self._crowded.pop(client, None)

    def _let_go_on(self) -> None:
        crowded, self._crowded = self._crowded, {}
        for client, groups in crowded.items():
            if self._outbox.has_room(client.peer):
                for group in groups:
                    self.add_subscriber(client, group)
            else:
                self._crowded[client] = groups
        if self._crowded:
            self._look_for_room.later()

    def _serve(self, client: ConnectedClient) -> Iterator[None]:
        while groups := self._behind.get(client):
            group, _ = groups.popitem(last=False)
            group.catch_up(client)
            yield
        self._behind.pop(client, None)
