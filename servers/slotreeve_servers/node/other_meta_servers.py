"""Requests from one meta server to the others, for what concerns all of them: a swap of the election."""

from __future__ import annotations

from slotreeve.errors import ElectionError, NotLeader, TransportError
from slotreeve.ports import Connection, Message
from slotreeve_protocol.general_messages import Failed

from slotreeve_servers.node.environment import Environment

CONNECT_SECONDS = 2.0


class _RequestsOnly:
    """The handler of such a connection: nothing but replies comes over it."""

    def opened(self, connection: Connection) -> None:
        """Nothing to do."""

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        """Nothing to do."""

    def closed(self, connection: Connection, reason: str) -> None:
        """Nothing to do: the request under way fails."""


class OtherMetaServers:
    """The meta servers of the configuration without this one. Each request has a connection of its own.

    Attributes:
        names: sorted.
    """

    def __init__(self, environment: Environment) -> None:
        self._transport, self._environment = environment.transport, environment
        self._addresses = environment.meta_servers
        self.names = sorted(name for name in self._addresses if name != environment.node.name)

    async def ask(self, name: str, message: Message, seconds: float) -> Message:
        """The reply of one of them.

        Raises:
            NotLeader: it does not lead, as far as the request needs that.
            ElectionError: it is not reached or refuses; the message names it and says why.
        """
        address = self._addresses[name]
        try:
            connection = await self._transport.connect(
                address, self._environment.hello(), _RequestsOnly(), CONNECT_SECONDS
            )
            try:
                reply = await connection.ask(message, seconds)
            finally:
                connection.close("done")
        except TransportError as error:
            raise ElectionError(f"{name} at {address}: {error}") from None
        if isinstance(reply, Failed):
            kind = NotLeader if reply.code == NotLeader.code else ElectionError
            raise kind(f"{name}: {reply.reason}")
        return reply
