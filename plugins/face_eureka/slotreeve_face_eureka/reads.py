"""What clients discover: applications, what has changed lately, instances."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus

from slotreeve.model.data_info import DataInfo
from slotreeve_gateway import Caller, Gateway, Right, ServiceView
from starlette.requests import Request
from starlette.responses import Response

from slotreeve_face_eureka.answers import (
    answer_of,
    application_of,
    applications_of,
    form_of,
    instances_of,
    service_of,
    whole_of,
)
from slotreeve_face_eureka.applications import has_vip
from slotreeve_face_eureka.changes import RecentChanges, ServiceState


class ApplicationPages:
    """The requests of clients that discover."""

    def __init__(self, gateway: Gateway, group: str) -> None:
        self._gateway, self._group = gateway, group
        self._changes = RecentChanges()

    async def all(self, request: Request, caller: Caller) -> Response:
        """All applications."""
        views = await self._views(caller)
        self._take(views)
        return applications_of(form_of(request), views, (whole_of(form_of(request), view) for view in views))

    async def delta(self, request: Request, caller: Caller) -> Response:
        """The changes of the last minutes, with the hash code of all. Clients ignore a delta of a version and a hash
        code that they know, so the version is another one after every change."""
        views = await self._views(caller)
        self._take(views)
        form = form_of(request)
        changed = self._changes.of(name for name in self._changes.services if caller.may(Right.READ, name))
        return applications_of(form, views, (application_of(form, found) for _, found in changed))

    def _take(self, views: Iterable[ServiceView]) -> None:
        states = (ServiceState(view.data_info_id, view.index, instances_of(view)) for view in views)
        self._changes.take(self._gateway.clock.now(), states, self._gateway.registry.directory.listed)

    async def vip(self, request: Request, caller: Caller) -> Response:
        """The instances with a virtual address."""
        return await self._with_vip(request, caller, "vipAddress")

    async def secure_vip(self, request: Request, caller: Caller) -> Response:
        """The instances with a secure virtual address."""
        return await self._with_vip(request, caller, "secureVipAddress")

    async def _with_vip(self, request: Request, caller: Caller, field: str) -> Response:
        views, form, vip = await self._views(caller), form_of(request), request.path_params["vip"]
        chosen = [[one for one in instances_of(view) if has_vip(one, field, vip)] for view in views]
        return applications_of(form, views, (application_of(form, found) for found in chosen), chosen)

    async def anywhere(self, request: Request, caller: Caller) -> Response:
        """An instance by its id alone."""
        for view in await self._views(caller):
            for one in instances_of(view):
                if one["instanceId"] == request.path_params["instance_id"]:
                    return answer_of(request, "instance", one)
        return Response(status_code=HTTPStatus.NOT_FOUND)

    async def application(self, request: Request, caller: Caller) -> Response:
        """One application."""
        view = await self._readable(request, caller)
        found = instances_of(view)
        if not found:
            return Response(status_code=HTTPStatus.NOT_FOUND)
        return answer_of(request, "application", {"name": found[0]["app"], "instance": found})

    async def instance(self, request: Request, caller: Caller) -> Response:
        """One instance of an application."""
        view = await self._readable(request, caller)
        for one in instances_of(view):
            if one["instanceId"] == request.path_params["instance_id"]:
                return answer_of(request, "instance", one)
        return Response(status_code=HTTPStatus.NOT_FOUND)

    async def _readable(self, request: Request, caller: Caller) -> ServiceView:
        directory = self._gateway.registry.directory
        service = await service_of(request.path_params["application"], self._group, directory, caller)
        caller.require(Right.READ, service)
        return await self._gateway.registry.view(service)

    async def _views(self, caller: Caller) -> list[ServiceView]:
        """All services of the group that the caller may see."""
        suffix = DataInfo("x", group=self._group).id[1:]
        services = await self._gateway.registry.directory.services()
        names = [n for n in services if n.endswith(suffix) and caller.may(Right.READ, n)]
        return await self._gateway.registry.views_of(names)
