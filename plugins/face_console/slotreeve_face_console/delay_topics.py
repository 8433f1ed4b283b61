"""The pieces about delays: whether changes are pushed in time, who waits for one, and who has what of a service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slotreeve.clock import Clock
from slotreeve.model.nodes import Node
from slotreeve_client.condition import ClusterCondition
from slotreeve_client.delays import AllDelays, cluster_delays, delays_of, delays_report, lagging_sentence
from slotreeve_gateway import ClusterServers
from slotreeve_protocol.delay_messages import DelayPage

from slotreeve_face_console.readings import SharedReadings
from slotreeve_face_console.rendering import Rendering, counted, version_text

OFTEN_SECONDS = 1.0
"""The servers are asked so often at most for all who look at one service."""
AGAIN_SECONDS = 5.0
"""The servers are asked so often at most, however many look at the first page."""
MOST_NAMED = 5
HOLDER_COLUMNS = 6
SHORT, LONG = 300.0, 3_600.0


class DelayTopics:
    """Makes the pieces about delays.

    Args:
        servers: the way to the servers.
        clock: the source of time.
    """

    def __init__(self, servers: ClusterServers, clock: Clock, rendering: Rendering) -> None:
        self._servers, self._rendering = servers, rendering
        self._all: SharedReadings[AllDelays] = SharedReadings(clock)
        self._services: SharedReadings[AllDelays] = SharedReadings(clock)

    async def stop(self) -> None:
        """End the questions that are on their way."""
        await self._all.stop()
        await self._services.stop()

    async def objective(self, condition: ClusterCondition) -> Mapping[str, Mapping[str, str]]:
        """For the first page: how each session server keeps the objective, and who waits the longest."""
        view, make = condition.view, self._rendering
        nodes = [] if view is None else [*view.data, *view.sessions]
        pages = await self._pages(nodes)
        facts = {name: make.piece("fact", name, *_kept(page)) for name, page in sorted(pages.items()) if page.share}
        waiting = [(server, one) for server, page in pages.items() for one in page.lagging]
        waiting.sort(key=lambda pair: -pair[1].seconds)
        texts = {
            f"{server} {one.name} {one.service}": make.piece(
                "sentence", f"{server} {one.name} {one.service}", lagging_sentence(server, one), "soon"
            )
            for server, one in waiting[:MOST_NAMED]
        }
        return {"objective": facts, "waits": texts or make.sentences([], "Nobody waits for a change.")}

    async def _pages(self, nodes: Sequence[Node]) -> Mapping[str, DelayPage]:
        servers = self._servers

        async def ask() -> AllDelays:
            return await delays_of(servers.transport, servers.cluster, nodes)

        found = (await self._all.read("all", ask, AGAIN_SECONDS)).value
        return found.pages if found is not None else {}

    async def service(self, service: str) -> Mapping[str, str]:
        """For the page of a service: what the leader of its slot and each session server has of it, and how long its
        changes took."""
        make = self._rendering

        async def ask() -> AllDelays:
            return await cluster_delays(*self._servers.asked, service)

        reading = await self._services.read(service, ask, OFTEN_SECONDS)
        found = reading.value
        if found is None:
            why = reading.trouble or "they have not answered yet"
            return make.rows_none(f"The servers cannot be asked now: {why}.", HOLDER_COLUMNS)
        rows = {
            one.server: make.piece("holder", one, version_text(one.version), _ways(one.last_ms), _ways(one.worst_ms))
            for one in delays_report(found).service
        }
        return rows or make.rows_none("No server has a subscriber of it.", HOLDER_COLUMNS)


def _kept(page: DelayPage) -> tuple[str, str, str]:
    """How a session server keeps its objective: value, note and tone."""
    windows = {window.seconds: window for window in page.windows}
    short, long = windows.get(SHORT), windows.get(LONG)
    wanted = f"{100 * page.share:g} % within {page.delay_seconds * 1000:g} ms wanted"
    if short is None or long is None or not long.pushed:
        return "no change was pushed in the last hour", wanted, ""
    in_time = f"{100 * (1 - long.late / long.pushed):.4g} % in time"
    note = f"of {counted(long.pushed, 'push', 'pushes')} in the last hour; {wanted}"
    if page.is_burning:
        return in_time, f"{note}; the burn rate of five minutes is {short.burn_rate:.3g}", "bad"
    return in_time, note, "soon" if short.late else ""


def _ways(told: tuple[float, float] | None) -> str:
    return "–" if told is None else f"{told[0]:g} ms to this server, {told[1]:g} ms here"
