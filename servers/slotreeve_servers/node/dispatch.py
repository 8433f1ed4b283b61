"""From a received message to the method that handles it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from slotreeve.errors import SlotreeveError
from slotreeve.ports import Connection, Message
from slotreeve_protocol.general_messages import Counters, Done, Failed, GetCounters, Ping

log = logging.getLogger("slotreeve.dispatch")

Method = Callable[[Connection, Any, "int | None"], None]
"""Handles one message; where the request id is not None, it replies now or later."""


class Dispatcher:
    """A transport handler that looks up a method by the type of the message.

    A message that the role does not take is answered with Failed where it is a request, else logged and counted in
    ``unexpected``: it disturbs nobody. ``Ping`` is answered for every role, and ``GetCounters`` with ``counters()``.
    """

    def __init__(
        self,
        methods: Mapping[type, Method],
        opened: Callable[[Connection], None],
        closed: Callable[[Connection, str], None],
        counters: Callable[[], dict[str, int]] = dict,
    ) -> None:
        self._methods = dict(methods)
        self.opened = opened
        self.closed = closed
        self._counters = counters
        self.unexpected = 0

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        """Hand the message to its method."""
        method = self._methods.get(type(message))
        if method is None:
            self._unexpected(connection, message, request_id)
            return
        try:
            method(connection, message, request_id)
        except SlotreeveError as error:
            log.warning("%s from %s: %s", type(message).__name__, connection.peer.node, error)
            if request_id is not None:
                connection.reply(request_id, Failed(error.code, str(error)))

    def _unexpected(self, connection: Connection, message: Message, request_id: int | None) -> None:
        if isinstance(message, Ping):
            if request_id is not None:
                connection.reply(request_id, Done())
            return
        if isinstance(message, GetCounters):
            if request_id is not None:
                connection.reply(request_id, Counters(self._counters() | {"unexpected_messages": self.unexpected}))
            return
        self.unexpected += 1
        name = type(message).__name__
        log.warning("%s from %s is nothing this server takes", name, connection.peer.node)
        if request_id is not None:
            connection.reply(request_id, Failed("SR208", f"this server does not take {name}"))
