"""Who asks, what for, and the answer to every error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from slotreeve.model.rights import ANY
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from slotreeve_gateway.access import Caller, GatewayAccess
from slotreeve_gateway.http import answering, token_of
from slotreeve_gateway.rest.answers import json_answer, refused
from slotreeve_gateway.rest.bodies import Bodies
from slotreeve_gateway.rest.call import Handler, RestCall
from slotreeve_gateway.rest.openapi import RestDescription, described_itself, description
from slotreeve_gateway.rest.queries import query_of
from slotreeve_gateway.rest.routes import RestOperation, RestRoutes

Guard = Callable[[Request, RestOperation[Any], Caller], None]
"""Raises AccessError or RequestError where a request must not be answered, whatever rights its caller has."""


class RestPages:
    """The operations of a face as one ASGI application, with their description.

    Args:
        access: who may do what.
        operations: what callers may ask; the description is one more of them.
        about: what the description says beside them.
        counters: those of the face; answers below 400 are counted in ``NAME_answers``, others in ``NAME_refusals``.
        name: of the face.
        guard: looks at each request before its operation does; None: all may pass.
    """

    def __init__(
        self,
        access: GatewayAccess,
        operations: Iterable[RestOperation[Handler]],
        about: RestDescription,
        counters: dict[str, int],
        name: str,
        guard: Guard | None = None,
    ) -> None:
        self._access, self._guard, self._counters = access, guard, counters
        self._good, self._bad = f"{name}_answers", f"{name}_refusals"
        self._bodies = Bodies()
        chosen = [*operations, described_itself(about.path, self._describe)]
        self._routes = RestRoutes(chosen, about.path)
        self._description = msgspec.json.encode(description(chosen, about))
        self._answer = answering(self._answered, refused)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            answer = await self._answer(Request(scope, receive))
            self._counters[self._good if answer.status_code < 400 else self._bad] += 1
            await answer(scope, receive, send)
        except ClientDisconnect:
            return  # nobody is there to be answered

    async def _answered(self, request: Request) -> Response:
        scope = request.scope
        operation, names = self._routes.find(scope["method"], scope["raw_path"])
        caller = self._access.caller(token_of(request))
        if operation.right is not None:
            caller.require(operation.right, ANY if operation.for_all else names["service"])
        if self._guard is not None:
            self._guard(request, operation, caller)
        query = query_of(scope["query_string"], operation.query)
        body = await self._bodies.read(request, operation.body) if operation.body is not None else None
        return await operation.handler(RestCall(request, caller, names, query, body))

    async def _describe(self, call: RestCall) -> Response:
        return json_answer(self._description)
