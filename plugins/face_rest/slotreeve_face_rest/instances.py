"""Leases one by one: register, renew, end."""

from __future__ import annotations

from urllib.parse import quote

from slotreeve.errors import RequestError, UnknownInstance
from slotreeve.model.data_info import DataInfo
from slotreeve_gateway import Gateway, Right
from slotreeve_gateway.rest import Answer, Handler, RestCall, RestOperation, json_answer
from starlette.responses import Response

from slotreeve_face_rest.documents import InstanceBody, Registered, encode


class Instances:
    """Registers instances as leases."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def operations(self) -> list[RestOperation[Handler]]:
        """What callers may ask."""
        all_, one = "/v1/services/{service}/instances", "/v1/services/{service}/instances/{id}"
        unknown = Answer("There is no such lease: register it again.")
        return [
            RestOperation(
                "POST",
                all_,
                "addInstance",
                "Register an instance, or replace it. Its id is address:port unless the body says another one.",
                self._add,
                {201: Answer("It is registered; the header Location names it.", Registered)},
                Right.REGISTER,
                body=InstanceBody,
            ),
            RestOperation(
                "PUT",
                one,
                "putInstance",
                "Register an instance, or replace it.",
                self._put,
                {200: Answer("It is registered, whether it was before or not.", Registered)},
                Right.REGISTER,
                body=InstanceBody,
            ),
            RestOperation(
                "PUT",
                f"{one}/renewal",
                "renewInstance",
                "Begin the time to live of a lease anew.",
                self._renew,
                {204: Answer("It is renewed."), 404: unknown},
                Right.REGISTER,
            ),
            RestOperation(
                "DELETE",
                one,
                "deleteInstance",
                "End a lease now.",
                self._end,
                {204: Answer("It has ended."), 404: Answer("There is no such lease.")},
                Right.REGISTER,
            ),
        ]

    async def _add(self, call: RestCall) -> Response:
        body: InstanceBody = call.body
        registered = await self._register(call.service, body.id, body)
        place = f"/v1/services/{quote(call.service, safe='')}/instances/{quote(registered.id, safe='')}"
        return json_answer(encode(registered), 201, Location=place)

    async def _put(self, call: RestCall) -> Response:
        body: InstanceBody = call.body
        if body.id not in ("", call.id):
            raise RequestError(f"body: id is {body.id!r}, and the path says {call.id!r}; expected the same, or no id")
        return json_answer(encode(await self._register(call.service, call.id, body)))

    async def _register(self, service: str, instance_id: str, body: InstanceBody) -> Registered:
        instance = body.instance(instance_id, self._gateway.zone)
        await self._gateway.registry.register(service, instance, body.ttl_seconds)
        return Registered(DataInfo.parse(service).id, instance.id, body.ttl_seconds)

    async def _renew(self, call: RestCall) -> Response:
        if not await self._gateway.registry.renew(call.service, call.id):
            raise _unknown(call)
        return Response(status_code=204)

    async def _end(self, call: RestCall) -> Response:
        if not await self._gateway.registry.deregister(call.service, call.id):
            raise _unknown(call)
        return Response(status_code=204)


def _unknown(call: RestCall) -> UnknownInstance:
    return UnknownInstance(f"{call.service} has no lease {call.id!r}; register it (PUT without /renewal)")
