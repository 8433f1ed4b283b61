"""Questions of the past to all servers of a cluster, with their answers put together.

The leader and the followers of a slot write down what changes in it, each server what happens to it. So a service has
its past at several: the answer of the higher leader epoch counts, and of one epoch the later one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import msgspec
from slotreeve.errors import ClientError
from slotreeve.model.data_info import DataInfo
from slotreeve.model.nodes import Node, Role
from slotreeve.model.publisher import Publisher
from slotreeve.ports import Message, Transport
from slotreeve_protocol.client_messages import Datum, Get
from slotreeve_protocol.history_messages import (
    MOST_EVENTS,
    ChangePage,
    EventPage,
    GetChanges,
    GetEvents,
    GetServiceAt,
    HistoryEvent,
    KnownState,
    ServiceAt,
    ServiceChange,
)

from slotreeve_client.administration import ask_any, cluster_view
from slotreeve_client.each_server import ask_each

M = TypeVar("M", bound=Message)
P = TypeVar("P", int, str)
FOREVER_MS = 1 << 62
META_NAME = "meta server at "


class Span(NamedTuple):
    """From ``since_ms`` until before ``until_ms``, in milliseconds since 1970."""

    since_ms: int = 0
    until_ms: int = FOREVER_MS


ALWAYS = Span()


@dataclass(frozen=True)
class PastService:
    """What a service was at some time.

    Attributes:
        known: how it is known; NOTHING: no server wrote down a change, so it is as it is now.
        since_ms: when it last changed before that time; or, of a state before a change, when that change was.
        server: the server that knows; empty if none does.
        begins_ms: the latest time at which the history of a server that answered begins. For an earlier time the
            answer may be wrong.
        silent: servers that gave no answer, and why.
    """

    known: KnownState
    since_ms: int
    server: str
    begins_ms: int
    records: Mapping[str, Publisher]
    silent: Mapping[str, str]


@dataclass(frozen=True)
class Past:
    """What happened, the newest first unless it was asked for otherwise.

    Attributes:
        changes: with the server that wrote them down.
        events: the same.
        begins_ms: the latest time at which the history of a server that answered begins; 0 if none has any.
        lost: events that servers could not write since their start, by server.
        more: there are earlier ones (or later ones, where these are the oldest).
        silent: servers that gave no answer, and why.
    """

    changes: Sequence[tuple[str, ServiceChange]] = ()
    events: Sequence[tuple[str, HistoryEvent]] = ()
    begins_ms: int = 0
    lost: Mapping[str, int] = field(default_factory=dict)
    more: bool = False
    silent: Mapping[str, str] = field(default_factory=dict)


async def service_at(transport: Transport, cluster: str, metas: Iterable[str], service: str, at_ms: int) -> PastService:
    """What ``service``, a data id or a whole data info id, was at ``at_ms`` (milliseconds since 1970).

    Raises:
        ModelError: that is no name of a service.
        Refused, Unreachable, ClientError: no meta server tells which servers there are, or none is left to ask what
            the service is now.
    """
    data_info_id = DataInfo.parse(service).id
    view = await cluster_view(transport, cluster, metas)

    async def asked(node: Node) -> tuple[ServiceAt, dict[str, Publisher]]:
        records: dict[str, Publisher] = {}
        after = ""
        while True:
            question = GetServiceAt(data_info_id, at_ms, after)
            page = _expected(ServiceAt, await ask_any(transport, cluster, [node.address], question), node)
            records.update((record.register_id, record) for record in page.records)
            if not page.more or not page.records:
                return page, records
            after = _further(after, page.records[-1].register_id, node)

    found, silent = await ask_each(view.data, asked)
    begins = max((page.begins_ms for page, _ in found.values()), default=0)
    exact = {n: f for n, f in found.items() if f[0].known in (KnownState.EXACTLY, KnownState.AS_NOW)}
    before = {n: f for n, f in found.items() if f[0].known is KnownState.BEFORE_A_CHANGE}
    if exact:
        server = max(exact, key=lambda name: _weight(exact[name][0]))
    elif before:
        server = min(before, key=lambda name: (before[name][0].leader_epoch, before[name][0].since_ms))
    else:
        server = ""
    if not server or found[server][0].known is KnownState.AS_NOW:
        records = await _present(transport, cluster, [node.address for node in view.sessions], data_info_id)
        if not server:
            return PastService(KnownState.NOTHING, 0, "", begins, records, silent)
        return PastService(KnownState.AS_NOW, found[server][0].since_ms, server, begins, records, silent)
    page, records = found[server]
    return PastService(page.known, page.since_ms, server, begins, records, silent)


def _weight(page: ServiceAt) -> tuple[int, bool, int]:
    """The answer of the greatest weight counts. A server that lacks a part of an epoch may hold the slot no more."""
    return page.leader_epoch, page.known is KnownState.EXACTLY, page.since_ms


async def _present(
    transport: Transport, cluster: str, sessions: Sequence[str], data_info_id: str
) -> dict[str, Publisher]:
    records: dict[str, Publisher] = {}
    version = 0
    while True:
        reply = await ask_any(transport, cluster, sessions, Get(data_info_id, len(records), version))
        if not isinstance(reply, Datum):
            raise ClientError(f"a session server answered Get with a {type(reply).__name__}")
        if reply.version != version:
            records, version = {}, reply.version
        records.update((record.register_id, record) for record in reply.publishers)
        if not reply.publishers or len(records) >= reply.total:
            return records


async def past_changes(
    transport: Transport,
    cluster: str,
    metas: Iterable[str],
    service: str = "",
    span: Span = ALWAYS,
    most: int = MOST_EVENTS,
) -> Past:
    """The newest changes of ``service``, or of all, about ``most``.

    Raises:
        ModelError: that is no name of a service.
        Refused, Unreachable, ClientError: no meta server tells which servers there are.
    """
    data_info_id = DataInfo.parse(service).id if service else ""
    view = await cluster_view(transport, cluster, metas)

    async def asked(node: Node) -> ChangePage:
        pages: list[ChangePage] = []
        until, left = span.until_ms, most
        while True:
            question = GetChanges(data_info_id, span.since_ms, until, left)
            page = _expected(ChangePage, await ask_any(transport, cluster, [node.address], question), node)
            pages.append(page)
            left -= len(page.changes)
            if not page.more or not page.changes or left <= 0:
                gathered = [change for each in pages for change in each.changes]
                return ChangePage(page.begins_ms, gathered, page.more)
            until = -_further(-until, -page.changes[-1].at_ms, node)

    found, silent = await ask_each(view.data, asked)
    changes = _told_once([(name, change) for name, page in found.items() for change in page.changes])
    return Past(
        changes=changes[:most],
        begins_ms=max((page.begins_ms for page in found.values()), default=0),
        more=len(changes) > most or any(page.more for page in found.values()),
        silent=silent,
    )


def _told_once(told: Iterable[tuple[str, ServiceChange]]) -> list[tuple[str, ServiceChange]]:
    """The newest first, and each change as one server tells it: the leader, who knows the reasons, if it still can."""
    found: list[tuple[str, ServiceChange]] = []
    known: set[tuple[str, int, str, int, bool]] = set()
    for server, row in sorted(told, key=lambda pair: not pair[1].is_told_by_leader):
        new = []
        for change in row.changes:
            key = row.data_info_id, row.leader_epoch, change.register_id, change.version, change.is_gone
            if key not in known:
                known.add(key)
                new.append(change)
        if new:
            found.append((server, msgspec.structs.replace(row, changes=new)))
    return sorted(found, key=lambda pair: pair[1].at_ms, reverse=True)


async def past_events(
    transport: Transport,
    cluster: str,
    metas: Iterable[str],
    span: Span = ALWAYS,
    kinds: Sequence[str] = (),
    most: int = MOST_EVENTS,
    after: Mapping[str, int] | None = None,
) -> Past:
    """The newest events of all servers, about ``most``. With ``after``, the places of the last events that the caller
    has by server, the oldest behind these: for callers that follow.

    Raises:
        Refused, Unreachable, ClientError: no meta server tells which servers there are.
    """
    known = list(metas)
    view = await cluster_view(transport, cluster, known)
    nodes = [*(Node(META_NAME + a, Role.META, a, "") for a in known), *view.data, *view.sessions]

    async def asked(node: Node) -> EventPage:
        pages: list[EventPage] = []
        place, left = (after or {}).get(node.name, 0), most
        while True:
            question = GetEvents(*span, tuple(kinds), place, after is None, left)
            page = _expected(EventPage, await ask_any(transport, cluster, [node.address], question), node)
            pages.append(page)
            left -= len(page.events)
            if not page.more or not page.events or left <= 0:
                gathered = [event for each in pages for event in each.events]
                return EventPage(page.begins_ms, page.lost, gathered, page.more)
            if after is None:
                place = -_further(-(place or FOREVER_MS), -page.events[-1].place, node)
            else:
                place = _further(place, page.events[-1].place, node)

    found, silent = await ask_each(nodes, asked)
    events = [(name, event) for name, page in found.items() for event in page.events]
    return Past(
        events=events,
        begins_ms=max((page.begins_ms for page in found.values()), default=0),
        lost={name: page.lost for name, page in found.items() if page.lost},
        more=any(page.more for page in found.values()),
        silent=silent,
    )


def _further(before: P, after: P, node: Node) -> P:
    """Where the next page begins. Raises ClientError: it would be the same one, again and again."""
    if not after > before:
        raise ClientError(f"{node.name} answers with the same page again")
    return after


def _expected(kind: type[M], reply: Message, node: Node) -> M:
    if not isinstance(reply, kind):
        raise ClientError(f"{node.name} answered with a {type(reply).__name__}")
    return reply
