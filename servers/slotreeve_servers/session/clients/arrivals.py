"""Clients that have just connected: each *arrives* as far as the data servers know, until everything that it had
published is stored again, and they are let in a few at a time (docs/endings.md).

A client sends its records and subscriptions once it has got the list of session servers. When a session server dies,
its clients come to the others all at once. Were all let in at once, their records would wait in one queue with what the
other clients publish.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from slotreeve_protocol.slot_messages import Presence

from slotreeve_servers.node.outbox import Outbox, Peer, TurnEnd, send_to_all
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.clients.places import Places
from slotreeve_servers.session.records.routes import Routes
from slotreeve_servers.session.settings import SessionSettings

AT_ONCE = 32
"""So many clients may send their records again at the same time."""


class Arrivals:
    """The clients that have not sent everything again, and among them those that wait to be let in.

    Args:
        let_in: is called with each client that may send from now on.
    """

    def __init__(
        self, outbox: Outbox, routes: Routes, rules: SessionSettings, let_in: Callable[[ConnectedClient], None]
    ) -> None:
        self._outbox, self._routes, self._rules = outbox, routes, rules
        # By client id: the connections that arrive.
        self._arriving: dict[str, set[ConnectedClient]] = {}
        self._places = Places(outbox, AT_ONCE, let_in)
        self._to_tell: dict[str, None] = {}
        self._left: list[str] = []
        self._tell = TurnEnd(outbox, self._send_presence)

    @property
    def waiting(self) -> int:
        """Number of clients that are connected and not let in yet."""
        return self._places.waiting

    def is_waiting(self, client: ConnectedClient) -> bool:
        """Whether the client is connected and not let in yet."""
        return self._places.is_waiting(client)

    def opened(self, client: ConnectedClient) -> None:
        """A client has connected: it arrives, and is let in when its turn comes."""
        self._arrives(client)
        self._places.come(client)

    def turned_away(self, client: ConnectedClient, seconds: float) -> None:
        """A client that this server does not take has connected: it lives, and arrives for as long as it may take to
        reach another server."""
        self._arrives(client)
        self._outbox.after(seconds, partial(self._arrived, client))

    def ended(self, client: ConnectedClient) -> None:
        """Everything that the client had published is stored again."""
        client.is_replaying = False
        self._arrived(client)
        self._leave_place(client)

    def lost(self, client: ConnectedClient, seconds: float) -> None:
        """Its connection has ended. If it has not sent everything again, it arrives for as long as it may take to come
        back: what it still has elsewhere by an older connection does not end meanwhile."""
        self._leave_place(client)
        if client.records:
            self._left.append(client.peer.node)
            self._tell.soon()
        if client in self._arriving.get(client.peer.node, ()):
            self._outbox.after(seconds, partial(self._arrived, client))

    def _leave_place(self, client: ConnectedClient) -> None:
        if self._places.has(client):
            # What the clients inside have sent is read before others may send: a server that is late would otherwise
            # let all of them in, and then be silent to each of them for as long as it takes to read the rest.
            self._outbox.when_read(partial(self._places.leave, client))
        else:
            self._places.leave(client)

    def _arrives(self, client: ConnectedClient) -> None:
        self._arriving.setdefault(client.peer.node, set()).add(client)
        self._tell_of(client.peer.node)

    def _arrived(self, client: ConnectedClient) -> None:
        """It has arrived with the last connection of it that arrives: it may have connected twice, and the two
        connections may open and end here in any order."""
        client_id = client.peer.node
        arriving = self._arriving.get(client_id, set())
        arriving.discard(client)
        if not arriving and self._arriving.pop(client_id, None) is not None:
            self._tell_of(client_id)

    def when_come(self, action: Callable[[], None]) -> None:
        """Act once the clients have come in that came while this process stood still: for that they have as long as a
        client has that comes back to a server, from the moment at which it went on. A process that stands still again
        and again acts after that time, too: the ends of other clients wait for it."""
        left = self._rules.linger_seconds - self._outbox.steady_seconds()
        if left > 0:
            self._outbox.after(left, action)
        else:
            action()

    # --- the data servers are told -----------------------------------------------------------------------------------

    def link_opened(self, peer: Peer) -> None:
        """The link to a data server is up: it needs every client that arrives, and forgets those of the link before."""
        self._outbox.send(peer, Presence(list(self._arriving), []))

    def _tell_of(self, client_id: str) -> None:
        self._to_tell[client_id] = None
        self._tell.soon()

    def _send_presence(self) -> None:
        """Send what holds at the end of the turn: a client may have left and come back within it."""
        (changed, self._to_tell), (left, self._left) = (self._to_tell, {}), (self._left, [])
        arriving = [client_id for client_id in changed if client_id in self._arriving]
        arrived = [client_id for client_id in changed if client_id not in self._arriving]
        send_to_all(self._outbox, list(self._routes.linked.values()), Presence(arriving, arrived, left))
