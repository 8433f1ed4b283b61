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
        self._beside: dict[ConnectedClient, ConnectedClient] = {}
        self._pings: dict[ConnectedClient, int] = {}
        self.found = 0

    def opened(self, client: ConnectedClient) -> ConnectedClient | None:
        """A client has connected. Returns the connection of another one with its id that is known to live: then the new
        one must be refused."""
        elder = self._newest.get(client.peer.node)
        if elder is not None and self._pings.get(elder, 0) >= PINGS_OF_TWO:
            self.found += 1
            return elder
        if elder is not None:
            self._beside[elder] = client
        self._newest[client.peer.node] = client
        return None

    def pinged(self, client: ConnectedClient) -> ConnectedClient | None:
        """A ping has arrived. Returns the newer connection with the id of this client that must end, once it is clear
        that both are used."""
        newer = self._beside.get(client)
        if newer is None:
            return None
        self._pings[client] = self._pings.get(client, 0) + 1
        if self._pings[client] < PINGS_OF_TWO:
            return None
        del self._beside[client]
        self._newest[client.peer.node] = client
        self.found += 1
        return newer

    def closed(self, client: ConnectedClient) -> None:
        """The connection has ended."""
        self._beside.pop(client, None)
        self._pings.pop(client, None)
        if self._newest.get(client.peer.node) is client:
            del self._newest[client.peer.node]
