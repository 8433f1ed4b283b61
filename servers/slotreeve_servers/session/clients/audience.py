"""Who is connected to this session server, and what each subscriber of a service has. Pure: it only reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from heapq import nsmallest
from operator import attrgetter
from typing import TypeVar

from slotreeve_protocol.people_messages import (
    MOST_LISTED,
    ClientIs,
    ClientPage,
    GetClients,
    GetSubscribers,
    GetUses,
    SubscriberIs,
    SubscriberPage,
    UseIs,
    UsePage,
)

from slotreeve_servers.node.outbox import Outbox, Peer
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.push.interests import Interests

T = TypeVar("T")


class Audience:
    """Answers in pages, so that no answer holds up what clients send."""

    def __init__(self, outbox: Outbox, clients: Mapping[Peer, ConnectedClient], interests: Interests) -> None:
        self._outbox, self._clients, self._interests = outbox, clients, interests

    def on_get_clients(self, peer: Peer, asked: GetClients) -> ClientPage:
        """A page of the clients."""
        after = [client for client in self._clients.values() if client.peer.node > asked.after]
        wanted = _whole_ids(after, _most(asked.most), attrgetter("peer.node"))
        now = self._outbox.attended()
        return ClientPage([self._client(client, now) for client in wanted], len(after) > len(wanted))

    def _client(self, client: ConnectedClient, now: float) -> ClientIs:
        return ClientIs(
            client.peer.node,
            client.peer.address,
            now - client.since,
            len(client.records),
            client.waiting,
            len(client.watched),
            sum(self._unread(client, name) for name in client.watched),
            client.is_off,
            client.late_seconds,
            client.peer.application,
        )

    def _unread(self, client: ConnectedClient, data_info_id: str) -> int:
        service = self._interests.services.get(data_info_id)
        groups = () if service is None else service.groups.values()
        found = (group.subscribers.get(client) for group in groups)
        return sum(len(subscriber.in_flight) for subscriber in found if subscriber is not None)

    def on_get_uses(self, peer: Peer, asked: GetUses) -> UsePage:
        """A page of what the clients of an application publish and subscribe to. A client with two connections, one of
        which has not ended yet, is one."""
        asked_after = (asked.after_client, asked.after_service)
        clients: dict[str, list[ConnectedClient]] = {}
        for client in self._clients.values():
            if client.peer.application == asked.application and client.peer.node >= asked.after_client:
                clients.setdefault(client.peer.node, []).append(client)
        most, found = _most(asked.most), list[UseIs]()
        for name in sorted(clients):
            found += [use for use in _uses(clients[name]) if (name, use.data_info_id) > asked_after]
            if len(found) > most:
                return UsePage(found[:most], True)
        return UsePage(found)

    def on_get_subscribers(self, peer: Peer, asked: GetSubscribers) -> SubscriberPage:
        """A page of the subscribers of a service. A client that subscribes under two scopes is there twice."""
        service = self._interests.services.get(asked.data_info_id)
        if service is None:
            return SubscriberPage(0, 0, [])
        all_of_them = [
            SubscriberIs(
                client.peer.node,
                client.peer.address,
                scope,
                subscriber.version,
                len(subscriber.in_flight),
                client.late_seconds,
            )
            for scope, group in service.groups.items()
            for client, subscriber in group.subscribers.items()
            if client.peer.node > asked.after
        ]
        wanted = _whole_ids(all_of_them, _most(asked.most), attrgetter("id"))
        return SubscriberPage(service.copy.version, len(service.copy.records), wanted, len(all_of_them) > len(wanted))


def _uses(connections: list[ConnectedClient]) -> list[UseIs]:
    """What one client publishes and subscribes to, by service."""
    published = Counter(record.data_info_id for client in connections for record in client.records.values())
    watched = {name for client in connections for name in client.watched}
    peer = connections[-1].peer
    return [
        UseIs(peer.node, peer.address, name, published[name], name in watched)
        for name in sorted({*published, *watched})
    ]


def _most(asked: int) -> int:
    return max(1, min(asked, MOST_LISTED))


def _whole_ids(rows: Sequence[T], most: int, id_of: Callable[[T], str]) -> list[T]:
    """The first rows by id, and with each id all of its rows: the next page begins after the last id."""
    ids = nsmallest(most, map(id_of, rows))
    last = ids[-1] if ids else ""
    return sorted((row for row in rows if id_of(row) <= last), key=id_of)
