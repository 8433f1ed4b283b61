"""What operators want of single instances."""

from __future__ import annotations

from slotreeve.errors import UnknownInstance
from slotreeve_gateway import Gateway, Right
from slotreeve_gateway.rest import Answer, Handler, RestCall, RestOperation, json_answer
from slotreeve_gateway.rest.override_body import OverrideBody
from starlette.responses import Response

from slotreeve_face_rest.documents import encode

PATH = "/v1/services/{service}/instances/{id}/override"


class Overriding:
    """Reads and changes overrides, through the meta leader."""

    def __init__(self, gateway: Gateway) -> None:
        self._registry = gateway.registry

    def operations(self) -> list[RestOperation[Handler]]:
        """What callers may ask."""
        return [
            RestOperation(
                "GET",
                PATH,
                "getOverride",
                "What an operator wants of an instance.",
                self._get,
                {200: Answer("The override.", OverrideBody), 404: Answer("There is none.")},
                Right.OPERATE,
            ),
            RestOperation(
                "PUT",
                PATH,
                "putOverride",
                "Override what a provider says of itself, until it is cleared. The instance need not be registered.",
                self._put,
                {204: Answer("It is in force.")},
                Right.OPERATE,
                body=OverrideBody,
            ),
            RestOperation(
                "DELETE",
                PATH,
                "deleteOverride",
                "Clear an override.",
                self._clear,
                {204: Answer("There is none any more, whether there was one or not.")},
                Right.OPERATE,
            ),
        ]

    async def _get(self, call: RestCall) -> Response:
        override = (await self._registry.overrides(call.service)).get(call.id)
        if override is None:
            raise UnknownInstance(f"{call.service} has no override of {call.id!r}")
        return json_answer(encode(OverrideBody.of(override)))

    async def _put(self, call: RestCall) -> Response:
        body: OverrideBody = call.body
        await self._registry.override(call.service, call.id, body.override())
        return Response(status_code=204)

    async def _clear(self, call: RestCall) -> Response:
        await self._registry.override(call.service, call.id, None)
        return Response(status_code=204)
