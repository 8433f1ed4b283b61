"""The connection to a session server: it is kept alive, and replaced by another one when it is lost.

This is the shell between the transport and the client. :mod:`slotreeve_client.reconnect` decides which server comes
next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from slotreeve.clock import Clock
from slotreeve.errors import ClientClosed, ClientError, ConnectionLost, Refused, RequestTimeout, TransportError
from slotreeve.ports import Connection, Hello, Message, Transport
from slotreeve_protocol.client_messages import Redirect, Sessions, Withdraw
from slotreeve_protocol.general_messages import Failed, Ping

from slotreeve_client.options import ClientOptions
from slotreeve_client.reconnect import FIRST_PAUSE_SECONDS, Reconnect

log = logging.getLogger("slotreeve.client")


class ConnectorOwner(Protocol):
    """Gets the events of a :class:`Connector`, on the event loop."""

    def session_opened(self, process_id: str) -> None:
        """There is a connection, to this process. It takes the place of the one before."""

    def session_message(self, message: Message) -> None:
        """The session server sent a message."""

    def session_closed(self) -> None:
        """The connection was lost. The connector looks for another one."""

    def ping_sent(self) -> None:
        """A ping has just been sent: a good moment to send what waits."""

    def connector_failed(self) -> None:
        """The connector has a defect and stopped; there will be no further connection."""


class Connector:
    """Keeps a connection to any session server. Use it from one event loop only. :meth:`start` it once."""

    def __init__(
        self,
        owner: ConnectorOwner,
        transport: Transport,
        hello: Hello,
        reconnect: Reconnect,
        options: ClientOptions,
        clock: Clock,
    ) -> None:
        self._owner, self._transport, self._hello = owner, transport, hello
        self._reconnect, self._options, self._clock = reconnect, options, clock
        self._connection: Connection | None = None
        self._closed = False
        self._moving = False
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to connect, in a task of its own."""
        self._task = asyncio.get_running_loop().create_task(self._stay_connected(), name="slotreeve client")
        self._task.add_done_callback(self._ended)

    async def close(self) -> None:
        """End the connection with a goodbye, and the transport. The caller must call it only once."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._connection is not None:
            self._say_goodbye(self._connection)
        await self._transport.close()
        self._changed.set()

    @staticmethod
    def _say_goodbye(connection: Connection) -> None:
        try:
            connection.send(Withdraw())
        except TransportError as error:
            log.info("could not send a goodbye to %s, which will see the connection end: %s", connection.address, error)
        connection.close("the client was closed")

    # --- using the connection ------------------------------------------------------------------------------------

    @property
    def address(self) -> str | None:
        """Address of the connected session server; None if there is none."""
        return self._connection.address if self._connection is not None else None

    @property
    def failures(self) -> str:
        """Why each address could not be reached, for a message; empty while there is a connection."""
        return self._reconnect.failures

    async def connected(self) -> None:
        """Wait until there is a connection.

        Raises:
            Refused: the last server that answered refused this client. The connector goes on trying.
            ClientClosed: the client was closed.
        """
        while self._connection is None:
            if self._closed:
                raise ClientClosed("the client was closed")
            if self._reconnect.refusal is not None:
                raise self._reconnect.refusal
            self._changed.clear()
            await self._changed.wait()

    def send(self, messages: Iterable[Message]) -> None:
        """Send messages in order. If one cannot be sent, the connection is closed and the rest is dropped: the client
        replays everything at the next server. Does nothing without a connection."""
        connection = self._connection
        if connection is None:
            return
        try:
            for message in messages:
                connection.send(message)
        except TransportError as error:
            connection.close(f"a message could not be sent: {error}")

    async def ask(self, message: Message) -> Message:
        """Send a request to the connected session server; again to the next one if the connection is lost.

        Raises:
            RequestTimeout: no reply within ``request_seconds``, or the server got none from a data server.
            ClientError: the server could not carry out the request; the message says why.
            Refused, ClientClosed: as :meth:`connected`.
        """
        try:
            async with asyncio.timeout(self._options.request_seconds):
                reply = await self._ask_until_answered(message)
        except TimeoutError:
            raise RequestTimeout(
                f"no session server answered a {type(message).__name__} within {self._options.request_seconds} s"
                f"{self._reconnect.failures if self._connection is None else ''}"
            ) from None
        if isinstance(reply, Failed):
            raise RequestTimeout(reply.reason) if reply.code == RequestTimeout.code else ClientError(reply.reason)
        return reply

    async def _ask_until_answered(self, message: Message) -> Message:
        while True:
            await self.connected()
            connection = self._connection
            if connection is not None:
                try:
                    return await connection.ask(message, self._options.request_seconds)
                except ConnectionLost:
                    # The connection may have ended without ``closed`` having been called yet. Without a pause this loop
                    # would not let it be called.
                    await self._clock.sleep(FIRST_PAUSE_SECONDS)

    # --- the transport's handler ---------------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        """A session server accepted this client."""
        before, self._connection = self._connection, connection
        if before is not None:
            before.close("moved")
        self._reconnect.succeeded()
        self._owner.session_opened(connection.peer.process_id)
        self._changed.set()

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        """A message arrived."""
        if connection is not self._connection:
            return
        if not isinstance(message, Redirect | Sessions):
            self._owner.session_message(message)
        elif isinstance(message, Redirect):
            self._move(connection, message.addresses)
        else:
            self._reconnect.learned(message.addresses)

    def _move(self, connection: Connection, addresses: Sequence[str]) -> None:
        """The server is about to stop. It serves this client until another one does."""
        log.info("%s stops; moving to one of %s", connection.address, ", ".join(addresses))
        self._reconnect.learned(addresses)
        self._reconnect.left(connection.address)
        self._moving = True
        self._wake.set()

    def closed(self, connection: Connection, reason: str) -> None:
        """A connection ended."""
        if connection is self._connection:
            log.info("connection to %s lost: %s", connection.address, reason)
            self._connection = None
            self._reconnect.left(connection.address)
            self._wake.set()
            self._owner.session_closed()

    # --- staying connected ---------------------------------------------------------------------------------------

    async def _stay_connected(self) -> None:
        while True:
            await self._watch(await self._reach())

    async def _reach(self) -> Connection:
        while True:
            for address in self._reconnect.next_round():
                connection = await self._try(address)
                if connection is not None:
                    return connection
            self._changed.set()
            await self._clock.sleep(self._reconnect.next_pause())

    async def _try(self, address: str) -> Connection | None:
        try:
            return await self._transport.connect(address, self._hello, self, self._options.connect_seconds)
        except TransportError as error:
            self._reconnect.failed(address, error)
            if isinstance(error, Refused):
                log.error("%s refuses this client: %s", address, error)
            else:
                log.info("%s cannot be reached: %s", address, error)
        return None

    async def _watch(self, connection: Connection) -> None:
        """Send pings until the connection ends or the server stops. A server that does not reply is left."""
        self._moving = False
        while not connection.closed and not self._moving:
            timer = self._clock.call_later(self._options.ping_seconds, self._wake.set)
            await self._wake.wait()
            timer.cancel()
            self._wake.clear()
            if not connection.closed and not self._moving:
                self._ping(connection)

    def _ping(self, connection: Connection) -> None:
        def answered(reply: Message | None, error: Exception | None) -> None:
            if isinstance(error, RequestTimeout):
                connection.close(f"no reply to a ping for {self._options.silence_seconds} s")

        try:
            connection.request(Ping(), answered, self._options.silence_seconds)
        except TransportError as error:
            connection.close(f"a ping could not be sent: {error}")
        self._owner.ping_sent()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            log.critical("the task that keeps the client connected failed", exc_info=task.exception())
            self._closed = True
            self._owner.connector_failed()
            self._changed.set()
