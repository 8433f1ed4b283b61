"""Targets over HTTP: ``/prometheus/targets`` for all services, ``/prometheus/targets/SERVICE`` for one."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from slotreeve.ports import Context
from slotreeve_gateway import Gateway, Right, ServiceView
from slotreeve_gateway.http import answering, token_of
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from slotreeve_face_prometheus.targets import TargetGroup, target_groups

PATH = "/prometheus"


class PrometheusFace:
    """Implements :class:`slotreeve.ports.Face`."""

    def __init__(self, context: Context) -> None:
        self._gateway = Gateway.of(context)
        self._answered = 0

    async def start(self) -> None:
        """See Face."""
        routes = [
            Route(f"{PATH}/targets", answering(self._all)),
            Route(f"{PATH}/targets/{{service:path}}", answering(self._one)),
        ]
        self._gateway.pages.add([PATH], Router(routes))

    async def stop(self) -> None:
        """See Face."""

    def counters(self) -> Mapping[str, int]:
        """See Face."""
        return {"prometheus_answers": self._answered}

    async def _all(self, request: Request) -> Response:
        caller = self._gateway.access.caller(token_of(request))
        names = await self._gateway.registry.directory.services()
        views = await self._gateway.registry.views_of(name for name in names if caller.may(Right.READ, name))
        return self._answer([group for view in views for group in _groups(view)])

    async def _one(self, request: Request) -> Response:
        service = request.path_params["service"]
        self._gateway.access.caller(token_of(request)).require(Right.READ, service)
        return self._answer(_groups(await self._gateway.registry.view(service)))

    def _answer(self, groups: list[TargetGroup]) -> Response:
        self._answered += 1
        return Response(msgspec.json.encode(groups), media_type="application/json")


def _groups(view: ServiceView) -> list[TargetGroup]:
    return view.once("prometheus", lambda: target_groups(view.data_info_id, view.instances))
