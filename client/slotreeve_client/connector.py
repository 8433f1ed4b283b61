"""The connection to a session server: it is kept alive, and replaced by another one when it is lost.

This is the shell between the transport and the client. :mod:`slotreeve_client.reconnect` decides which server comes
next, :mod:`slotreeve_client.moves` which connections are used, :mod:`slotreeve_client.line` when one is given up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from slotreeve.clock import Clock, Timer
from slotreeve.errors import (
    ClientClosed,
    TransportError,
    Unreachable,
)
from slotreeve.ports import Connection, Hello, Message, Transport
from slotreeve_protocol.client_messages import Moved, Redirect, Sessions, Withdraw

from slotreeve_client.dialler import Dialler
from slotreeve_client.line import Line, send_last
from slotreeve_client.moves import ClientMove
from slotreeve_client.race import Race
from slotreeve_client.reconnect import Reconnect

if TYPE_CHECKING:
    from slotreeve_client.options import ClientOptions

log = logging.getLogger("slotreeve.client")

MOVE_SECONDS = 60.0
"""A client that moves keeps its former connection for so long at most."""
SILENT_PART = 8
"""An attempt without a sign of life gets another one beside it after this part of ``connect_seconds``: 125 ms. Two
frozen session servers then take less than the time for which registrations outlast their connection (0.3 s)."""


class ConnectorOwner(Protocol):
    """Gets the events of a :class:`Connector`, on the event loop."""

    def session_opened(self, process_id: str, in_another_era: bool) -> None:
        """A server, this process, has admitted the client. It takes the place of the one before, and may count versions
        in another era."""

    def era_changed(self) -> None:
        """The connected server counts versions in another era from now on."""

    def session_message(self, message: Message) -> None:
        """The session server sent a message."""

    def former_message(self, message: Message) -> None:
        """The session server that the client is leaving sent a message."""

    def session_closed(self) -> None:
        """The connection was lost. The connector looks for another one."""

    def late_seconds(self) -> float:
        """How late the callbacks of this client were lately: each ping tells it."""

    def ping_sent(self) -> None:
        """A ping was sent to the session server."""

    def ping_answered(self) -> None:
        """The reply to it has arrived: the server has read everything that was sent before the ping."""

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
        self._owner, self._transport, self._reconnect = owner, transport, reconnect
        self._options, self._clock = options, clock
        self._dialler = Dialler(transport, hello, self, reconnect)
        self._lines: dict[Connection, Line] = {}
        self._move: ClientMove[Connection] = ClientMove()
        self._move_ends: Timer | None = None
        self._era = ""
        self._closed = False
        self._must_move = False
        self._has_tried = False
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._search: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to connect, in a task of its own."""
        self._task = asyncio.get_running_loop().create_task(self._stay_connected(), name="slotreeve client")
        self._task.add_done_callback(self._ended)

    async def close(self) -> None:
        """End the connection with a goodbye, and the transport. Idempotent; every caller waits for the end."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close(), name="slotreeve client closes")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for connection in (self._move.present, self._move.former):
            if connection is not None:
                send_last(connection, Withdraw())
                connection.close("the client was closed")
        await self._transport.close()
        for line in self._lines.values():
            line.end("the client was closed")
        self._has_tried = True
        self._changed.set()

    # --- using the connection ------------------------------------------------------------------------------------

    @property
    def address(self) -> str | None:
        """Address of the connected session server; None if there is none."""
        return self._move.present.address if self._move.present is not None else None

    @property
    def is_moving(self) -> bool:
        """Whether the client keeps a former connection until the present one has taken over."""
        return self._move.former is not None

    @property
    def failures(self) -> str:
        """Why each address could not be reached, for a message; empty while there is a connection."""
        return self._reconnect.failures

    async def connected(self) -> Connection:
        """Wait until there is a connection, and return it.

        Raises:
            Refused: the last server that answered refused this client. The connector goes on trying.
            ClientClosed: the client was closed.
        """
        while (connection := self._move.present) is None:
            if self._closed:
                raise ClientClosed("the client was closed")
            if self._reconnect.refusal is not None:
                raise self._reconnect.refusal
            self._changed.clear()
            await self._changed.wait()
        return connection

    async def tried(self) -> None:
        """Wait until there is a connection, or each known address was tried once; raises as :meth:`connected`."""
        while self._move.present is None and not self._has_tried:
            self._changed.clear()
            await self._changed.wait()
        if self._move.present is None and self._reconnect.refusal is not None:
            raise self._reconnect.refusal
        if self._closed:
            raise ClientClosed("the client was closed")

    @property
    def has_room(self) -> bool:
        """Whether the connection takes more; also where there is none."""
        connection = self._move.present
        return connection is None or connection.closed or connection.has_room

    def send(self, message: Message) -> None:
        """Send a message. If it cannot be sent, the connection is closed: the client replays everything at the next
        server. Does nothing without a connection."""
        connection = self._move.present
        if connection is None:
            return
        try:
            connection.send(message)
        except TransportError as error:
            self._lines[connection].give_up(f"a message could not be sent: {error}")

    # --- the transport's handler ---------------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        """A session server accepted the connection. It is used once the server admits the client."""
        if not self._dialler.arrives(connection):
            connection.close("another session server answered sooner")
            return
        self._lines[connection] = Line(connection, self._options, self._clock, self)

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        """A message arrived."""
        if isinstance(message, Sessions):
            self._reconnect.learned(message.addresses)
            self._listed(connection, message.era)
        elif isinstance(message, Redirect):
            self._redirected(connection, message.addresses)
        elif connection is self._move.present:
            self._owner.session_message(message)
        elif connection is self._move.former and self._counts_as_present(connection):
            self._owner.former_message(message)

    def _listed(self, connection: Connection, era: str) -> None:
        """A list of session servers has arrived. The first one admits the client."""
        line = self._lines[connection]
        line.era = era
        if line.admit():
            self._use(connection)
        elif connection is self._move.present and self._note_era(connection):
            self._owner.era_changed()

    def _note_era(self, connection: Connection) -> bool:
        """Keep the era in which the server counts. Whether it is another one than before; a server that does not say it
        counts in the same one."""
        former, self._era = self._era, self._lines[connection].era or self._era
        return former not in ("", self._era)

    def _counts_as_present(self, former: Connection) -> bool:
        """Whether the former server counts versions in the era of the present one."""
        present = self._move.present
        return present is not None and self._lines[former].era == self._lines[present].era

    def _use(self, connection: Connection) -> None:
        dropped = self._move.take(connection)
        if dropped is not None:
            self._lines[dropped].give_up("moved again")
        former = self._move.former
        if former is not None and dropped is None:
            if self._move_ends is not None:
                self._move_ends.cancel()  # of a move from the same server that failed
            self._move_ends = self._clock.call_later(MOVE_SECONDS, lambda: self._end_move(former))
        self._must_move = False
        self._reconnect.admitted(connection.address)
        self._owner.session_opened(connection.peer.process_id, self._note_era(connection))
        self._changed.set()

    def _redirected(self, connection: Connection, addresses: Sequence[str]) -> None:
        """The server is about to stop, or sends the client elsewhere. If it is the present one, it serves this client
        until another one does."""
        log.info("%s sends this client to one of %s", connection.address, ", ".join(addresses) or "those it knows")
        self._reconnect.learned(addresses)
        self._reconnect.left(connection.address, self._clock.now())
        if connection is self._move.present:
            if self._lines[connection].has_lasted:
                self._reconnect.succeeded()
            self._must_move = True
            self._wake.set()
        elif connection is not self._move.former:
            connection.close("sent elsewhere")

    def taken_over(self) -> None:
        """The present connection has everything that the client published, and its subscriptions are current."""
        former = self._move.former
        if former is not None:
            self._move.complete()
            send_last(former, Moved())
            former.close("moved")

    def _end_move(self, former: Connection) -> None:
        """The move took too long."""
        if self._move.former is former:
            self._move.complete()
            self._lines[former].give_up(f"not moved within {MOVE_SECONDS:g} s")

    def closed(self, connection: Connection, reason: str) -> None:
        """A connection ended."""
        line = self._lines.pop(connection, None)
        if line is None:
            return
        line.end(reason)
        self._dialler.ended(connection, reason)
        if not self._move.lost(connection):
            return
        self._reconnect.lost(connection.address, reason)
        if line.has_lasted:
            self._reconnect.succeeded()
        former = self._move.present
        if former is not None:  # back to the former server, which is about to stop
            self._must_move = True
            self._owner.session_opened(former.peer.process_id, self._note_era(former))
        else:
            self._reconnect.left(connection.address, self._clock.now())
            self._owner.session_closed()
            if self._search is not None and not self._dialler.has_arrived:
                self._search.cancel()  # it was for a move, and has left out the server that the client was at
        self._wake.set()

    # --- for the lines ---------------------------------------------------------------------------------------------

    def late_seconds(self) -> float:
        """See :class:`slotreeve_client.line.PingListener`."""
        return self._owner.late_seconds()

    def longest_next_pause(self) -> float:
        """See :class:`slotreeve_client.line.PingListener`."""
        return self._reconnect.longest_next_pause

    def ping_sent(self, connection: Connection) -> None:
        """A ping was sent."""
        if connection is self._move.present:
            self._owner.ping_sent()

    def ping_answered(self, connection: Connection) -> None:
        """The reply to it has arrived."""
        if connection is self._move.present:
            self._owner.ping_answered()

    # --- staying connected ---------------------------------------------------------------------------------------

    async def _stay_connected(self) -> None:
        while True:
            if self._move.present is None or self._must_move:
                self._search = asyncio.get_running_loop().create_task(self._reach(), name="slotreeve client searches")
                for failure in await asyncio.gather(self._search, return_exceptions=True):
                    if isinstance(failure, Exception):
                        raise failure
            else:
                self._wake.clear()
                await self._wake.wait()

    async def _reach(self) -> None:
        silent_seconds = self._options.connect_seconds / SILENT_PART
        while True:
            await self._clock.sleep(self._reconnect.next_pause())
            self._dialler.begin()
            addresses = [
                address for address in self._reconnect.next_round(self._clock.now()) if address != self.address
            ]
            race = Race(addresses, self._dialler, self._clock, silent_seconds, self._options.connect_seconds)
            while (connection := await race.winner()) is not None:
                line = self._lines.get(connection)
                ended = self._dialler.why_ended(connection.address)
                reason = await line.admission() if line is not None else ended
                if not reason:
                    return
                self._reconnect.failed(connection.address, Unreachable(f"{connection.address}: {reason}"))
            self._has_tried = True
            self._changed.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            log.critical("the task that keeps the client connected failed", exc_info=task.exception())
            self._closed = self._has_tried = True
            self._owner.connector_failed()
            self._changed.set()
