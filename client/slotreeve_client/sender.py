"""When what a client has to send goes out."""

from __future__ import annotations

from slotreeve.clock import Clock
from slotreeve_protocol.client_messages import PushesReceived

from slotreeve_client.connector import Connector
from slotreeve_client.core import ClientCore

RECEIPT_SECONDS = 0.05
"""Acknowledgements of pushes wait this long, so that one message holds many."""
ROOM_SECONDS = 0.02
"""Where the connection has no room, the client looks again after this time."""


class Sender:
    """Hands the core's messages to the connector: what has gathered in one turn of the event loop goes out at its end,
    acknowledgements of pushes and rejected records after a pause. What the connection has no room for stays in the core
    until it has. :meth:`begin` comes first."""

    _core: ClientCore
    _connector: Connector

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._flush_scheduled = False
        self._receipts_scheduled = False
        self._receipts_since: float | None = None
        self._retry_scheduled = False
        self._room_scheduled = False

    def begin(self, core: ClientCore, connector: Connector) -> None:
        """Send what ``core`` has over the connection of ``connector``."""
        self._core, self._connector = core, connector

    def flush_soon(self) -> None:
        """There is something to send: send it when the turn ends."""
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._clock.call_soon(self._flush)

    def message_handled(self) -> None:
        """The core has handled a message: send later what may wait."""
        core = self._core
        if self._receipts_since is None and core.owes_receipts:
            self._receipts_since = self._clock.now()
            if not self._receipts_scheduled:
                self._receipts_scheduled = True
                self._clock.call_later(RECEIPT_SECONDS, self._flush_receipts)
        if core.postponed.records and not self._retry_scheduled:
            self._retry_scheduled = True
            self._clock.call_later(core.postponed.next_pause(), self._retry)
        self._end_move()

    def _flush(self) -> None:
        self._flush_scheduled = False
        core, connector = self._core, self._connector
        while connector.has_room:
            message = core.outgoing()
            if message is None:
                break
            if isinstance(message, PushesReceived):
                since, self._receipts_since = self._receipts_since, None
                kept = 0.0 if since is None else self._clock.now() - since
                message = PushesReceived(message.receipts, kept)
            connector.send(message)
        else:
            self._wait_for_room()
        self._end_move()

    def _wait_for_room(self) -> None:
        if not self._room_scheduled:
            self._room_scheduled = True
            self._clock.call_later(ROOM_SECONDS, self._look_for_room)

    def _look_for_room(self) -> None:
        self._room_scheduled = False
        self._flush()

    def _flush_receipts(self) -> None:
        self._receipts_scheduled = False
        self._flush()
        self._receipts_since = None  # also where a new connection made them void

    def _retry(self) -> None:
        self._retry_scheduled = False
        self._core.retry()

    def _end_move(self) -> None:
        if self._connector.is_moving and self._core.is_complete:
            self._connector.taken_over()
