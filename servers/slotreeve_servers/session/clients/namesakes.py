"""Two clients under one id: a client library that draws none at random, or a program that gives the same one to two.
Pure.

A hello names the client's id and, as its process id, one client that has it. Two connections with one id and two
process ids are of two clients, whatever else is late, lost or abandoned.
"""

from __future__ import annotations

from slotreeve_servers.session.clients.clients import ConnectedClient


class Namesakes:
    """The connections of one session server by client id.

    Attributes:
        found: number of connections that were refused, because another client has their id.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, dict[ConnectedClient, None]] = {}
        self.found = 0

    def opened(self, client: ConnectedClient) -> ConnectedClient | None:
        """A client has connected. Returns a connection of another one with its id: then the new one must be refused."""
        present = self._by_id.setdefault(client.peer.node, {})
        for other in present:
            if other.peer.process_id != client.peer.process_id:
                self.found += 1
                return other
        present[client] = None
        return None

    def closed(self, client: ConnectedClient) -> None:
        """The connection has ended."""
        present = self._by_id.get(client.peer.node, {})
        present.pop(client, None)
        if not present:
            self._by_id.pop(client.peer.node, None)
