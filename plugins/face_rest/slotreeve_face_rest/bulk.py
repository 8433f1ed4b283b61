"""Many leases in one request."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from slotreeve.errors import ModelError
from slotreeve.model.data_info import DataInfo
from slotreeve_gateway import Gateway, LeaseAnswers, Registration, Right
from slotreeve_gateway.http import BadBody
from slotreeve_gateway.rest import Answer, Handler, RestCall, RestOperation, json_answer
from starlette.responses import Response

from slotreeve_face_rest.documents import (
    MOST_AT_ONCE,
    LeasesBody,
    LeasesDone,
    RegistrationBody,
    RegistrationsBody,
    encode,
)

AT_A_TIME = 500
DONE = Answer("What became of them: those that are not named are as they were asked to be.", LeasesDone)


class Bulk:
    """Registers, renews and ends many leases. A caller needs the right for each service."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway, self._registry = gateway, gateway.registry

    def operations(self) -> list[RestOperation[Handler]]:
        """What callers may ask."""
        return [
            RestOperation(
                "POST",
                "/v1/bulk/register",
                "registerMany",
                "Register instances, or replace them. Where one is not good, none is registered.",
                self._register,
                {200: DONE},
                body=RegistrationsBody,
            ),
            RestOperation(
                "POST",
                "/v1/bulk/renew",
                "renewMany",
                "Begin the time to live of leases anew.",
                self._renew,
                {200: DONE},
                body=LeasesBody,
            ),
            RestOperation(
                "POST",
                "/v1/bulk/deregister",
                "deregisterMany",
                "End leases now.",
                self._end,
                {200: DONE},
                body=LeasesBody,
            ),
        ]

    async def _register(self, call: RestCall) -> Response:
        body: RegistrationsBody = call.body
        leases: dict[str, list[str]] = {}
        for given in body.registrations:
            leases.setdefault(given.service, [])
        _require(call, leases)
        registrations: list[Registration] = []
        for number, given in enumerate(body.registrations):
            registrations.append(registration := _registration(number, given, self._gateway.zone))
            leases[given.service].append(registration[1].id)
            if number % AT_A_TIME == AT_A_TIME - 1:
                await asyncio.sleep(0)  # others are answered in between
        return _done(leases, await self._registry.register_many(registrations))

    async def _renew(self, call: RestCall) -> Response:
        leases = _leases(call)
        return _done(leases, await self._registry.renew_many(leases))

    async def _end(self, call: RestCall) -> Response:
        leases = _leases(call)
        return _done(leases, await self._registry.deregister_many(leases))


def _leases(call: RestCall) -> Mapping[str, list[str]]:
    body: LeasesBody = call.body
    count = sum(map(len, body.leases.values()))
    if count > MOST_AT_ONCE or len(body.leases) > MOST_AT_ONCE:
        raise BadBody(f"body: leases has {count} ids; expected {MOST_AT_ONCE} at most: send them in parts", 413)
    _require(call, body.leases)
    return body.leases


def _require(call: RestCall, services: Iterable[str]) -> None:
    for service in services:
        call.caller.require(Right.REGISTER, service)


def _registration(number: int, given: RegistrationBody, zone: str) -> Registration:
    try:
        return given.service, given.instance(given.id, zone), given.ttl_seconds
    except ModelError as error:
        raise ModelError(f"registrations[{number}]: {error}") from None


def _done(leases: Mapping[str, list[str]], answers: LeaseAnswers) -> Response:
    """The answer, with the services as the caller names them."""
    unknown, unanswered = _named(leases, answers.unknown), _named(leases, answers.unanswered)
    count = sum(map(len, leases.values())) - sum(map(len, (*unknown.values(), *unanswered.values())))
    return json_answer(encode(LeasesDone(count, unknown, unanswered, answers.reason)))


def _named(leases: Mapping[str, list[str]], found: Mapping[str, set[str]]) -> dict[str, list[str]]:
    if not found:
        return {}
    named = {}
    for service, ids in leases.items():
        of_service = found.get(DataInfo.parse(service).id)
        if of_service and (those := [lease_id for lease_id in ids if lease_id in of_service]):
            named[service] = those
    return named
