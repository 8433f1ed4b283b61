"""The pages: each shows a topic as it is now, and follows it from there on."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from urllib.parse import urlencode

import msgspec
from slotreeve.errors import Backpressure, NotThere, RequestError, SlotreeveError
from slotreeve.model.data_info import short_name
from slotreeve_events.schema import HISTORY_KINDS
from slotreeve_gateway import Caller, Gateway, Right
from slotreeve_gateway.origin import ORIGIN
from starlette.requests import Request
from starlette.responses import Response

from slotreeve_face_console import ConsoleOptions
from slotreeve_face_console.answers import fresh, html, tag_of, tagged
from slotreeve_face_console.cluster_topics import ClusterTopics
from slotreeve_face_console.forms import queries_of, query_of
from slotreeve_face_console.history_filter import LONGEST_SOUGHT, SPANS, HistoryFilter, filter_of, moment_of
from slotreeve_face_console.login import Login
from slotreeve_face_console.past_pieces import PastPieces
from slotreeve_face_console.rendering import Rendering
from slotreeve_face_console.routing import PageHandler
from slotreeve_face_console.service_topics import ServiceTopics, known_service
from slotreeve_face_console.sessions import PATH
from slotreeve_face_console.slot_states import wanted_followers
from slotreeve_face_console.stream import TopicStream
from slotreeve_face_console.topics import Regions, Topic, TopicBoard
from slotreeve_face_console.watch import ConsoleWatch

LONGEST_NUMBER = 9
"""In digits."""
TITLES = {
    "first": "Now",
    "slots": "Slots",
    "servers": "Servers",
    "election": "Election",
    "configuration": "Configuration",
}
"""The pages about the cluster."""


class ConsolePages:
    """What answers under ``/ui`` but for logging in.

    Args:
        gateway: whose pages they are.
        options: of the face.
        rendering: makes HTML.
        login: knows who asks.
        born: a text of this gateway process, see TopicStream.
    """

    def __init__(
        self, gateway: Gateway, options: ConsoleOptions, rendering: Rendering, login: Login, born: str
    ) -> None:
        self._gateway, self._options, self._rendering = gateway, options, rendering
        self._login, self._born = login, born
        self._watch = ConsoleWatch(gateway.servers, gateway.clock, options.seconds)
        self._past = PastPieces(gateway, rendering)
        self._cluster = ClusterTopics(gateway, self._watch, self._past, rendering, options.seconds)
        self._services = ServiceTopics(gateway, self._cluster, self._past, rendering)
        self._board = TopicBoard(gateway.clock, options.seconds)
        self._map: tuple[Mapping[str, str], bytes, str] | None = None

    def handlers(self) -> Mapping[str, Mapping[str, PageHandler]]:
        """What answers, by path and method; the pages of single services are not among them."""
        return {
            f"{PATH}/": {"GET": self._first},
            f"{PATH}/slots": {"GET": self._slots},
            f"{PATH}/slots.json": {"GET": self._slot_map},
            f"{PATH}/slots/moves.json": {"GET": self._slot_moves},
            f"{PATH}/slots/past.json": {"GET": self._slot_past},
            f"{PATH}/history": {"GET": self._history},
            f"{PATH}/servers": {"GET": self._servers},
            f"{PATH}/election": {"GET": self._election},
            f"{PATH}/configuration": {"GET": self._configuration},
            f"{PATH}/services": {"GET": self._service_list},
            f"{PATH}/events": {"GET": self._events},
        }

    def counters(self) -> Mapping[str, int]:
        """How often the cluster was asked, and of the past, and how many open pages follow changes now."""
        return {
            "console_readings": self._watch.readings,
            "console_past_questions": self._past.questions,
            "console_readers": self._board.readers,
        }

    async def stop(self) -> None:
        """End what goes on by itself."""
        await self._board.stop()
        await self._past.stop()
        await self._cluster.stop()
        await self._watch.stop()

    # --- pages about the cluster -----------------------------------------------------------------------------------

    async def _first(self, request: Request) -> Response:
        return await self._about_cluster(request, "first")

    async def _servers(self, request: Request) -> Response:
        return await self._about_cluster(request, "servers")

    async def _election(self, request: Request) -> Response:
        return await self._about_cluster(request, "election")

    async def _configuration(self, request: Request) -> Response:
        return await self._about_cluster(request, "configuration")

    async def _slots(self, request: Request) -> Response:
        return await self._about_cluster(request, "slots")

    async def _about_cluster(self, request: Request, name: str) -> Response:
        self._login.operator(request)
        topic = self._cluster_topic(name)
        return await self._show(request, topic, name, {"title": TITLES[name]}, {"page": name})

    def _cluster_topic(self, name: str) -> Topic:
        makers = {
            "first": self._cluster.first,
            "slots": self._cluster.slots,
            "servers": self._cluster.servers,
            "election": self._cluster.election,
            "configuration": self._cluster.configuration,
        }
        return self._board.topic(name, makers[name])

    async def _slot_map(self, request: Request) -> Response:
        self._login.operator(request)
        topic = self._cluster_topic("slots")
        await topic.refresh()
        cells, look = topic.regions["cells"], await self._cluster.look()
        if self._map is None or self._map[0] is not cells:
            names = list(topic.regions["names"].values())
            shown = {"followers": wanted_followers(look.condition), "names": names, "cells": list(cells.values())}
            body = msgspec.json.encode(shown)
            self._map = cells, body, tag_of(body)
        return tagged(request, self._map[1], self._map[2], "application/json", "private, no-cache")

    async def _slot_moves(self, request: Request) -> Response:
        self._login.operator(request)
        slot = _number(query_of(request).get("slot", ""), "slot")
        return fresh(msgspec.json.encode(await self._past.moves(slot)))

    async def _slot_past(self, request: Request) -> Response:
        self._login.operator(request)
        return fresh(msgspec.json.encode(await self._cluster.slot_past()))

    async def _history(self, request: Request) -> Response:
        self._login.operator(request)
        chosen = filter_of(queries_of(request))
        values = {"title": "History", "chosen": chosen, "kinds": HISTORY_KINDS, "spans": SPANS}
        query = chosen.query(chosen.before_ms)
        return await self._show(request, self._history_topic(chosen), "history", values, {"page": "history"}, query)

    def _history_topic(self, chosen: HistoryFilter) -> Topic:
        async def make() -> Regions:
            return {"bar": await self._cluster.bar(), **await self._past.events(chosen)}

        return self._board.topic(f"history {chosen.query(chosen.before_ms)}", make)

    # --- pages about services --------------------------------------------------------------------------------------

    async def _service_list(self, request: Request) -> Response:
        query = query_of(request)
        sought, number = query.get("q", "")[:LONGEST_SOUGHT], _number(query.get("number", "1"))
        caller = self._login.caller(request)
        topic = self._list_topic(request, caller, sought, number)
        values = {"title": "Services", "sought": sought}
        return await self._show(
            request, topic, "services", values, {"page": "services", "q": sought, "number": str(number)}
        )

    def _list_topic(self, request: Request, caller: Caller, sought: str, number: int) -> Topic:
        async def make() -> Regions:
            return await self._services.listed(caller, sought, number)

        return self._board.topic(f"services {self._key(request, caller)} {number} {sought}", make)

    async def service(self, request: Request, service: str) -> Response:
        """The page of one service, now or, for operators, at another time."""
        query, caller = query_of(request), self._login.caller(request)
        number, name = _number(query.get("number", "1")), known_service(service)
        _require_read(caller, name)
        is_operator, typed = caller.may(Right.OPERATE, "*"), query.get("at", "").strip()
        values = {"title": short_name(name), "service": name, "with_subscribers": is_operator, "at": typed}
        followed = {"page": "service", "name": name, "number": str(number)}
        if not typed:
            return await self._show(request, self._service_topic(caller, name, number), "service", values, followed)
        self._login.operator(request)
        at = moment_of(typed, self._gateway.clock.wall_ms())
        return await self._show(request, self._topic_at(name, number, at), "service", values, {**followed, "at": at})

    def _topic_at(self, name: str, number: int, at: str) -> Topic:
        async def make() -> Regions:
            return await self._services.one_at(name, number, at)

        return self._board.topic(f"service at {at} {number} {name}", make)

    def _service_topic(self, caller: Caller, name: str, number: int) -> Topic:
        is_operator = caller.may(Right.OPERATE, "*")

        async def make() -> Regions:
            return await self._services.one(name, number, is_operator)

        return self._board.topic(f"service {is_operator} {number} {name}", make)

    def _key(self, request: Request, caller: Caller) -> str:
        """Callers with the same key see the same: operators everything, each other one what its token or its
        certificate allows."""
        if caller.may(Right.OPERATE, "*"):
            return "operator"
        shown = (self._login.token(request) or "", *ORIGIN.get().certificate.ids)
        return sha256("\0".join(shown).encode(errors="replace")).hexdigest()

    # --- what all have in common -----------------------------------------------------------------------------------

    async def _show(
        self,
        request: Request,
        topic: Topic,
        template: str,
        values: Mapping[str, object],
        followed: Mapping[str, str],
        query: str = "",
    ) -> Response:
        """Show a page. ``followed``, ``query``: what its stream of changes is asked for with; the latter is encoded."""
        try:
            await topic.refresh()
        except SlotreeveError:
            if not topic.regions:
                raise
        regions = dict(topic.regions)
        if "bar" in regions and (age := self._cluster.age_seconds) is not None:
            regions["bar"] = await self._cluster.bar(age)
        asked = urlencode({**followed, "after": f"{self._born}-{topic.number}"}) + (query and f"&{query}")
        common = {
            "regions": regions,
            "current": "services" if template == "service" else template,
            "events": f"{PATH}/events?{asked}",
            "now_ms": self._gateway.clock.wall_ms(),
            "who": self._login.who(request),
            "retries": False,
        }
        return html(self._rendering.page(f"{template}.html", {**common, **values}))

    async def _events(self, request: Request) -> Response:
        query = query_of(request)
        name, number = query.get("page", ""), _number(query.get("number", "1"))
        caller = self._login.caller(request)
        check = self._login.caller
        if name in TITLES:
            check = self._login.operator
            topic = self._cluster_topic(name)
        elif name == "services":
            topic = self._list_topic(request, caller, query.get("q", "")[:LONGEST_SOUGHT], number)
        elif name == "service":
            service = known_service(query.get("name", ""))
            _require_read(caller, service)
            topic = self._service_topic(caller, service, number)
            if at := query.get("at", ""):
                check = self._login.operator
                topic = self._topic_at(service, number, moment_of(at, self._gateway.clock.wall_ms()))
        elif name == "history":
            check = self._login.operator
            topic = self._history_topic(filter_of(queries_of(request)))
        else:
            raise NotThere(
                f"there are no events of a page {name[:40]!r}; expected {', '.join(TITLES)}, history, services, service"
            )
        check(request)
        if self._board.readers >= self._options.most_readers:
            raise Backpressure(f"{self._options.most_readers} pages are open already (face.console.most_readers)")
        after = self._after(request.headers.get("last-event-id") or query.get("after", ""))
        clock, seconds = self._gateway.clock, self._options.stream_seconds
        return TopicStream(self._board, topic, after, self._born, clock, seconds, lambda: check(request))

    def _after(self, event_id: str) -> int:
        """The number in the id of an event of this process; -1: it is of another one."""
        born, _, number = event_id.rpartition("-")
        is_ours = born == self._born and number.isascii() and number.isdigit() and len(number) <= 18
        return int(number) if is_ours else -1


def _require_read(caller: Caller, service: str) -> None:
    """Raises Forbidden, Unauthenticated."""
    if not caller.may(Right.OPERATE, "*"):
        caller.require(Right.READ, service)


def _number(text: str, name: str = "number") -> int:
    """Which page of a list, or which slot. Raises RequestError."""
    if not (text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER):
        what = "the number of a page, from 1 on" if name == "number" else "the number of a slot"
        raise RequestError(f"{name} is {text[:20]!r}; expected {what}")
    return int(text)
