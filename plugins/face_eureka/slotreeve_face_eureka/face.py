"""Eureka's REST interface under ``/eureka``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import unquote

from slotreeve.errors import SlotreeveError, Unauthenticated
from slotreeve.ports import Context
from slotreeve_gateway import Caller, Gateway
from slotreeve_gateway.http import answering, routes, status_of, token_of
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from slotreeve_face_eureka.options import EurekaOptions
from slotreeve_face_eureka.reads import ApplicationPages
from slotreeve_face_eureka.writes import InstancePages

PATH = "/eureka"


class EurekaFace:
    """Implements :class:`slotreeve.ports.Face`."""

    def __init__(self, options: EurekaOptions, context: Context) -> None:
        self._gateway = gateway = Gateway.of(context)
        self._writes, self._reads = InstancePages(gateway, options.group), ApplicationPages(gateway, options.group)
        self._answered = self._refused = 0

    async def start(self) -> None:
        """See Face."""
        one, writes, reads = "/apps/{application}/{instance_id}", self._writes, self._reads
        pages: list[tuple[str, str, Callable[[Request, Caller], Awaitable[Response]]]] = [
            ("GET", "/apps", reads.all),
            ("GET", "/apps/", reads.all),
            ("GET", "/apps/delta", reads.delta),
            ("GET", "/apps/{application}", reads.application),
            ("POST", "/apps/{application}", writes.register),
            ("PUT", one + "/status", writes.override),
            ("DELETE", one + "/status", writes.override),
            ("GET", one, reads.instance),
            ("PUT", one, writes.renew),
            ("DELETE", one, writes.cancel),
            ("PUT", one + "/metadata", writes.change_metadata),
            ("GET", "/instances/{instance_id}", reads.anywhere),
            ("GET", "/vips/{vip}", reads.vip),
            ("GET", "/svips/{vip}", reads.secure_vip),
        ]
        bases = (PATH, PATH + "/v2")
        under_both = [(method, base + path, self._page(page)) for base in bases for method, path, page in pages]
        self._router = Router(routes(under_both), redirect_slashes=False)
        self._gateway.pages.add([PATH], self._route)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Find the page by the path as it was sent: an id may have an encoded slash in it."""
        await self._router({**scope, "path": scope["raw_path"].decode("latin-1")}, receive, send)

    async def stop(self) -> None:
        """See Face."""

    def counters(self) -> Mapping[str, int]:
        """See Face."""
        return {"eureka_answers": self._answered, "eureka_refused": self._refused}

    def _page(self, page: Callable[[Request, Caller], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            request.path_params.update({name: unquote(text) for name, text in request.path_params.items()})
            answered = await page(request, self._gateway.access.caller(token_of(request)))
            self._answered += 1
            return answered

        return answering(answer, self._refusal)

    def _refusal(self, error: SlotreeveError) -> Response:
        self._refused += 1
        headers = {"WWW-Authenticate": 'Basic realm="eureka"'} if isinstance(error, Unauthenticated) else {}
        return Response(str(error).encode(errors="replace"), status_of(error), headers, "text/plain")
