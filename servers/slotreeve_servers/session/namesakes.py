"""Two clients under one id: a client library that draws none at random, or a virtual machine that was copied while its
client ran. Pure.

A client has one connection to a session server. If it comes back before the end of its former connection is noticed,
nothing more arrives over that one. So a connection that goes on pinging beside a newer one is another client.
"""

from __future__ import annotations

from slotreeve_servers.session.clients import ConnectedClient

PINGS_OF_TWO = 2
"""Pings over the elder connection that prove two clients: the first one may have been under way."""


class Namesakes:
    """The connections of one session server by client id.

    Attributes:
        found: number of connections that were refused, because another client that lives has their id.
    """

    def __init__(self) -> None:
        self._newest: dict[str, ConnectedClient] = {}
        # Of connections that have the same id: by the elder one the newer one, and the other way round.
        self._newer: dict[ConnectedClient, ConnectedClient] = {}
        self._elder: dict[ConnectedClient, ConnectedClient] = {}
        self._pings: dict[ConnectedClient, int] = {}
        self._proven: set[ConnectedClient] = set()
        self.found = 0

    def opened(self, client: ConnectedClient) -> ConnectedClient | None:
        """A client has connected. Returns the connection of another one with its id that is known to live: then the new
        one must be refused."""
        elder = self._newest.get(client.peer.node)
        if elder in self._proven:
            self.found += 1
            return elder
        if elder is not None:
            self._newer[elder], self._elder[client] = client, elder
        self._newest[client.peer.node] = client
        return None

    def pinged(self, client: ConnectedClient) -> ConnectedClient | None:
        """A ping has arrived. Returns the newer connection with the id of this client that must end, once it is clear
        that both are used."""
        newer = self._newer.get(client)
        if newer is None:
            return None
        self._pings[client] = self._pings.get(client, 0) + 1
        if self._pings[client] < PINGS_OF_TWO:
            return None
        self.found += 1
        self._proven.add(client)
        return newer

    def closed(self, client: ConnectedClient) -> None:
        """The connection has ended: the one before it, if it is still there, is the only one again."""
        self._pings.pop(client, None)
        self._proven.discard(client)
        newer, elder = self._newer.pop(client, None), self._elder.pop(client, None)
        if newer is not None:
            del self._elder[newer]
        if elder is not None:
            del self._newer[elder]
            self._pings.pop(elder, None)
        if newer is not None and elder is not None:
            self._newer[elder], self._elder[newer] = newer, elder
        if self._newest.get(client.peer.node) is client:
            if elder is not None:
                self._newest[client.peer.node] = elder
            else:
                del self._newest[client.peer.node]
