"""Who is connected to the session servers of a cluster, and what the subscribers of a service have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from slotreeve.errors import ClientError, Unreachable
from slotreeve.model.data_info import DataInfo
from slotreeve.model.nodes import Node
from slotreeve.ports import Message, Transport
from slotreeve_protocol.people_messages import (
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

from slotreeve_client.administration import ask_any, cluster_view
from slotreeve_client.each_server import ask_each

P = TypeVar("P", ClientPage, SubscriberPage, UsePage)


@dataclass(frozen=True)
class AllClients:
    """What the session servers replied.

    Attributes:
        clients: the connected clients by session server.
        silent: session servers that did not reply, with the reason: their clients are missing here.
    """

    clients: Mapping[str, list[ClientIs]]
    silent: Mapping[str, str]


@dataclass(frozen=True)
class AllSubscribers:
    """The subscribers of a service.

    Attributes:
        versions: of each session server's copy, where it has one.
        subscribers: by session server.
        silent: session servers that did not reply, with the reason.
    """

    versions: Mapping[str, int]
    subscribers: Mapping[str, list[SubscriberIs]]
    silent: Mapping[str, str]

    @property
    def newest(self) -> int:
        """The newest version that any session server has; 0 if none has one."""
        return max(self.versions.values(), default=0)

    def is_current(self, subscriber: SubscriberIs) -> bool:
        """Whether this subscriber was sent the newest version, and has read it."""
        return subscriber.sent == self.newest and not subscriber.unread


@dataclass(frozen=True)
class AllUses:
    """What the clients of an application publish and subscribe to.

    Attributes:
        uses: by session server.
        silent: session servers that did not reply, with the reason.
    """

    uses: Mapping[str, list[UseIs]]
    silent: Mapping[str, str]


async def connected_clients(transport: Transport, cluster: str, metas: Iterable[str]) -> AllClients:
    """Ask every session server, page by page.

    Raises:
        Refused, Unreachable, ClientError: no meta server tells which session servers there are.
    """
    view = await cluster_view(transport, cluster, metas)
    pages, silent = await _from_all(transport, cluster, view.sessions, ClientPage, _next_clients)
    return AllClients({name: [one for page in found for one in page.clients] for name, found in pages.items()}, silent)


async def clients_of(transport: Transport, cluster: str, session: Node) -> list[ClientIs]:
    """The clients of one session server.

    Raises:
        Unreachable: it does not answer, or not with its clients.
    """
    pages, silent = await _from_all(transport, cluster, [session], ClientPage, _next_clients)
    if silent:
        raise Unreachable(f"{session.name} does not tell of its clients: {silent[session.name]}")
    return [one for page in pages[session.name] for one in page.clients]


async def subscribers_of(transport: Transport, cluster: str, metas: Iterable[str], service: str) -> AllSubscribers:
    """Ask every session server for the subscribers of ``service``, a data id or a whole data info id.

    Raises:
        ModelError: that is no name of a service.
        Refused, Unreachable, ClientError: no meta server tells which session servers there are.
    """
    data_info_id = DataInfo.parse(service).id
    view = await cluster_view(transport, cluster, metas)

    def asking(page: SubscriberPage | None) -> GetSubscribers | None:
        if page is None:
            return GetSubscribers(data_info_id)
        return GetSubscribers(data_info_id, page.subscribers[-1].id) if page.more and page.subscribers else None

    pages, silent = await _from_all(transport, cluster, view.sessions, SubscriberPage, asking)
    return AllSubscribers(
        {name: found[-1].version for name, found in pages.items() if found[-1].version},
        {name: [one for page in found for one in page.subscribers] for name, found in pages.items()},
        silent,
    )


async def uses_of(transport: Transport, cluster: str, metas: Iterable[str], application: str) -> AllUses:
    """Ask every session server what the clients of an application publish and subscribe to, page by page.

    Raises:
        Refused, Unreachable, ClientError: no meta server tells which session servers there are.
    """
    view = await cluster_view(transport, cluster, metas)

    def asking(page: UsePage | None) -> GetUses | None:
        if page is None:
            return GetUses(application)
        last = page.uses[-1] if page.more and page.uses else None
        return None if last is None else GetUses(application, last.client, last.data_info_id)

    pages, silent = await _from_all(transport, cluster, view.sessions, UsePage, asking)
    return AllUses({name: [use for page in found for use in page.uses] for name, found in pages.items()}, silent)


def _next_clients(page: ClientPage | None) -> GetClients | None:
    if page is None:
        return GetClients()
    return GetClients(page.clients[-1].id) if page.more and page.clients else None


async def _from_all(
    transport: Transport,
    cluster: str,
    sessions: list[Node],
    kind: type[P],
    asking: Callable[[P | None], Message | None],
) -> tuple[dict[str, list[P]], dict[str, str]]:
    """All pages by server, and why others did not reply. ``asking``: the question after a page, if there is one."""

    async def pages_of(node: Node) -> list[P]:
        pages: list[P] = []
        question = asking(None)
        while question is not None:
            reply = await ask_any(transport, cluster, [node.address], question)
            if not isinstance(reply, kind):
                raise ClientError(f"{node.name} answered with a {type(reply).__name__}")
            pages.append(reply)
            question = asking(reply)
        return pages

    return await ask_each(sessions, pages_of)
