"""The operator's standing orders, as one session server follows them."""

from __future__ import annotations

import logging

from slotreeve.errors import ModelError
from slotreeve_protocol.meta_messages import ConfigEntry
from slotreeve_protocol.orders import ORDERS_KEY, Orders

from slotreeve_servers.session.clients import ConnectedClient

log = logging.getLogger("slotreeve.orders")


class OrdersInForce:
    """The newest readable intent. One that cannot be read is logged, and the one before it stays in force."""

    def __init__(self, node: str) -> None:
        self._node = node
        self.intent = Orders()

    def take(self, entry: ConfigEntry) -> bool:
        """A provided configuration changed; True if the orders did."""
        if entry.key != ORDERS_KEY:
            return False
        try:
            intent = Orders.decode(entry.value)
        except ModelError as error:
            log.error("%s; the orders before it stay in force", error)
            return False
        before, self.intent = self.intent, intent
        return before != intent

    @property
    def is_banned(self) -> bool:
        """This server shall hold no client."""
        return self._node in self.intent.banned

    def may_push(self, client: ConnectedClient) -> bool:
        """Whether ``client`` may be pushed to."""
        return not self.intent.push_stopped or _is_among(client, self.intent.push_to)

    def is_off(self, client: ConnectedClient) -> bool:
        """Whether nobody shall see what ``client`` publishes."""
        return bool(self.intent.clients_off) and _is_among(client, self.intent.clients_off)


def _is_among(client: ConnectedClient, named: frozenset[str]) -> bool:
    """Named by its id or by its IP address."""
    connection = client.connection
    return connection.peer.node in named or connection.address.rpartition(":")[0] in named
