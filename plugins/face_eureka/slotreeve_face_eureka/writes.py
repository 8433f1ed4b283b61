"""What a client says of its instance: register, renew, cancel, metadata, status."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus

from slotreeve.errors import ModelError, SlotreeveError
from slotreeve_gateway import Caller, Gateway, Right, ServiceView, Turns
from slotreeve_gateway.http import body_of
from slotreeve_protocol.instance import Instance
from slotreeve_protocol.overrides import Override
from starlette.requests import Request
from starlette.responses import Response

from slotreeve_face_eureka.answers import instances_of, service_of
from slotreeve_face_eureka.applications import (
    STATUSES,
    data_info_id,
    dirty_of,
    duration_of,
    last_dirty,
    registration,
    with_metadata,
)
from slotreeve_face_eureka.bodies import instance_of

log = logging.getLogger("slotreeve.face.eureka")

MOST_BODY_BYTES = 256 * 1024
BY_A_CLIENT = " by a client of Eureka"
"""The notes of overrides that come through this face end so."""
SEEN_SECONDS = 1.0
"""How long a write waits until this gateway itself sees it. Usually that takes a millisecond."""


class InstancePages:
    """The requests of clients that register. What is written depends on what is there, so one write at a time has its
    turn for each id of a service."""

    def __init__(self, gateway: Gateway, group: str) -> None:
        self._gateway, self._group = gateway, group
        self._turns = Turns()

    async def register(self, request: Request, caller: Caller) -> Response:
        """Register an instance, or replace it, unless what is there was said later."""
        application = request.path_params["application"]
        caller.require(Right.REGISTER, data_info_id(application, self._group))
        body = await body_of(request, MOST_BODY_BYTES)
        given = instance_of(body, "xml" in request.headers.get("content-type", ""))
        asked = registration(application, given, self._gateway.zone, self._group)
        async with self._turns.of((asked.service, asked.instance.id)):
            view = await self._gateway.registry.view(asked.service)
            before = said(view).get(asked.instance.id)
            # What was sent before what is there has come late; but what this gateway sees may have ended.
            is_late = before is not None and 0 < last_dirty(asked.instance) < last_dirty(before)
            if not (is_late and await self._gateway.registry.renew(asked.service, asked.instance.id)):
                await self._store(view, asked.instance, asked.ttl_seconds)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def _store(self, view: ServiceView, instance: Instance, ttl_seconds: float) -> None:
        """Register, and wait until this gateway sees it."""
        await self._gateway.registry.register(view.data_info_id, instance, ttl_seconds)
        await view.until(lambda: said(view).get(instance.id) == instance, SEEN_SECONDS)

    async def renew(self, request: Request, caller: Caller) -> Response:
        """Renew a lease. A client that has changed what it says of itself, and whose registration has not arrived,
        registers again on 404."""
        service, instance_id = self._lease(request, caller)
        known = await self._gateway.registry.renew(service, instance_id)
        dirty = dirty_of(request.query_params.get("lastDirtyTimestamp"))
        if known and dirty:
            view = await self._gateway.registry.view(service)
            await view.until(lambda: instance_id in said(view), SEEN_SECONDS)
            found = said(view).get(instance_id)
            known = found is None or not 0 < last_dirty(found) < dirty
        return Response(status_code=HTTPStatus.OK if known else HTTPStatus.NOT_FOUND)

    async def cancel(self, request: Request, caller: Caller) -> Response:
        """End a lease, and the status override that came with it."""
        service, instance_id = self._lease(request, caller)
        async with self._turns.of((service, instance_id)):
            view = self._gateway.registry.current_view(service)
            may_be_overridden = view is None or any(
                one.override is not None and one.said is not None and one.said.id == instance_id
                for one in view.providers
            )
            known = await self._gateway.registry.deregister(service, instance_id)
            if known and may_be_overridden:
                try:
                    await self._end_override(service, instance_id)
                except SlotreeveError as error:
                    log.warning("the override of %r in %r is kept: %s", instance_id, service, error)
        return Response(status_code=HTTPStatus.OK if known else HTTPStatus.NOT_FOUND)

    def _lease(self, request: Request, caller: Caller) -> tuple[str, str]:
        service = data_info_id(request.path_params["application"], self._group)
        caller.require(Right.REGISTER, service)
        return service, request.path_params["instance_id"]

    async def change_metadata(self, request: Request, caller: Caller) -> Response:
        """Set entries of the metadata from the query."""
        service, instance_id = self._lease(request, caller)
        async with self._turns.of((service, instance_id)):
            view = await self._gateway.registry.view(service)
            before = said(view).get(instance_id)
            if before is None:
                return Response(status_code=HTTPStatus.NOT_FOUND)
            duration = duration_of(before)
            if duration is None:
                raise ModelError(f"{instance_id} was not registered by this face; change its metadata where it was")
            changed = with_metadata(before, dict(request.query_params))
            if not await self._gateway.registry.renew(service, instance_id):
                return Response(status_code=HTTPStatus.NOT_FOUND)
            if changed != before:
                await self._store(view, changed, duration)
        return Response(status_code=HTTPStatus.OK)

    async def override(self, request: Request, caller: Caller) -> Response:
        """Override the status of an instance, or end that."""
        directory = self._gateway.registry.directory
        service = await service_of(request.path_params["application"], self._group, directory, caller, Right.OPERATE)
        instance_id = request.path_params["instance_id"]
        caller.require(Right.OPERATE, service)
        view = await self._gateway.registry.view(service)
        if all(one["instanceId"] != instance_id for one in instances_of(view)):
            is_ended = request.method == "DELETE" and await self._end_override(service, instance_id)
            return Response(status_code=HTTPStatus.OK if is_ended else HTTPStatus.NOT_FOUND)
        override = None
        if request.method == "PUT":
            value = request.query_params.get("value", "")
            if value not in STATUSES:
                raise ModelError(f"value is {value[:20]!r}; expected {', '.join(STATUSES)}")
            override = Override(enabled=value == "UP", note=f"{value}{BY_A_CLIENT}")
        await self._gateway.registry.override(service, instance_id, override)
        return Response(status_code=HTTPStatus.OK)

    async def _end_override(self, service: str, instance_id: str) -> bool:
        """End what a client of Eureka has overridden; an operator's override stays. Whether there was one."""
        found = (await self._gateway.registry.overrides(service)).get(instance_id)
        if found is None or not found.note.endswith(BY_A_CLIENT):
            return False
        await self._gateway.registry.override(service, instance_id, None)
        return True


def said(view: ServiceView) -> Mapping[str, Instance]:
    """What was registered in a service, by id."""
    return view.once("eureka said", lambda: {one.id: one for p in view.providers if (one := p.said) is not None})
