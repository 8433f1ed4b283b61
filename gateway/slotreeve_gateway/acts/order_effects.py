"""What a change of the standing orders does on the live state, in sentences."""

from __future__ import annotations

from collections.abc import Iterable

from slotreeve.errors import SlotreeveError
from slotreeve.model.nodes import Role
from slotreeve_client.administration import cluster_view
from slotreeve_client.audience import AllClients, connected_clients
from slotreeve_client.condition import ClusterCondition, cluster_condition
from slotreeve_client.draining import holdings, member_of
from slotreeve_protocol.meta_messages import View
from slotreeve_protocol.orders import Orders
from slotreeve_protocol.people_messages import ClientIs

from slotreeve_gateway.servers import ClusterServers


async def effects(servers: ClusterServers, before: Orders, after: Orders, banning: str = "Banning") -> list[str]:
    """What it does that the orders ``before`` become those ``after``; empty if they are the same. ``banning``: how the
    sentence of a ban begins.

    Raises:
        Refused, Unreachable, ClientError: no meta server tells the state.
    """
    found: list[str] = []
    if before.banned != after.banned:
        view = await cluster_view(*servers.asked)
        found += [await _banned(servers, view, name, after, banning) for name in sorted(after.banned - before.banned)]
        found += [_unbanned(view, name) for name in sorted(before.banned - after.banned)]
    push = (before.push_stopped, before.push_to) != (after.push_stopped, after.push_to)
    if push or before.clients_off != after.clients_off:
        clients = await connected_clients(*servers.asked)
        if push:
            found.append(_pushed(clients, after))
        found += [_hidden(clients, name) for name in sorted(after.clients_off - before.clients_off)]
        found += [_shown(clients, name) for name in sorted(before.clients_off - after.clients_off)]
        found += [f"{name} does not tell of its clients: {why}." for name, why in sorted(clients.silent.items())]
    if before.ends_frozen != after.ends_frozen:
        found.append(_frozen(await cluster_condition(*servers.asked), after.ends_frozen))
    return found


def _frozen(seen: ClusterCondition, is_frozen: bool) -> str:
    held = [counters for counters in seen.held.values() if "endings_held" in counters]
    lost = counted(sum(counters["endings_held"] for counters in held), "registration")
    leases = counted(sum(counters["leases_held"] for counters in held), "lease")
    if is_frozen:
        return (
            "Freezing ends keeps every registration until its provider withdraws it: now "
            f"{lost} of lost clients and {leases} that nobody has renewed in time."
        )
    return (
        f"Thawing ends lets {lost} of lost clients and {leases} end that nobody has renewed in time; "
        "data.brake_share holds many at once back."
    )


async def _banned(servers: ClusterServers, view: View, name: str, after: Orders, banning: str) -> str:
    node = member_of(view, name)
    if node is None:
        return f"{banning} {name} has no effect yet: no member has this name. One that joins under it gets nothing."
    try:
        held = await holdings(servers.transport, servers.cluster, view, node, after.banned)
    except SlotreeveError as error:
        return f"{banning} {name} takes what it holds from it, which is not known: {error}."
    if held.is_nothing:
        return f"{banning} {name} moves nothing: it holds nothing."
    if not held.others:
        return (
            f"{banning} {name} leaves what it holds without a place, {held}: no other {node.role} server takes it over."
        )
    others = counted(held.others, f"other {node.role} server")
    if node.role is Role.SESSION:
        return f"{banning} {name} sends its {counted(held.clients, 'client')} to {others}."
    leaders, copies = counted(held.leads, "leader"), counted(held.follows, "follower")
    return f"{banning} {name} moves {leaders} and {copies} of slots to {others}."


def _unbanned(view: View, name: str) -> str:
    node = member_of(view, name)
    if node is None:
        return f"Taking back the ban of {name} has no effect yet: no member has this name."
    what = "slots, which the balancer moves to it step by step" if node.role is Role.DATA else "clients"
    return f"Taking back the ban of {name} lets it hold {what}."


def _pushed(clients: AllClients, after: Orders) -> str:
    subscribing = [one for one in _all(clients) if one.services]
    if not after.push_stopped:
        return f"Starting pushes brings {counted(len(subscribing), 'subscribing client')} up to date."
    left = sum(not _is_named(one, after.push_to) for one in subscribing)
    return (
        f"Stopping pushes leaves {left} of {counted(len(subscribing), 'subscribing client')} without changes until "
        "pushes start again; publishing and lookups go on."
    )


def _hidden(clients: AllClients, name: str) -> str:
    named = [one for one in _all(clients) if _is_named(one, {name})]
    if not named:
        return f"Hiding {name} has no effect yet: no connected client has this id or address."
    records = counted(sum(one.records for one in named), "registration")
    return f"Hiding {name} takes {records} of {counted(len(named), 'connected client')} from every subscriber."


def _shown(clients: AllClients, name: str) -> str:
    named = sum(_is_named(one, {name}) for one in _all(clients))
    return f"Showing {name} lets {counted(named, 'connected client')} connect and publish everything again."


def _all(clients: AllClients) -> Iterable[ClientIs]:
    return (one for listed in clients.clients.values() for one in listed)


def _is_named(client: ClientIs, names: set[str] | frozenset[str]) -> bool:
    """By its id, or by its address without the port."""
    return client.id in names or client.address.rpartition(":")[0] in names


def counted(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
