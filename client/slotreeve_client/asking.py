"""The requests of a client to whichever session server it is connected to."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext

from slotreeve.clock import Clock
from slotreeve.errors import Backpressure, ClientError, ConnectionLost, RequestTimeout
from slotreeve.ports import Message
from slotreeve_protocol.general_messages import Failed

from slotreeve_client.connector import Connector
from slotreeve_client.reconnect import FIRST_PAUSE_SECONDS

MOST_READS = 256
"""So many reads of one client are on their way at a time, the others wait for their turn. An answer may have 256 KiB,
and a session server ends a connection whose answers take more than twice its queue of 64 MiB."""


class SessionRequests:
    """Asks the connected session server; again at the next one where the connection is lost, and later where its queue
    is full. A request and its waits take ``request_seconds`` at most. Use it from the connector's event loop only."""

    def __init__(self, connector: Connector, request_seconds: float, clock: Clock) -> None:
        self._connector, self._seconds, self._clock = connector, request_seconds, clock
        self._reads = asyncio.Semaphore(MOST_READS)

    async def ask(self, message: Message) -> Message:
        """Send a request; returns the reply.

        Raises:
            RequestTimeout: no reply within ``request_seconds``, or the server got none from a data server.
            ClientError: the server could not carry out the request; the message says why.
            Refused, ClientClosed: as :meth:`slotreeve_client.connector.Connector.connected`.
        """
        return await self._ask_in_time(message, nullcontext())

    async def read(self, message: Message) -> Message:
        """As :meth:`ask`, for requests with large answers: of very many at once, some wait for their turn first."""
        return await self._ask_in_time(message, self._reads)

    async def _ask_in_time(self, message: Message, turn: AbstractAsyncContextManager[None]) -> Message:
        try:
            async with asyncio.timeout(self._seconds), turn:
                reply = await self._ask_until_answered(message)
        except TimeoutError:
            raise RequestTimeout(
                f"no session server answered a {type(message).__name__} within {self._seconds} s"
                f"{self._connector.failures if self._connector.address is None else ''}"
            ) from None
        if isinstance(reply, Failed):
            raise RequestTimeout(reply.reason) if reply.code == RequestTimeout.code else ClientError(reply.reason)
        return reply

    async def _ask_until_answered(self, message: Message) -> Message:
        while True:
            connection = await self._connector.connected()
            try:
                return await connection.ask(message, self._seconds)
            except (ConnectionLost, Backpressure):
                # The connection may have ended without ``closed`` having been called yet. Without a pause this loop
                # would not let it be called. Or its queue is full of what the client publishes.
                await self._clock.sleep(FIRST_PAUSE_SECONDS)
