"""Single attempts to connect to session servers."""

from __future__ import annotations

import logging

import msgspec
from slotreeve.errors import TransportError, Unreachable
from slotreeve.ports import Connection, Handler, Hello, Transport
from slotreeve.ports.transport import SignsOfLife

from slotreeve_client.reconnect import Reconnect

log = logging.getLogger("slotreeve.client")


class Dialler:
    """Connects to session servers. Of several attempts under way, one connection arrives.

    Args:
        transport: makes the connections.
        hello: the client's hello.
        handler: gets the connections. It must call :meth:`arrives` and :meth:`ended`.
        reconnect: knows how long an attempt may take, and learns which ones failed.
    """

    def __init__(self, transport: Transport, hello: Hello, handler: Handler, reconnect: Reconnect) -> None:
        self._transport, self._hello, self._handler, self._reconnect = transport, hello, handler, reconnect
        self._signs = transport if isinstance(transport, SignsOfLife) else None
        self._arrived: Connection | None = None
        self._ended: dict[str, str] = {}

    def begin(self) -> None:
        """A new search for a session server begins: the next connection arrives."""
        self._arrived = None
        self._ended.clear()

    def arrives(self, connection: Connection) -> bool:
        """A connection has opened. False if another one opened before it in this search: this one must be closed, or
        two session servers could admit the client."""
        if self._arrived is not None:
            return False
        self._arrived = connection
        return True

    @property
    def has_arrived(self) -> bool:
        """Whether a connection of this search is open."""
        return self._arrived is not None

    def ended(self, connection: Connection, reason: str) -> None:
        """A connection has ended. If it was the one that had arrived, the next one arrives."""
        self._ended[connection.address] = reason
        if self._arrived is connection:
            self._arrived = None

    def why_ended(self, address: str) -> str:
        """Why the last connection of this search to a session server ended at once, as the server says."""
        return self._ended.get(address) or "the connection ended at once"

    def has_answered(self, address: str) -> bool:
        """Whether an attempt under way at this address has shown a sign of life. Once a connection has arrived, only
        the attempt that made it counts. Always true if the transport shows no signs of life."""
        if self._arrived is not None:
            return self._arrived.address == address
        return self._signs is None or self._signs.has_answered(address)

    @property
    def attempt_seconds(self) -> float:
        """How long an attempt may take."""
        return self._reconnect.attempt_seconds

    def was_silent(self, address: str) -> None:
        """An attempt was given up, because others wait and it has shown no sign of life."""
        self._reconnect.failed(address, Unreachable(f"{address} shows no sign of life"))

    async def attempt(self, address: str) -> Connection | None:
        """Connect. None if the attempt has failed."""
        try:
            hello = msgspec.structs.replace(self._hello, pause_seconds=self._reconnect.longest_next_pause)
            connection = await self._transport.connect(address, hello, self._handler, self._reconnect.attempt_seconds)
            if connection is not self._arrived:
                raise Unreachable(f"{address}: {self.why_ended(address)}")
        except TransportError as error:
            self._reconnect.failed(address, error)
            return None
        except Exception as error:
            log.exception("the attempt to connect to %s failed in an unforeseen way; others follow", address)
            self._reconnect.failed(address, Unreachable(f"{address}: {error!r}"))
            return None
        return connection
