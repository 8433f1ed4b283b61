"""What is read: services, a service, one instance, a stream of changes."""

from __future__ import annotations

from msgspec import UNSET
from slotreeve.errors import RequestError, UnknownInstance
from slotreeve_gateway import Caller, Filter, Gateway, Right
from slotreeve_gateway.http import token_of
from slotreeve_gateway.rest import Answer, Handler, RestCall, RestOperation, json_answer
from starlette.requests import Request
from starlette.responses import Response

from slotreeve_face_rest import RestOptions, documents
from slotreeve_face_rest.lookups import instance_body, service_body
from slotreeve_face_rest.presence import counted_while_there
from slotreeve_face_rest.queries import InstancesQuery, ServicesQuery, WatchQuery
from slotreeve_face_rest.stream import EventStream

LONGEST_INDEX = 18
"""In digits."""
LAST_EVENT = "last-event-id"


class ServicePages:
    """Reads services. ``counters`` are those of the face."""

    def __init__(self, gateway: Gateway, options: RestOptions, counters: dict[str, int]) -> None:
        self._gateway, self._options, self._counters = gateway, options, counters

    def operations(self) -> list[RestOperation[Handler]]:
        """What callers may ask."""
        of_service = "/v1/services/{service}"
        state = Answer("The service as it is now.", documents.Service)
        return [
            RestOperation(
                "GET",
                "/v1/services",
                "listServices",
                "The services that have providers, and that the caller may read.",
                self._list,
                {200: Answer("The services.", documents.ServiceList)},
                query=ServicesQuery,
            ),
            RestOperation(
                "GET",
                f"{of_service}/instances",
                "listInstances",
                "The providers of a service. One that nobody registered is a service without providers.",
                self._instances,
                {200: state},
                Right.READ,
                InstancesQuery,
            ),
            RestOperation(
                "GET",
                f"{of_service}/instances/{{id}}",
                "getInstance",
                "One instance.",
                self._instance,
                {200: Answer("The instance.", documents.InstanceShown), 404: Answer("There is none.")},
                Right.READ,
            ),
            RestOperation(
                "GET",
                f"{of_service}/watch",
                "watchService",
                "A service as server-sent events, from its state now on. Each event has the whole state.",
                self._watch,
                {200: Answer("Events.", documents.StreamEvent, "text/event-stream")},
                Right.READ,
                WatchQuery,
                last_event=True,
            ),
        ]

    async def _list(self, call: RestCall) -> Response:
        query: ServicesQuery = call.query
        directory, caller = self._gateway.registry.directory, call.caller
        if query.index is not UNSET:
            waiting = directory.changed(query.index, self._wait(query.wait))
            await counted_while_there(call.request.receive, waiting, self._counters)
            caller = _caller_now(self._gateway, call.request)
        services = await directory.services()
        may, prefix = caller.may, query.prefix
        found = {name: n for name, n in services.items() if name.startswith(prefix) and may(Right.READ, name)}
        return json_answer(documents.encode(documents.ServiceList(directory.index, found)))

    async def _instances(self, call: RestCall) -> Response:
        query: InstancesQuery = call.query
        chosen = query.filter
        view = await self._gateway.registry.view(call.service)
        if query.index is not UNSET and view.index <= query.index:
            waiting = view.changed(query.index, self._wait(query.wait))
            await counted_while_there(call.request.receive, waiting, self._counters)
            _caller_now(self._gateway, call.request).require(Right.READ, call.service)
        return json_answer(service_body(view, chosen))

    async def _instance(self, call: RestCall) -> Response:
        view = await self._gateway.registry.view(call.service)
        body = instance_body(view, call.id)
        if body is None:
            raise UnknownInstance(f"{view.data_info_id} has no instance {call.id!r}")
        return json_answer(body)

    async def _watch(self, call: RestCall) -> Response:
        query: WatchQuery = call.query
        watched = _Watched(self._gateway, call.request, call.service, query.filter)
        after = _last_event(call.request)
        await self._gateway.registry.view(call.service)  # what is wrong is told before the stream begins
        return EventStream(watched, after, self._options.watch_seconds, self._gateway.clock, self._counters)

    def _wait(self, seconds: float) -> float:
        return min(seconds, self._options.longest_wait_seconds)


class _Watched:
    """A service for one stream. Implements :class:`slotreeve_face_rest.stream.Source`."""

    def __init__(self, gateway: Gateway, request: Request, service: str, chosen: Filter | None) -> None:
        self._gateway, self._request, self._service, self._chosen = gateway, request, service, chosen

    async def after(self, index: int, seconds: float) -> tuple[int, bytes] | None:
        """See Source."""
        view = await self._gateway.registry.view(self._service)
        found = await view.changed(index, seconds)
        _caller_now(self._gateway, self._request).require(Right.READ, self._service)
        if not found and index <= view.index:
            return None
        # A reader whose index is above ours has waited in vain: it has it from another cluster, or a former one.
        return view.index, service_body(view, self._chosen)


def _caller_now(gateway: Gateway, request: Request) -> Caller:
    """Who asks, after it has waited: its token may have been revoked meanwhile. Raises AccessError."""
    return gateway.access.caller(token_of(request))


def _last_event(request: Request) -> int:
    """The index of the last event that the reader has; -1: it has none. Raises RequestError."""
    given = request.headers.get(LAST_EVENT, "")
    if not given:
        return -1
    if not (given.isascii() and given.isdigit() and len(given) <= LONGEST_INDEX):
        raise RequestError(f"the header Last-Event-ID is {given[:40]!r}; expected the id of an event of this stream")
    return int(given)
