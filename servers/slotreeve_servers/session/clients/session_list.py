"""The list of all session servers, which every client has: it admits a client, and says where else to connect."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from slotreeve.model.nodes import Node
from slotreeve_protocol.client_messages import Sessions
from slotreeve_protocol.codec import encode_message

from slotreeve_servers.node.outbox import Outbox, Peer
from slotreeve_servers.session.clients.clients import ConnectedClient


class SessionList:
    """Sends the list to each client that is let in, and a newer one to all: to ten thousand that takes a fifth of a
    second."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._sessions = Sessions([])
        self._frame = encode_message(self._sessions)
        self._outdated: deque[Peer] = deque()

    def changed(self, nodes: Iterable[Node], era: str, clients: Iterable[Peer]) -> None:
        """The cluster has these session servers now, and counts in this era; ``clients`` are connected here."""
        sessions = Sessions([node.address for node in nodes], era)
        if sessions == self._sessions:
            return
        self._sessions, self._frame = sessions, encode_message(sessions)
        # Those that have waited for the one before come first: there may be a newer one again before all have got it.
        waiting, inside = dict.fromkeys(self._outdated), dict.fromkeys(clients)
        self._outdated = deque([peer for peer in waiting if peer in inside] + [p for p in inside if p not in waiting])
        self._outbox.pace(self._send_newest, is_patient=True)

    def send_to(self, client: ConnectedClient) -> None:
        """Let this client send its records and subscriptions: it waits for the list."""
        self._outbox.send(client.peer, self._sessions)

    def _send_newest(self) -> Iterator[None]:
        while self._outdated:
            self._outbox.send_encoded(self._outdated.popleft(), self._frame, Sessions.__name__)
            yield
