"""The operator's orders as one session server follows them. Pure."""

from __future__ import annotations

import logging

from slotreeve.errors import ModelError
from slotreeve_protocol.meta_messages import ConfigEntry
from slotreeve_protocol.orders import ORDERS_KEY, Orders

from slotreeve_servers.node.outbox import Peer

log = logging.getLogger("slotreeve.orders")


class OrdersInForce:
    """The newest orders that can be read.

    Attributes:
        orders: what the operator ordered.
    """

    def __init__(self, node: str) -> None:
        self._node = node
        self.orders = Orders()

    def take(self, entry: ConfigEntry) -> bool:
        """A provided configuration changed; True if the orders changed. Orders that cannot be read are logged, and the
        ones before them stay in force."""
        if entry.key != ORDERS_KEY:
            return False
        try:
            orders = Orders.decode(entry.value)
        except ModelError as error:
            log.error("%s; the orders before it stay in force", error)
            return False
        before, self.orders = self.orders, orders
        return before != orders

    @property
    def is_banned(self) -> bool:
        """This server is to hold no client."""
        return self._node in self.orders.banned

    def may_push(self, peer: Peer) -> bool:
        """Whether this client may be pushed to."""
        return not self.orders.push_stopped or _is_among(peer, self.orders.push_to)

    def is_off(self, peer: Peer) -> bool:
        """Whether nothing that this client publishes is to be visible."""
        return bool(self.orders.clients_off) and _is_among(peer, self.orders.clients_off)


def _is_among(peer: Peer, named: frozenset[str]) -> bool:
    """Named by its id or by its IP address."""
    return peer.node in named or peer.address.rpartition(":")[0] in named
