"""What operators read of the past: the history that servers keep."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Raw, Struct
from msgspec.structs import asdict
from slotreeve.clock import Clock
from slotreeve.errors import RequestError
from slotreeve_client import Provider
from slotreeve_client.history import Past, Span, past_changes, past_events, service_at
from slotreeve_events.schema import HISTORY_KINDS, USUAL_KINDS
from slotreeve_events.stories import change_sentence, decoded_event, sentence
from slotreeve_gateway import ClusterServers, Right
from slotreeve_gateway.rest import Answer, Handler, RestCall, RestOperation, json_answer
from starlette.responses import Response

from slotreeve_face_admin.acts import PREFIX
from slotreeve_face_admin.documents import encode

HOUR_MS = 3_600_000
Moment = Annotated[int, Meta(ge=0, le=2**53, description="In milliseconds since 1970.")]
Begins = Annotated[int, Meta(description="The history of a server that answered begins here; 0: none has one.")]
More = Annotated[bool, Meta(description="There are earlier ones: ask again with until_ms as the last at_ms here.")]
Untold = Annotated[dict[str, str], Meta(description="Servers that did not tell, with the reason.")]
Most = Annotated[int, Meta(ge=1, le=1000, description="So many at most, the newest.")]


class PastQuery(Struct, forbid_unknown_fields=True, frozen=True):
    """A time. Without ``since_ms`` the last hour."""

    since_ms: Moment = 0
    until_ms: Annotated[Moment, Meta(description="Before then; 0: now.")] = 0
    limit: Most = 100


class EventsQuery(PastQuery, forbid_unknown_fields=True, frozen=True):
    """A time, and kinds of events. Without ``kind`` those that are few."""

    kind: Annotated[tuple[str, ...], Meta(description="Only this kind; may be given several times.")] = ()


class AtQuery(Struct, forbid_unknown_fields=True, frozen=True):
    """A moment."""

    at_ms: Annotated[Moment, Meta(description="When; 0: now.")] = 0


class EventTold(Struct):
    """Something that happened. ``event``: all its fields (docs/history.md)."""

    at_ms: int
    server: str
    kind: str
    text: Annotated[str, Meta(description="In a sentence.")]
    event: Annotated[Raw, Meta(extra_json_schema={"type": "object"})]


class EventList(Struct):
    """Events, the newest first."""

    events: list[EventTold]
    begins_ms: Begins
    more: More
    silent: Untold


class ChangeTold(Struct):
    """A registration changed. ``told_by``: the server that wrote it down."""

    at_ms: int
    service: str
    register_id: str
    is_gone: bool
    reason: Annotated[str, Meta(description="Why it ended; empty: it did not.")]
    text: Annotated[str, Meta(description="In a sentence.")]
    told_by: str


class ChangeList(Struct):
    """Changes of a service, the newest first."""

    changes: list[ChangeTold]
    begins_ms: Begins
    more: More
    silent: Untold


class PastProvider(Struct):
    """A provider as it was."""

    register_id: str
    zone: str
    instance: Annotated[
        dict[str, Any] | None,
        Meta(description="The fields that it said, without overrides (docs/instances.md); null: it published bytes."),
    ]
    base64: Annotated[list[bytes] | None, Meta(description="What it published, where that is no instance.")]


class PastServiceShown(Struct):
    """A service as it was."""

    known: Annotated[str, Meta(description="exactly, before a change, as now, or nothing; see docs/history.md.")]
    since_ms: Annotated[int, Meta(description="When the change was that says so.")]
    told_by: str
    begins_ms: Begins
    providers: list[PastProvider]
    silent: Untold


class PastReads:
    """Asks the servers anew for each request. ``clock`` tells what now is."""

    def __init__(self, servers: ClusterServers, clock: Clock) -> None:
        self._servers, self._clock = servers, clock

    def operations(self) -> list[RestOperation[Handler]]:
        """What operators may ask."""
        return [
            _read("events", "listEvents", "What happened in the cluster.", self._events, EventList, EventsQuery),
            _read(
                "services/{service}/changes",
                "listChanges",
                "The registrations of a service that came, changed or ended, and why.",
                self._changes,
                ChangeList,
                PastQuery,
            ),
            _read(
                "services/{service}/past",
                "getPastService",
                "The providers of a service as they were.",
                self._past,
                PastServiceShown,
                AtQuery,
            ),
        ]

    async def _events(self, call: RestCall) -> Response:
        query: EventsQuery = call.query
        unknown = sorted(set(query.kind) - HISTORY_KINDS.keys())
        if unknown:
            raise RequestError(
                f"query: kind is {unknown[0][:40]!r}; expected one of {', '.join(sorted(HISTORY_KINDS))}"
            )
        kinds = query.kind or USUAL_KINDS
        past = await past_events(*self._servers.asked, self._span(query), kinds, query.limit)
        told = sorted((_event(told.event) for _, told in past.events), key=lambda each: each.at_ms, reverse=True)
        more = past.more or len(told) > query.limit
        return json_answer(encode(EventList(told[: query.limit], past.begins_ms, more, dict(past.silent))))

    async def _changes(self, call: RestCall) -> Response:
        query: PastQuery = call.query
        past = await past_changes(*self._servers.asked, call.service, self._span(query), query.limit)
        told = sorted(_changes_told(past), key=lambda each: each.at_ms, reverse=True)
        more = past.more or len(told) > query.limit
        return json_answer(encode(ChangeList(told[: query.limit], past.begins_ms, more, dict(past.silent))))

    async def _past(self, call: RestCall) -> Response:
        query: AtQuery = call.query
        past = await service_at(*self._servers.asked, call.service, query.at_ms or self._clock.wall_ms())
        providers = [Provider(r.register_id, r.zone, r.data or ()) for _, r in sorted(past.records.items())]
        shown = PastServiceShown(
            past.known.value,
            past.since_ms,
            past.server,
            past.begins_ms,
            list(map(_provider, providers)),
            dict(past.silent),
        )
        return json_answer(encode(shown))

    def _span(self, query: PastQuery) -> Span:
        now_ms = self._clock.wall_ms()
        until_ms = query.until_ms or now_ms + 1
        return Span(query.since_ms or until_ms - HOUR_MS, until_ms)


def _event(body: bytes) -> EventTold:
    event = decoded_event(body)
    return EventTold(event.at_ms, event.node, event.kind, sentence(event), Raw(body))


def _changes_told(past: Past) -> list[ChangeTold]:
    return [
        ChangeTold(
            change.at_ms,
            row.data_info_id,
            change.register_id,
            change.is_gone,
            change.reason,
            change_sentence(change),
            server,
        )
        for server, row in past.changes
        for change in row.changes
    ]


def _provider(provider: Provider) -> PastProvider:
    said = provider.said
    if said is None:
        return PastProvider(provider.register_id, provider.zone, None, list(provider.data))
    return PastProvider(provider.register_id, provider.zone, asdict(said), None)


def _read(
    path: str, name: str, summary: str, handler: Handler, body: type[Struct], query: type[Struct]
) -> RestOperation[Handler]:
    place = f"{PREFIX}/{path}"
    answers = {200: Answer(summary, body)}
    return RestOperation("GET", place, name, summary, handler, answers, Right.OPERATE, query, for_all=True)
