"""Consul's HTTP interface, as an ASGI application. Tens of thousands of callers wait in it, so it makes no request
objects that would wait with them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

from slotreeve.errors import Forbidden, SlotreeveError, Unauthenticated
from slotreeve.ports import Context
from slotreeve_gateway import Caller, Gateway, Right, ServiceView, while_there
from slotreeve_gateway.http import status_of, token_of
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from slotreeve_face_consul.agent import UnknownId
from slotreeve_face_consul.agent_pages import AgentPages
from slotreeve_face_consul.answers import encoded
from slotreeve_face_consul.blocking import wait_seconds
from slotreeve_face_consul.messages import TEXT, ConsulAnswer, ConsulRequest, Page
from slotreeve_face_consul.options import ConsulOptions
from slotreeve_face_consul.queries import ConsulQuery
from slotreeve_face_consul.reads import CatalogPages

log = logging.getLogger("slotreeve.gateway")

PREFIXES = ("/v1/agent", "/v1/catalog", "/v1/health", "/v1/status")
LEADER_PORT = 8300


class NotAPage(SlotreeveError):
    """There is nothing at the path, or it takes other methods (``status`` 404 or 405), which ``allowed`` names."""

    def __init__(self, status: int, message: str, allowed: str = "") -> None:
        super().__init__(message)
        self.status, self.allowed = status, allowed


class ConsulFace:
    """Implements :class:`slotreeve.ports.Face`."""

    def __init__(self, options: ConsulOptions, context: Context) -> None:
        self._options = options
        self._gateway = gateway = Gateway.of(context)
        self._datacenter = options.datacenter or gateway.cluster
        self._lists = CatalogPages(gateway, options, self._datacenter)
        self._agent = agent = AgentPages(gateway, options, self._lists, self._datacenter)
        self._answered = self._refused = self._failed = self._waiting = 0
        gets: dict[str, Page] = {
            **agent.gets,
            "/v1/catalog/datacenters": self._datacenters,
            "/v1/catalog/nodes": self._nodes,
            "/v1/catalog/services": self._services,
            "/v1/catalog/service/": self._catalog,
            "/v1/health/service/": self._health,
            "/v1/health/checks/": self._checks,
            "/v1/status/leader": self._leader,
            "/v1/status/peers": self._peers,
        }
        self._by_method = {"GET": gets, "PUT": agent.puts}

    async def start(self) -> None:
        """See Face."""
        self._gateway.pages.add(PREFIXES, self)

    async def stop(self) -> None:
        """See Face."""
        await self._agent.stop()

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
        token: str | None = None
        try:
            page, name = self._page(scope["method"], scope["path"])
            query = ConsulQuery.parse(scope["query_string"], self._datacenter)
            token = _token(scope, query)
            caller = self._gateway.access.caller(token)
            answer = await page(ConsulRequest(caller, query, name, scope, receive))
            self._answered += 1
        except ClientDisconnect:
            return
        except SlotreeveError as error:
            answer = refusal(error, has_token=token is not None)
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
        others: list[str] = []
        for of_method, pages in self._by_method.items():
            head = path if path in pages else next((h for h in pages if h.endswith("/") and path.startswith(h)), "")
            name = path[len(head) :]
            if head and bool(name) == head.endswith("/"):
                if of_method == method:
                    return pages[head], name
                others.append(of_method)
        if others:
            raise NotAPage(405, f"method {method} not allowed; expected {', '.join(others)}", ", ".join(others))
        raise NotAPage(404, f"there is no {method} {path[:100]} here")

    # --- services ----------------------------------------------------------------------------------------------------

    async def _health(self, request: ConsulRequest) -> ConsulAnswer:
        return await self._of_service(request, self._lists.health)

    async def _catalog(self, request: ConsulRequest) -> ConsulAnswer:
        return await self._of_service(request, self._lists.catalog)

    async def _checks(self, request: ConsulRequest) -> ConsulAnswer:
        return await self._of_service(request, self._lists.checks)

    async def _of_service(
        self, request: ConsulRequest, body: Callable[[ServiceView, ConsulQuery], bytes]
    ) -> ConsulAnswer:
        service = self._lists.data_info_id(request.name)
        request.caller.require(Right.READ, service)
        view = await self._lists.view(service)
        query = request.query
        if query.index:
            caller = await self._wait(view.changed(query.index, wait_seconds(query, self._gateway.rng)), request)
            caller.require(Right.READ, service)
        return ConsulAnswer(body(view, query), view.index)

    async def _services(self, request: ConsulRequest) -> ConsulAnswer:
        return await self._of_all(request, self._lists.services)

    async def _nodes(self, request: ConsulRequest) -> ConsulAnswer:
        return await self._of_all(request, self._lists.nodes)

    async def _of_all(self, request: ConsulRequest, body: Callable[[Caller], Awaitable[bytes]]) -> ConsulAnswer:
        directory, query, caller = self._gateway.registry.directory, request.query, request.caller
        await directory.services()
        if query.index:
            changed = directory.changed(query.index, wait_seconds(query, self._gateway.rng))
            caller = await self._wait(changed, request)
        index = directory.index  # before the body, which may be newer
        return ConsulAnswer(await body(caller), index)

    async def _wait(self, changed: Awaitable[bool], request: ConsulRequest) -> Caller:
        """Wait for a change. Returns who asks now: its token may have been revoked meanwhile. Raises AccessError."""
        self._waiting += 1
        try:
            await while_there(request.receive, changed)
        finally:
            self._waiting -= 1
        return self._gateway.access.caller(_token(request.scope, request.query))

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


def refusal(error: SlotreeveError, *, has_token: bool) -> ConsulAnswer:
    """The answer to an error: its text, with the status and the words that clients of Consul expect. They take "ACL not
    found" as said of their token, so one who has none is told otherwise."""
    if isinstance(error, NotAPage):
        status = error.status
    elif isinstance(error, UnknownId):
        status = 404
    elif isinstance(error, Unauthenticated | Forbidden):
        status = 403
    else:
        status = status_of(error)
    said = ""
    if isinstance(error, Unauthenticated | Forbidden):
        said = "ACL not found: " if isinstance(error, Unauthenticated) and has_token else "Permission denied: "
    text = said + str(error)
    allowed = error.allowed if isinstance(error, NotAPage) else ""
    return ConsulAnswer(text.encode(errors="replace"), 0, min(status, 500), TEXT, allowed)


def _token(scope: Scope, query: ConsulQuery) -> str | None:
    """The caller's token, where clients of Consul put it: a header of its own, Authorization, or the query."""
    for name, value in scope["headers"]:
        if name == b"x-consul-token" and value:
            return str(value, "latin-1")
    return token_of(Request(scope)) or query.token or None


def _headers(answer: ConsulAnswer) -> list[tuple[bytes, bytes]]:
    headers = [(b"content-type", answer.kind), (b"content-length", b"%d" % len(answer.body))]
    if answer.allowed:
        headers.append((b"allow", answer.allowed.encode()))
    if answer.index:
        headers += [
            (b"x-consul-index", b"%d" % answer.index),
            (b"x-consul-knownleader", b"true"),
            (b"x-consul-lastcontact", b"0"),
        ]
    return headers
