"""REST under ``/v1``: who asks, what for, and the answer to every error."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from slotreeve.ports import Context
from slotreeve_gateway import Gateway
from slotreeve_gateway.http import answering, token_of
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from slotreeve_face_rest import RestOptions
from slotreeve_face_rest.answers import json_answer, refused
from slotreeve_face_rest.bodies import Bodies
from slotreeve_face_rest.bulk import Bulk
from slotreeve_face_rest.call import Handler, RestCall
from slotreeve_face_rest.instances import Instances
from slotreeve_face_rest.openapi import PATH as DESCRIPTION_PATH
from slotreeve_face_rest.openapi import described_itself, description
from slotreeve_face_rest.overriding import Overriding
from slotreeve_face_rest.queries import query_of
from slotreeve_face_rest.routes import RestOperation, RestRoutes
from slotreeve_face_rest.services import ServicePages

COUNTERS = ("rest_answers", "rest_refusals", "rest_waiting", "rest_events", "rest_slow_readers")
PREFIXES = ("/v1/services", "/v1/bulk", DESCRIPTION_PATH)


class RestFace:
    """Implements :class:`slotreeve.ports.Face`."""

    def __init__(self, options: RestOptions, context: Context) -> None:
        self._gateway = gateway = Gateway.of(context)
        self._counters = dict.fromkeys(COUNTERS, 0)
        self._bodies = Bodies()
        operations: list[RestOperation[Handler]] = [
            *ServicePages(gateway, options, self._counters).operations(),
            *Instances(gateway).operations(),
            *Overriding(gateway).operations(),
            *Bulk(gateway).operations(),
            described_itself(self._describe),
        ]
        self._routes = RestRoutes(operations)
        self._description = msgspec.json.encode(description(operations))
        self._answer = answering(self._answered, refused)

    async def start(self) -> None:
        """See Face."""
        self._gateway.pages.add(PREFIXES, self)

    async def stop(self) -> None:
        """See Face."""

    def counters(self) -> Mapping[str, int]:
        """See Face."""
        return self._counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            answer = await self._answer(Request(scope, receive))
            self._counters["rest_answers" if answer.status_code < 400 else "rest_refusals"] += 1
            await answer(scope, receive, send)
        except ClientDisconnect:
            return  # nobody is there to be answered

    async def _answered(self, request: Request) -> Response:
        scope = request.scope
        operation, names = self._routes.find(scope["method"], scope["raw_path"])
        caller = self._gateway.access.caller(token_of(request))
        if operation.right is not None:
            caller.require(operation.right, names["service"])
        query = query_of(scope["query_string"], operation.query)
        body = await self._bodies.read(request, operation.body) if operation.body is not None else None
        return await operation.handler(RestCall(request, caller, names, query, body))

    async def _describe(self, call: RestCall) -> Response:
        return json_answer(self._description)
