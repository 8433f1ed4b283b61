"""The pushes that wait for the end of a turn, and are worked off in slices: very many services may change at once, and
very many clients may subscribe at once. What arrives meanwhile, pings above all, is read between two slices."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Protocol

from slotreeve_servers.node.outbox import Outbox, Retry, TurnEnd
from slotreeve_servers.session.clients import ConnectedClient

FIRING_SECONDS = 0.005
"""As long as a listener reads in one turn."""
BUSY_SECONDS = 0.001
"""While there is more to read, clients that catch up get only so long in a turn: pings may be among it."""
ROOM_SECONDS = 0.05
"""A client whose connection has no room catches up after this time, if it has room then."""
PUSHES_AT_ONCE = 50
"""So many services are pushed to one client, which has subscribed to more, before the next client gets its turn."""


class Pushes(Protocol):
    """One service with its subscribers, as this queue sees it."""

    def fire(self) -> None:
        """Push the present state to all subscribers."""

    def catch_up(self, client: ConnectedClient) -> None:
        """Push the present state to one subscriber."""


class DuePushes:
    """The groups that push when the turn ends, and the clients that catch up with groups: they have just subscribed, or
    may be pushed to again. One action for all of them. A group and a client take turns. After :data:`FIRING_SECONDS`,
    or :data:`BUSY_SECONDS` for the clients, the rest waits for the next turn.

    A client waits once for each group at most, so there are no more entries than groups and subscriptions. A client
    that reads slower than services change waits outside of the turns until its connection has room: then it gets the
    newest state of each, and its queue stays short.

    Attributes:
        sent: pushes that the groups have sent, each to one subscriber.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.sent = 0
        self._groups: deque[Pushes] = deque()
        self._behind: OrderedDict[ConnectedClient, OrderedDict[Pushes, None]] = OrderedDict()
        self._crowded: dict[ConnectedClient, dict[Pushes, None]] = {}
        self._turn_end = TurnEnd(outbox, self._fire_next)
        self._look_for_room = Retry(outbox, ROOM_SECONDS, self._let_go_on)

    @property
    def crowded(self) -> int:
        """Number of clients whose connections have no room for what they need."""
        return len(self._crowded)

    def add(self, group: Pushes) -> None:
        """Push to all subscribers of this group."""
        self._groups.append(group)
        self._turn_end.soon()

    def add_subscriber(self, client: ConnectedClient, group: Pushes) -> None:
        """Push to one subscriber of this group, after what waits for the client already."""
        groups = self._behind.get(client)
        if groups is None:
            groups = self._behind[client] = OrderedDict()
            self._turn_end.soon()
        groups[group] = None

    def admits(self, client: ConnectedClient, group: Pushes) -> bool:
        """Whether the client can be pushed to now. If not, it catches up with the group once it can be."""
        if self._outbox.has_room(client.peer):
            return True
        self._crowded.setdefault(client, {})[group] = None
        self._look_for_room.later()
        return False

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

    def _fire_next(self) -> None:
        now = self._outbox.now()
        until = clients_until = now + FIRING_SECONDS
        if self._behind and self._outbox.has_unread:
            clients_until = now + BUSY_SECONDS
        try:
            while True:
                has_client = bool(self._behind) and now <= clients_until
                if not has_client and not (self._groups and now <= until):
                    return
                if self._groups:
                    self._groups.popleft().fire()
                if has_client:
                    self._serve_next_client(clients_until)
                now = self._outbox.now()
        finally:
            if self._groups or self._behind:
                self._turn_end.soon()

    def _serve_next_client(self, until: float) -> None:
        client, groups = self._behind.popitem(last=False)
        try:
            for _ in range(min(PUSHES_AT_ONCE, len(groups))):
                group, _ = groups.popitem(last=False)
                group.catch_up(client)
                if self._outbox.now() > until:
                    break
        finally:
            if groups:
                self._behind[client] = groups
