"""Outgoing connections that are made again when they are lost."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from slotreeve.clock import Clock
from slotreeve.errors import Refused, TransportError
from slotreeve.ports import Connection, Handler, Hello, Message, Transport

from slotreeve_servers.node.supervisor import Supervisor, Wake

log = logging.getLogger("slotreeve.links")

CONNECT_TIMEOUT_SECONDS = 1.0
FIRST_RETRY_SECONDS = 0.02
LONGEST_RETRY_SECONDS = 1.0


class Links:
    """One connection to each of a changing set of processes; a lost one is made again, quickly at first.

    ``inner`` is called for every connection as the transport would call it; ``refused`` is called for every refusal.
    All calls are made on the event loop.
    """

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        supervisor: Supervisor,
        hello: Callable[[], Hello],
        inner: Handler,
        refused: Callable[[Refused], None] = lambda _error: None,
    ) -> None:
        self._transport, self._clock, self._supervisor = transport, clock, supervisor
        self._hello, self._inner, self._refused = hello, inner, refused
        self._addresses: dict[str, str] = {}
        self._wakes: dict[str, Wake] = {}
        self.connected: dict[str, Connection] = {}

    def aim(self, peers: Mapping[str, str]) -> None:
        """Keep connections to exactly these peers (name to address) from now on."""
        before, self._addresses = self._addresses, dict(peers)
        for name in before.keys() - peers.keys():
            self._wakes.pop(name).set()
        for name in peers:
            if name not in before:
                wake = self._wakes[name] = Wake(self._clock)
                self._supervisor.start(f"link to {name}", lambda name=name, wake=wake: self._keep(name, wake))  # type: ignore[misc]
            elif peers[name] != before[name]:
                self._wakes[name].set()

    async def _keep(self, name: str, wake: Wake) -> None:
        pause = FIRST_RETRY_SECONDS
        while (address := self._addresses.get(name)) is not None and self._wakes.get(name) is wake:
            try:
                connection = await self._transport.connect(
                    address, self._hello(), _LinkHandler(self, name, wake), CONNECT_TIMEOUT_SECONDS
                )
            except TransportError as error:
                if isinstance(error, Refused):
                    log.error("%s at %s refuses this server: %s", name, address, error)
                    self._refused(error)
                else:
                    log.debug("no link to %s at %s: %s", name, address, error)
                await wake.wait(pause)
                pause = min(2 * pause, LONGEST_RETRY_SECONDS)
                continue
            pause = FIRST_RETRY_SECONDS
            while not connection.closed and self._addresses.get(name) == address and self._wakes.get(name) is wake:
                await wake.wait(60.0)
            connection.close("no longer wanted")

    def opened(self, name: str, connection: Connection) -> None:
        """A link is up."""
        self.connected[name] = connection
        self._inner.opened(connection)

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        """A message came over a link."""
        self._inner.received(connection, message, request_id)

    def closed(self, name: str, connection: Connection, reason: str) -> None:
        """A link is down."""
        if self.connected.get(name) is connection:
            del self.connected[name]
        self._inner.closed(connection, reason)


class _LinkHandler:
    """Handler of one attempt; knows which peer it is for."""

    def __init__(self, links: Links, name: str, wake: Wake) -> None:
        self._links, self._name, self._wake = links, name, wake
        self.received = links.received

    def opened(self, connection: Connection) -> None:
        self._links.opened(self._name, connection)

    def closed(self, connection: Connection, reason: str) -> None:
        self._links.closed(self._name, connection, reason)
        self._wake.set()
