"""How long changes take from server to server, whether that is as it should be, and who lags and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta
from slotreeve.errors import ClientError
from slotreeve.model.data_info import DataInfo, short_name
from slotreeve.model.nodes import Node
from slotreeve.ports import Transport
from slotreeve_protocol.delay_messages import DelayPage, GetDelays, Lagging, ObjectiveWindow, StageDelays

from slotreeve_client.administration import ask_any, cluster_view
from slotreeve_client.each_server import ask_each

STAGES = (
    "accept_seconds",
    "store_seconds",
    "announce_seconds",
    "carry_seconds",
    "push_wait_seconds",
    "push_age_seconds",
    "receipt_seconds",
)
"""In the order of the way of a change; servers may name others."""


@dataclass(frozen=True)
class AllDelays:
    """What data and session servers replied.

    Attributes:
        pages: by server: the first page of its reply with all who lag.
        silent: servers that did not reply, with the reason.
    """

    pages: Mapping[str, DelayPage]
    silent: Mapping[str, str]

    @property
    def worst(self) -> tuple[str, Lagging] | None:
        """Of all who lag the one with the oldest change, and the server that says so."""
        found = [(name, page.worst) for name, page in self.pages.items() if page.worst is not None]
        return max(found, key=lambda pair: pair[1].seconds, default=None)


class StageReport(msgspec.Struct, frozen=True):
    """One stage of the way of changes in the last minutes, over all servers that have it."""

    stage: str
    count: Annotated[int, Meta(description="Number of durations.")]
    p50_ms: Annotated[float | None, Meta(description="Half of them were at most so long, rounded up to a range.")]
    p99_ms: Annotated[float | None, Meta(description="99 of 100 were at most so long.")]
    max_ms: Annotated[float | None, Meta(description="Of nothing there is none: null.")]
    slowest: Annotated[str, Meta(description="The server whose 99th percentile is the highest; empty: none.")]


class WindowReport(msgspec.Struct, frozen=True):
    """Pushes of changes by one session server in the last seconds, against the objective."""

    server: str
    seconds: float
    pushed: int
    late: int
    burn_rate: Annotated[float, Meta(description="Share of late pushes, divided by the share that may be late.")]


class LaggingReport(msgspec.Struct, frozen=True):
    """A subscriber, session server or slot to which changes come late now."""

    who: str
    address: str
    told_by: str
    service: str
    waits_s: Annotated[float, Meta(description="For so many seconds the oldest change has waited.")]
    why: str


class HolderReport(msgspec.Struct, frozen=True):
    """One service on one server: the leader of its slot, or a session server with subscribers."""

    server: str
    is_leader: bool
    version: int
    is_newest: bool
    subscribers: Annotated[int, Meta(description="On the leader: interested session servers.")]
    behind: Annotated[int, Meta(description="Those that lack a change.")]
    last_ms: Annotated[tuple[float, float] | None, Meta(description="Of the last change: to this server, then here.")]
    worst_ms: Annotated[tuple[float, float] | None, Meta(description="Of the slowest one of the last minutes.")]


class DelaysReport(msgspec.Struct, frozen=True):
    """How long changes take in a cluster."""

    burning: Annotated[list[str], Meta(description="Where the objective is missed, in sentences.")]
    delay_ms: Annotated[float | None, Meta(description="The objective; null: no session server told.")]
    share: float | None
    windows: list[WindowReport]
    stages: list[StageReport]
    lagging: list[LaggingReport]
    service: list[HolderReport]
    silent: dict[str, str]


async def cluster_delays(transport: Transport, cluster: str, metas: Iterable[str], service: str = "") -> AllDelays:
    """Ask every data and session server; ``service``: a data id or a whole data info id, or empty for all.

    Raises:
        ModelError: that is no name of a service.
        Refused, Unreachable, ClientError: no meta server tells which servers there are.
    """
    data_info_id = DataInfo.parse(service).id if service else ""
    view = await cluster_view(transport, cluster, metas)
    return await delays_of(transport, cluster, [*view.data, *view.sessions], data_info_id)


async def delays_of(transport: Transport, cluster: str, nodes: Sequence[Node], data_info_id: str = "") -> AllDelays:
    """Ask these servers. One that does not answer, or of an older version, is among the silent ones."""

    async def pages_of(node: Node) -> DelayPage:
        first, lagging = None, list[Lagging]()
        while True:
            after = lagging[-1].name if lagging else ""
            page = await ask_any(transport, cluster, [node.address], GetDelays(data_info_id, after))
            if not isinstance(page, DelayPage):
                raise ClientError(f"{node.name} answered with a {type(page).__name__}")
            first = first or page
            lagging += page.lagging
            if not page.more or not page.lagging:
                return msgspec.structs.replace(first, lagging=tuple(lagging))

    found, silent = await ask_each(nodes, pages_of)
    return AllDelays(found, silent)


def late_sentence(server: str, page: DelayPage) -> str:
    """That a session server misses the objective."""
    window = next((one for one in page.windows if one.late), None)
    if window is None:
        return f"{server} pushes changes late."
    return (
        f"{server} pushes changes late: {_percent(window.late / window.pushed)} in the last {_minutes(window)} took "
        f"longer than {page.delay_seconds * 1000:g} ms, of which {_percent(1 - page.share)} may."
    )


def lagging_sentence(server: str, one: Lagging) -> str:
    """Who lags, and why."""
    of = f" a change of {short_name(one.service)}" if one.service else " changes"
    place = f" at {one.address}" if one.address else ""
    return f"{one.name}{place} has waited {_seconds(one.seconds)} for{of}, says {server}: {one.why}."


def burning_sentences(found: AllDelays) -> list[str]:
    """Where the objective is missed, and who lags the most; empty while all is well."""
    said = [late_sentence(name, page) for name, page in sorted(found.pages.items()) if page.is_burning]
    if said and found.worst is not None:
        said.append(lagging_sentence(*found.worst))
    return said


def stage_reports(pages: Mapping[str, DelayPage]) -> list[StageReport]:
    """Each stage over all servers. Histograms with different ranges are not added up."""
    told: dict[tuple[int, str, tuple[float, ...]], dict[str, StageDelays]] = {}
    for server, page in pages.items():
        for stage in page.stages:
            place = STAGES.index(stage.name) if stage.name in STAGES else len(STAGES)
            told.setdefault((place, stage.name, stage.bounds), {})[server] = stage
    return [_stage(name, bounds, by_server) for (_, name, bounds), by_server in sorted(told.items())]


def _stage(name: str, bounds: tuple[float, ...], by_server: Mapping[str, StageDelays]) -> StageReport:
    stages = by_server.values()
    counts = tuple([sum(column) for column in zip(*(stage.counts for stage in stages), strict=True)])
    longest = max(stage.longest_seconds for stage in stages)
    whole = StageDelays(name, bounds, counts, longest)
    slowest = max(by_server, key=lambda server: (by_server[server].quantile(0.99), by_server[server].longest_seconds))
    return StageReport(
        name.removesuffix("_seconds"),
        whole.count,
        _ms(whole.quantile(0.5)) if whole.count else None,
        _ms(whole.quantile(0.99)) if whole.count else None,
        _ms(longest) if whole.count else None,
        slowest if by_server[slowest].count else "",
    )


def delays_report(found: AllDelays) -> DelaysReport:
    """The whole answer."""
    objective = next((page for page in found.pages.values() if page.share), None)
    lagging = [
        LaggingReport(one.name, one.address, server, short_name(one.service), round(one.seconds, 1), one.why)
        for server, page in found.pages.items()
        for one in page.lagging
    ]
    known = {server: page.service for server, page in sorted(found.pages.items()) if page.service is not None}
    newest = max((service.version for service in known.values()), default=0)
    return DelaysReport(
        burning_sentences(found),
        None if objective is None else objective.delay_seconds * 1000,
        None if objective is None else objective.share,
        [
            WindowReport(server, one.seconds, one.pushed, one.late, round(one.burn_rate, 2))
            for server, page in sorted(found.pages.items())
            for one in page.windows
        ],
        stage_reports(found.pages),
        sorted(lagging, key=lambda one: -one.waits_s),
        [
            HolderReport(
                server,
                one.leads,
                one.version,
                one.version == newest,
                one.subscribers,
                one.behind,
                _ways(one.last),
                _ways(one.worst),
            )
            for server, one in known.items()
        ],
        dict(found.silent),
    )


def _ways(told: tuple[float, float, float] | None) -> tuple[float, float] | None:
    return None if told is None else (_ms(told[0]), _ms(told[1]))


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 2)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _minutes(window: ObjectiveWindow) -> str:
    return f"{window.seconds / 60:g} min" if window.seconds < 3_600 else f"{window.seconds / 3_600:g} h"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
