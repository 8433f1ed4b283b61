"""Calls of what users of a connection have written, none of which may end more than that connection."""

from __future__ import annotations

import logging
import sys

from slotreeve.ports import Connection, Handler, TransportCounters

from slotreeve_protocol.requests import Answered

log = logging.getLogger("slotreeve.channel")


class GuardedHandler:
    """Calls the handler of one connection, and whoever waits for a reply there. Whatever they raise is logged and
    counted, and ends only this connection."""

    __slots__ = ("_connection", "_counters", "_handler")

    def __init__(self, connection: Connection, handler: Handler, counters: TransportCounters) -> None:
        self._connection, self._handler, self._counters = connection, handler, counters

    def opened(self) -> None:
        """The hellos were exchanged."""
        try:
            self._handler.opened(self._connection)
        except Exception:  # noqa: BLE001 - whatever a handler raises
            self.failed()

    def closed(self, reason: str) -> None:
        """The connection has ended."""
        try:
            self._handler.closed(self._connection, reason)
        except Exception:  # noqa: BLE001 - as above
            self.failed()

    def fail_request(self, answered: Answered, error: Exception) -> None:
        """A request got no reply."""
        try:
            answered(None, error)
        except Exception:  # noqa: BLE001 - as above
            self.failed()

    def failed(self) -> None:
        """Call it in the handling of an exception: log it, count it, and end the connection.

        Raises:
            MemoryError: that was the exception. It is the whole process that cannot go on.
        """
        self._counters.handler_errors += 1
        self._connection.close("the handler failed; its log says why")
        log.exception("the handler of the connection to %s failed", self._connection.address)
        if isinstance(sys.exception(), MemoryError):
            raise
