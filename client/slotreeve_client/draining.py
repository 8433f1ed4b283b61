"""What a server holds, and who takes it over where an order takes the server out."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

import msgspec
from slotreeve.errors import NotThere, RequestError
from slotreeve.model.nodes import Node, Role
from slotreeve.ports import Transport
from slotreeve_protocol.meta_messages import View
from slotreeve_protocol.orders import Orders

from slotreeve_client.administration import change_orders, cluster_view
from slotreeve_client.audience import clients_of


@dataclass(frozen=True)
class ServerHolds:
    """What one data or session server holds.

    Attributes:
        node: the server.
        leads, follows: slots of a data server.
        clients: of a session server.
        others: number of the other servers of its role that are not banned. ``peers``: the names of all of them.
    """

    node: Node
    leads: int
    follows: int
    clients: int
    others: int
    peers: frozenset[str] = frozenset()

    @property
    def is_nothing(self) -> bool:
        """Whether it holds nothing."""
        return not (self.leads or self.follows or self.clients)

    def banned_in(self, orders: Orders) -> Orders:
        """These orders with a ban of the server: the change that takes it out.

        Raises:
            RequestError: no other server of its role is left that could take over. So two servers that are drained at
                one moment are not both taken out.
        """
        if self.peers <= orders.banned:
            name, role = self.node.name, self.node.role
            raise RequestError(f"{name} is the only {role} server that may hold anything: none could take over")
        return msgspec.structs.replace(orders, banned=orders.banned | {self.node.name})

    def __str__(self) -> str:
        """In words."""
        if self.is_nothing:
            return "nothing"
        if self.node.role is Role.SESSION:
            return f"{self.clients} clients"
        return f"{self.leads} leaders and {self.follows} followers of slots"


async def holdings(
    transport: Transport, cluster: str, view: View, node: Node, banned: Set[str] = frozenset()
) -> ServerHolds:
    """What ``node`` holds; nothing, if it is a session server that has gone. ``banned``: names of servers that take
    nothing over.

    Raises:
        Unreachable: it is a session server, and does not tell of its clients.
    """
    peers = view.sessions if node.role is Role.SESSION else view.data
    names = frozenset(peer.name for peer in peers) - {node.name}
    others = len(names - banned)
    if node.role is Role.SESSION:
        clients = len(await clients_of(transport, cluster, node)) if node in view.sessions else 0
        return ServerHolds(node, 0, 0, clients, others, names)
    leads = sum(slot.leader == node.name for slot in view.table.slots)
    follows = sum(node.name in slot.holders[1:] for slot in view.table.slots)
    return ServerHolds(node, leads, follows, 0, others, names)


def member_of(view: View, name: str) -> Node | None:
    """The data or session server of this name; None: there is none."""
    return next((node for node in [*view.data, *view.sessions] if node.name == name), None)


async def drainable(transport: Transport, cluster: str, addresses: Iterable[str], name: str) -> ServerHolds:
    """What the server ``name`` holds and others could take over, which are not banned.

    Raises:
        NotThere: there is no such member.
        RequestError: there is no other server of its role that could.
        Refused, Unreachable, ClientError: no meta server tells, or a session server does not tell of its clients.
    """
    known = list(addresses)
    view = await cluster_view(transport, cluster, known)
    node = member_of(view, name)
    if node is None:
        members = ", ".join(sorted(node.name for node in [*view.data, *view.sessions])) or "none"
        raise NotThere(f"{name} is no member; members are {members}")
    orders, _ = await change_orders(transport, cluster, known, lambda orders: orders)
    held = await holdings(transport, cluster, view, node, orders.banned)
    held.banned_in(orders)
    return held
