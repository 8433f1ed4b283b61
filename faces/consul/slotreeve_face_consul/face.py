"""Consul's HTTP interface, as an ASGI application. Tens of thousands of callers wait in it, so it makes no request
objects that would wait with them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from slotreeve.errors import Forbidden, ModelError, SlotreeveError, Unauthenticated
from slotreeve.ports import Context
from slotreeve_gateway import Caller, Gateway, Right, ServiceView
from slotreeve_gateway.http import body_of, status_of, token_of
from slotreeve_protocol.instance import Health
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from slotreeve_face_consul.agent import LeaseAgent, UnknownId
from slotreeve_face_consul.answers import agent_self, encoded
from slotreeve_face_consul.blocking import ClientGone, shown_index, unless_gone, wait_seconds
from slotreeve_face_consul.options import ConsulOptions
from slotreeve_face_consul.queries import Query, flag
from slotreeve_face_consul.reads import CatalogPages
from slotreeve_face_consul.registrations import registration, update

log = logging.getLogger("slotreeve.gateway")

PREFIXES = ("/v1/agent", "/v1/catalog", "/v1/health", "/v1/status")
CONSUL_VERSION = "1.20.0"
"""The version of Consul whose interface this follows: some clients ask for it."""
MOST_BODY_BYTES = 256 * 1024
JSON, TEXT = b"application/json", b"text/plain; charset=utf-8"
LEADER_PORT = 8300


@dataclass(frozen=True, slots=True)
class ConsulRequest:
    """A request whose caller is known.

    Attributes:
        name: what stands behind the page in the path: the name of a service, or an id.
    """

    caller: Caller
    query: Query
    name: str
    scope: Scope
    receive: Receive


@dataclass(frozen=True, slots=True)
class ConsulAnswer:
    """An answer. ``index`` 0: it is no answer to a blocking query."""

    body: bytes = b""
    index: int = 0
    status: int = 200
    kind: bytes = JSON


EMPTY = ConsulAnswer()


class NotAPage(SlotreeveError):
    """There is nothing at the path, or it takes another method (``status`` 404 or 405)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


Page = Callable[[ConsulRequest], Awaitable[ConsulAnswer]]


class ConsulFace:
    """Implements :class:`slotreeve.ports.Face`."""

    def __init__(self, options: ConsulOptions, context: Context) -> None:
        self._options = options
        self._gateway = gateway = Gateway.of(context)
        self._datacenter = options.datacenter or gateway.cluster
        self._agent = LeaseAgent(gateway.registry, gateway.clock, options)
        self._lists = CatalogPages(gateway, options, self._datacenter)
        self._answered = self._refused = self._failed = self._waiting = 0
        gets: dict[str, Page] = {
            "/v1/agent/self": self._self,
            "/v1/agent/services": self._agent_services,
            "/v1/agent/checks": self._agent_checks,
            "/v1/catalog/datacenters": self._datacenters,
            "/v1/catalog/nodes": self._nodes,
            "/v1/catalog/services": self._services,
            "/v1/catalog/service/": self._catalog,
            "/v1/health/service/": self._health,
            "/v1/health/checks/": self._checks,
            "/v1/status/leader": self._leader,
            "/v1/status/peers": self._peers,
        }
        puts: dict[str, Page] = {
            "/v1/agent/service/register": self._register,
            "/v1/agent/service/deregister/": self._deregister,
            "/v1/agent/service/maintenance/": self._maintenance,
            "/v1/agent/check/pass/": self._pass,
            "/v1/agent/check/warn/": self._warn,
            "/v1/agent/check/fail/": self._fail,
            "/v1/agent/check/update/": self._update,
        }
        self._by_method = {"GET": gets, "PUT": puts}

    async def start(self) -> None:
        """See Face."""
        self._gateway.pages.add(PREFIXES, self)

    async def stop(self) -> None:
        """See Face."""

    def counters(self) -> Mapping[str, int]:
        """See Face."""
        return {
            "consul_answers": self._answered,
            "consul_refused": self._refused,
            "consul_failed": self._failed,
            "consul_waiting": self._waiting,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            page, name = self._page(scope["method"], scope["path"])
            query = Query.parse(scope["query_string"], self._datacenter)
            caller = self._gateway.access.caller(_token(scope, query))
            answer = await page(ConsulRequest(caller, query, name, scope, receive))
            self._answered += 1
        except (ClientGone, ClientDisconnect):
            return
        except SlotreeveError as error:
            answer = refusal(error)
            self._refused += answer.status < 500
            self._failed += answer.status >= 500
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            self._failed += 1
            answer = ConsulAnswer(b"the gateway has failed; its log says why", 0, 500, TEXT)
        await send({"type": "http.response.start", "status": answer.status, "headers": _headers(answer)})
        await send({"type": "http.response.body", "body": answer.body})

    def _page(self, method: str, path: str) -> tuple[Page, str]:
        """The page for a request, and what stands behind it in the path."""
        wrong_method = False
        for of_method, pages in self._by_method.items():
            head = path if path in pages else next((h for h in pages if h.endswith("/") and path.startswith(h)), "")
            name = path[len(head) :]
            if head and bool(name) == head.endswith("/"):
                if of_method == method:
                    return pages[head], name
                wrong_method = True
        if wrong_method:
            raise NotAPage(405, f"method {method} not allowed")
        raise NotAPage(404, f"there is no {method} {path[:100]} here")

    # --- the agent ---------------------------------------------------------------------------------------------------

    async def _register(self, request: ConsulRequest) -> ConsulAnswer:
        body = await self._body(request)
        address = (request.scope.get("client") or ("127.0.0.1", 0))[0]
        asked = registration(body, address, self._gateway.zone, self._options)
        await self._agent.register(request.caller, asked)
        return EMPTY

    async def _deregister(self, request: ConsulRequest) -> ConsulAnswer:
        await self._agent.deregister(request.caller, request.name)
        return EMPTY

    async def _maintenance(self, request: ConsulRequest) -> ConsulAnswer:
        enable = request.query.values.get("enable")
        if not enable:
            raise ModelError("Missing value for enable")
        reason = request.query.values.get("reason", "")
        await self._agent.maintain(request.caller, request.name, flag("enable", enable), reason)
        return EMPTY

    async def _report(self, request: ConsulRequest, health: Health) -> ConsulAnswer:
        await self._agent.report(request.caller, request.name, health, request.query.values.get("note", ""))
        return EMPTY

    async def _pass(self, request: ConsulRequest) -> ConsulAnswer:
        return await self._report(request, Health.PASSING)

    async def _warn(self, request: ConsulRequest) -> ConsulAnswer:
        return await self._report(request, Health.WARNING)

    async def _fail(self, request: ConsulRequest) -> ConsulAnswer:
        return await self._report(request, Health.CRITICAL)

    async def _update(self, request: ConsulRequest) -> ConsulAnswer:
        health, output = update(await self._body(request))
        await self._agent.report(request.caller, request.name, health, output)
        return EMPTY

    async def _self(self, request: ConsulRequest) -> ConsulAnswer:
        gateway = self._gateway
        return ConsulAnswer(encoded(agent_self(gateway.name, gateway.host, self._datacenter, CONSUL_VERSION)))

    async def _agent_services(self, request: ConsulRequest) -> ConsulAnswer:
        return ConsulAnswer(await self._lists.agent_services(request.caller, self._agent.services()))

    async def _agent_checks(self, request: ConsulRequest) -> ConsulAnswer:
        return ConsulAnswer(await self._lists.agent_checks(request.caller, self._agent.services()))

    # --- services ----------------------------------------------------------------------------------------------------

    async def _health(self, request: ConsulRequest) -> ConsulAnswer:
        return await self._of_service(request, self._lists.health)

    async def _catalog(self, request: ConsulRequest) -> ConsulAnswer:
        return await self._of_service(request, self._lists.catalog)

    async def _checks(self, request: ConsulRequest) -> ConsulAnswer:
        return await self._of_service(request, self._lists.checks)

    async def _of_service(self, request: ConsulRequest, body: Callable[[ServiceView, Query], bytes]) -> ConsulAnswer:
        service = self._lists.data_info_id(request.name)
        request.caller.require(Right.READ, service)
        view = await self._gateway.registry.view(service)
        query = request.query
        if query.index:
            await self._wait(view.changed(query.index, wait_seconds(query, self._gateway.rng)), request)
        return ConsulAnswer(body(view, query), shown_index(view.index, query.index))

    async def _services(self, request: ConsulRequest) -> ConsulAnswer:
        return await self._of_all(request, self._lists.services)

    async def _nodes(self, request: ConsulRequest) -> ConsulAnswer:
        return await self._of_all(request, self._lists.nodes)

    async def _of_all(self, request: ConsulRequest, body: Callable[[Caller], Awaitable[bytes]]) -> ConsulAnswer:
        directory, query = self._gateway.registry.directory, request.query
        await directory.services()
        if query.index:
            await self._wait(directory.changed(query.index, wait_seconds(query, self._gateway.rng)), request)
        index = directory.index  # before the body, which may be newer
        return ConsulAnswer(await body(request.caller), shown_index(index, query.index))

    async def _wait(self, changed: Awaitable[bool], request: ConsulRequest) -> None:
        self._waiting += 1
        try:
            await unless_gone(changed, request.receive)
        finally:
            self._waiting -= 1

    # --- the cluster -------------------------------------------------------------------------------------------------

    async def _datacenters(self, request: ConsulRequest) -> ConsulAnswer:
        return ConsulAnswer(encoded([self._datacenter]))

    async def _leader(self, request: ConsulRequest) -> ConsulAnswer:
        try:
            await self._gateway.registry.directory.services()
        except SlotreeveError:
            return ConsulAnswer(b'""')  # what Consul says while there is no leader
        return ConsulAnswer(encoded(f"{self._gateway.host}:{LEADER_PORT}"))

    async def _peers(self, request: ConsulRequest) -> ConsulAnswer:
        return ConsulAnswer(encoded([f"{self._gateway.host}:{LEADER_PORT}"]))

    async def _body(self, request: ConsulRequest) -> bytes:
        return await body_of(Request(request.scope, request.receive), MOST_BODY_BYTES)


def refusal(error: SlotreeveError) -> ConsulAnswer:
    """The answer to an error: its text, with the status that clients of Consul expect."""
    if isinstance(error, NotAPage):
        status = error.status
    elif isinstance(error, UnknownId):
        status = 404
    elif isinstance(error, Unauthenticated | Forbidden):
        status = 403
    else:
        status = status_of(error)
    said: dict[type[SlotreeveError], str] = {Unauthenticated: "ACL not found: ", Forbidden: "Permission denied: "}
    text = said.get(type(error), "") + str(error)
    return ConsulAnswer(text.encode(errors="replace"), 0, min(status, 500), TEXT)


def _token(scope: Scope, query: Query) -> str | None:
    """The caller's token, where clients of Consul put it: a header of its own, Authorization, or the query."""
    for name, value in scope["headers"]:
        if name == b"x-consul-token" and value:
            return str(value, "latin-1")
    return token_of(Request(scope)) or query.token or None


def _headers(answer: ConsulAnswer) -> list[tuple[bytes, bytes]]:
    headers = [(b"content-type", answer.kind), (b"content-length", b"%d" % len(answer.body))]
    if answer.index:
        headers += [
            (b"x-consul-index", b"%d" % answer.index),
            (b"x-consul-knownleader", b"true"),
            (b"x-consul-lastcontact", b"0"),
        ]
    return headers
