"""The pieces of the pages about services."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

from slotreeve.errors import SlotreeveError, Unreachable
from slotreeve.model.data_info import DataInfo
from slotreeve_client.audience import AllSubscribers, subscribers_of
from slotreeve_events.times import parse_time
from slotreeve_gateway import Caller, Gateway, Provider, Right, ServiceView
from slotreeve_protocol.instance import Instance
from slotreeve_protocol.overrides import Override
from slotreeve_protocol.people_messages import LATE_SECONDS, SubscriberIs

from slotreeve_face_console.cluster_topics import ClusterTopics
from slotreeve_face_console.past_pieces import PastPieces
from slotreeve_face_console.rendering import Rendering, counted, version_text
from slotreeve_face_console.server_rows import BAD, GOOD, SOON
from slotreeve_face_console.topics import Regions

SERVICES_A_PAGE = 100
PROVIDERS_A_PAGE = 100
MOST_SUBSCRIBERS = 200
"""Subscribers that are shown; those that lag come first."""
MOST_KEPT = 1_000
"""Services whose overrides are kept."""
MOST_BYTES = 200
"""Bytes of a payload that are shown."""


@dataclass(frozen=True)
class PageOf:
    """Which page of a list is shown. ``number`` counts from 1."""

    number: int
    size: int
    total: int

    @property
    def last(self) -> int:
        """Number of the last page."""
        return max(1, -(-self.total // self.size))

    @property
    def shown(self) -> slice:
        """What of the list is on the page."""
        return slice((self.number - 1) * self.size, self.number * self.size)

    @property
    def text(self) -> str:
        """Such as ``1 to 100 of 250``."""
        if not self.total:
            return "none"
        return f"{self.shown.start + 1:,} to {min(self.shown.stop, self.total):,} of {self.total:,}"


def page_of(asked: int, size: int, total: int) -> PageOf:
    """The page that was asked for, or the last one where there are not so many."""
    last = max(1, -(-total // size))
    return PageOf(max(1, min(asked, last)), size, total)


@dataclass(frozen=True)
class ProviderRow:
    """A provider. ``instance`` is as subscribers see it, ``said`` as it registered; both None: it published bytes of
    its own, and ``payload`` is their beginning. ``differs``: the fields that an override changes."""

    register_id: str
    zone: str
    instance: Instance | None
    said: Instance | None
    payload: str = ""
    override: Override | None = None
    differs: Sequence[str] = ()

    @property
    def tone(self) -> str:
        """How its health is to be shown."""
        if self.instance is None or (self.instance.health.rank == 0 and self.instance.enabled):
            return GOOD
        return SOON if self.instance.health.rank == 1 and self.instance.enabled else BAD


@dataclass(frozen=True)
class SubscriberRow:
    """A subscriber, at which session server, and what it has."""

    server: str
    client: SubscriberIs
    newest: int

    def is_among(self, names: frozenset[str]) -> bool:
        """Whether its id or its address without the port is among these."""
        return self.client.id in names or self.client.address.rpartition(":")[0] in names

    @property
    def state(self) -> str:
        """In words: ``late`` has the newest version, and does not use it yet."""
        if self.client.sent == self.newest and not self.client.unread and self.client.late_seconds >= LATE_SECONDS:
            return "late"
        if self.client.sent == self.newest and not self.client.unread:
            return "current"
        return "waits for its first push" if not self.client.sent else "behind"


@dataclass
class _KeptOverrides:
    """What was read of a service, for as long as it does not change."""

    index: int = -1
    overrides: Mapping[str, Override] = field(default_factory=dict)


class ServiceTopics:
    """Makes the pieces of pages about services."""

    def __init__(self, gateway: Gateway, cluster: ClusterTopics, past: PastPieces, rendering: Rendering) -> None:
        self._gateway, self._cluster, self._past, self._rendering = gateway, cluster, past, rendering
        self._kept: dict[str, _KeptOverrides] = {}

    async def listed(self, caller: Caller, sought: str, asked: int) -> Regions:
        """The services whose names hold ``sought``, in any case, and that the caller may see.

        Raises:
            Unreachable: the registry does not answer.
        """
        services, make = await self._cluster.services(), self._rendering
        all_of_them, needle = caller.may(Right.OPERATE, "*"), sought.casefold()
        names = [
            name
            for name in services
            if (not needle or needle in name.casefold()) and (all_of_them or caller.may(Right.READ, name))
        ]
        page = page_of(asked, SERVICES_A_PAGE, len(names))
        rows = {name: make.piece("service_row", name, services[name]) for name in names[page.shown]}
        nothing = "No service has this in its name." if sought else "No service has an instance now."
        return {
            **await self._bar(all_of_them),
            "pager": {"pager": make.piece("pager", page, urlencode({"q": sought}) if sought else "")},
            "services": rows or make.rows_none(nothing, 2),
        }

    async def _bar(self, is_operator: bool) -> Mapping[str, Mapping[str, str]]:
        """The state of the cluster, for operators, where it is known."""
        if not is_operator:
            return {}
        try:
            return {"bar": await self._cluster.bar()}
        except Unreachable:
            return {}

    async def one(self, service: str, asked: int, is_operator: bool) -> Regions:
        """A service: its providers and, for operators, its subscribers.

        Raises:
            ModelError: that is no name of a service.
            Backpressure, RequestTimeout, ClientError, ClientClosed: the registry does not answer.
        """
        make, acts = self._rendering, is_operator and self._rendering.acts
        about: Regions = {}
        if is_operator:
            (view, overrides), about = await asyncio.gather(self._with_overrides(service), self._about(service))
        else:
            view, overrides = await self._gateway.registry.view(service), {}
        page = page_of(asked, PROVIDERS_A_PAGE, len(view.providers))
        rows = [provider_row(provider, overrides) for provider in view.providers[page.shown]]
        return {
            **await self._bar(is_operator),
            "pager": {"pager": make.piece("pager", page, "")},
            **({"known": {}} if is_operator else {}),
            **about,
            "providers": {row.register_id: make.piece("provider", row, service if acts else "") for row in rows}
            or make.rows_none("No instance is registered now.", 10 if acts else 9),
        }

    async def _about(self, service: str) -> Regions:
        """What changed, who subscribes, and how changes travel."""
        timeline, subscribers, holders = await asyncio.gather(
            self._past.timeline(service), self._of_subscribers(service), self._cluster.delays.service(service)
        )
        return {**timeline, **subscribers, "holders": holders}

    async def _with_overrides(self, service: str) -> tuple[ServiceView, Mapping[str, Override]]:
        view = await self._gateway.registry.view(service)
        return view, await self._overrides(view)

    async def one_at(self, service: str, asked: int, at: str) -> Regions:
        """A service as it was at some time, for operators: what its providers said then, without overrides. ``at``: an
        ISO time with a zone."""
        at_ms = parse_time("at", at, 0)
        (providers, known), make = await self._past.at(service, at_ms), self._rendering
        page = page_of(asked, PROVIDERS_A_PAGE, len(providers))
        rows = [provider_row(provider, {}) for provider in providers[page.shown]]
        return {
            **await self._bar(True),
            "known": known,
            "pager": {"pager": make.piece("pager", page, urlencode({"at": at}))},
            "providers": {row.register_id: make.piece("provider", row, "") for row in rows}
            or make.rows_none("No instance is known of that time.", 9),
            **await self._about(service),
        }

    async def _overrides(self, view: ServiceView) -> Mapping[str, Override]:
        """The overrides of a service; they are asked for again when the service has changed, or an override of it."""
        known = self._kept.pop(view.data_info_id, None) or _KeptOverrides()
        self._kept[view.data_info_id] = known
        if len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        if known.index != view.index:
            index = view.index
            try:
                known.overrides = await self._gateway.registry.overrides(view.data_info_id)
                known.index = index
            except SlotreeveError:
                return known.overrides  # what changes is seen in the instances even so
        return known.overrides

    async def _of_subscribers(self, service: str) -> dict[str, Mapping[str, str]]:
        servers, make = self._gateway.servers, self._rendering
        try:
            found = await subscribers_of(servers.transport, servers.cluster, servers.metas, service)
        except SlotreeveError as error:
            text = f"The subscribers cannot be listed now: {error}."
            return {"audience": make.sentences([text], "", "bad"), "subscribers": {}}
        rows = subscriber_rows(found)
        late = sum(row.state == "late" for row in rows)
        behind = sum(row.state != "current" for row in rows) - late
        texts = [f"{name} does not tell of its clients: {why}." for name, why in found.silent.items()]
        newest = version_text(found.newest)
        summary = f"{counted(len(rows), 'subscriber')}; the newest version that a session server has is {newest}."
        if behind:
            texts.append(f"{counted(behind, 'subscriber')} behind.")
        if late:
            texts.append(f"{counted(late, 'subscriber')} late: the newest version is there, and callbacks take long.")
        if len(rows) > MOST_SUBSCRIBERS:
            summary += f" {MOST_SUBSCRIBERS} are shown, those that lag first."
        off = self._cluster.clients_off
        pieces = {
            f"{row.server} {row.client.id}": make.piece("subscriber", row, row.is_among(off))
            for row in rows[:MOST_SUBSCRIBERS]
        }
        return {
            "audience": {"summary": make.piece("sentence", "summary", summary, "quiet")}
            | (make.sentences(texts, "", "bad") if texts else {}),
            "subscribers": pieces or make.rows_none("Nobody subscribes now.", 7 if make.acts else 6),
        }


def provider_row(provider: Provider, overrides: Mapping[str, Override]) -> ProviderRow:
    """One provider as the page shows it."""
    said, seen = provider.said, provider.instance
    if said is None or seen is None:
        joined = b" ".join(provider.data)
        text = joined[:MOST_BYTES].decode(errors="replace") + ("…" if len(joined) > MOST_BYTES else "")
        return ProviderRow(provider.register_id, provider.zone, None, None, text)
    differs = [name for name in ("weight", "enabled") if getattr(said, name) != getattr(seen, name)]
    return ProviderRow(provider.register_id, provider.zone, seen, said, "", overrides.get(said.id), differs)


def subscriber_rows(found: AllSubscribers) -> Sequence[SubscriberRow]:
    """All subscribers, those that lag first."""
    rows = [
        SubscriberRow(server, client, found.newest)
        for server, clients in found.subscribers.items()
        for client in clients
    ]
    return sorted(rows, key=lambda row: (row.state == "current", row.client.id, row.server))


def known_service(text: str) -> str:
    """The data info id of a service. Raises ModelError: the text is no name of one."""
    return DataInfo.parse(text).id
