"""The pushes that wait for the end of a turn, and are worked off in parts: very many services may change at once, and
very many clients may subscribe at once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Protocol

from slotreeve_servers.node.outbox import Outbox, Retry
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.clients.orders import OrdersInForce

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
    newest state of each, and its queue stays short. One whose pushes the operator's orders stop waits likewise.

    Attributes:
        sent: pushes that the groups have sent, each to one subscriber.
    """

    def __init__(self, outbox: Outbox, orders: OrdersInForce) -> None:
        self._outbox, self._orders = outbox, orders
        self.sent = 0
        self._behind: dict[ConnectedClient, OrderedDict[Pushes, None]] = {}
        self._crowded: dict[ConnectedClient, dict[Pushes, None]] = {}
        self._stopped: dict[ConnectedClient, dict[Pushes, None]] = {}
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
        self._catch_up(client, {group: None})

    def _catch_up(self, client: ConnectedClient, groups: dict[Pushes, None]) -> None:
        behind = self._behind.get(client)
        if behind is None:
            behind = self._behind[client] = OrderedDict()
            self._outbox.pace(self._serve, client, is_patient=True)
        behind.update(groups)

    def admits(self, client: ConnectedClient, group: Pushes) -> bool:
        """Whether the client can be pushed to now. If not, it catches up with the group once it can be."""
        if not self._orders.may_push(client.peer):
            self._stopped.setdefault(client, {})[group] = None
            return False
        if self._outbox.has_room(client.peer):
            return True
        self._crowded.setdefault(client, {})[group] = None
        self._look_for_room.later()
        return False

    def left(self, client: ConnectedClient, group: Pushes) -> None:
        """The client is none of the group's subscribers any more."""
        if (behind := self._behind.get(client)) is not None:
            behind.pop(group, None)
        for waiting in (self._crowded, self._stopped):
            if (groups := waiting.get(client)) is not None:
                groups.pop(group, None)
                if not groups:
                    del waiting[client]

    def forget(self, client: ConnectedClient) -> None:
        """The connection of the client has ended."""
        self._behind.pop(client, None)
        self._crowded.pop(client, None)
        self._stopped.pop(client, None)

    def orders_changed(self) -> None:
        """Those go on whose pushes are not stopped any more."""
        for client in [client for client in self._stopped if self._orders.may_push(client.peer)]:
            self._catch_up(client, self._stopped.pop(client))

    def _let_go_on(self) -> None:
        crowded, self._crowded = self._crowded, {}
        for client, groups in crowded.items():
            if self._outbox.has_room(client.peer):
                self._catch_up(client, groups)
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
