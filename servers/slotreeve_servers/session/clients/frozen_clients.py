"""The connections of frozen clients end with their leases, and so does what they have at a session server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from slotreeve_servers.node.outbox import Outbox, Peer
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.clients.leases import ClientLeases


class FrozenClients:
    """Looks for clients whose connection lives and from which nothing arrives. ``clients``: the connected ones, each of
    which has a lease."""

    def __init__(self, outbox: Outbox, leases: ClientLeases, clients: Mapping[Peer, ConnectedClient]) -> None:
        self._outbox, self._leases, self._clients = outbox, leases, clients

    def look(self) -> None:
        """Look at the leases that may be over: clients that came together are due together."""
        self._outbox.pace(self._look)

    def _look(self) -> Iterator[None]:
        while (client := self._leases.due(self._outbox.attended())) is not None:
            if self._is_over(client):
                # What it sent may stand behind what very many others have sent.
                self._outbox.when_read(partial(self._end_if_silent, client))
            yield

    def _is_over(self, client: ConnectedClient) -> bool:
        """Whether the lease of a client is over. Where it is not, it is renewed."""
        if client.peer not in self._clients:
            return False
        # A client that was asked for fewer pings has all of its lease after its next ping was due.
        rest = client.rest_seconds
        silence = self._outbox.silent_for(client.peer)
        if silence > self._leases.lease_seconds + rest:
            return True
        self._leases.renewed(client, self._outbox.attended() - silence + rest)
        return False

    def _end_if_silent(self, client: ConnectedClient) -> None:
        if self._is_over(client):
            self._outbox.close(client.peer, f"no message arrived for {self._outbox.silent_for(client.peer):.1f} s")
