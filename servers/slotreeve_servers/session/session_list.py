"""The list of all session servers, which every client has: it admits a client, and says where else to connect."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from slotreeve.model.nodes import Node
from slotreeve_protocol.client_messages import Sessions
from slotreeve_protocol.codec import encode_message

from slotreeve_servers.node.outbox import Outbox, Peer
from slotreeve_servers.session.clients import ConnectedClient

AT_ONCE = 200
"""So many clients get a newer list in one turn: to send it to ten thousand takes a fifth of a second."""
PAUSE_SECONDS = 0.01


class SessionList:
    """Sends the list to each client that is let in, and a newer one to all, some of them at a time."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._sessions = Sessions([])
        self._frame = encode_message(self._sessions)
        self._outdated: deque[Peer] = deque()
        self._is_timed = False

    def changed(self, nodes: Iterable[Node], clients: Iterable[Peer]) -> None:
        """The cluster has these session servers now; ``clients`` are connected here."""
        sessions = Sessions([node.address for node in nodes])
        if sessions == self._sessions:
            return
        self._sessions, self._frame = sessions, encode_message(sessions)
        self._outdated = deque(clients)
        if not self._is_timed:
            self._send_some()

    def send_to(self, client: ConnectedClient) -> None:
        """Let this client in."""
        self._outbox.send(client.peer, self._sessions)

    def _send_some(self) -> None:
        for _ in range(min(AT_ONCE, len(self._outdated))):
            self._outbox.send_encoded(self._outdated.popleft(), self._frame, Sessions.__name__)
        self._is_timed = bool(self._outdated)
        if self._is_timed:
            self._outbox.after(PAUSE_SECONDS, self._send_some)
