"""Eureka's REST interface under ``/eureka``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from itertools import islice
from typing import TypeVar
from zlib import crc32

import msgspec
from slotreeve.errors import ModelError, SlotreeveError, Unauthenticated
from slotreeve.model.data_info import DataInfo
from slotreeve.ports import Context
from slotreeve_gateway import Caller, Gateway, Right, ServiceView
from slotreeve_gateway.http import answering, body_of, status_of, token_of
from slotreeve_protocol.overrides import Override
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from slotreeve_face_eureka.applications import STATUSES, data_info_id, hashcode, registration, shown
from slotreeve_face_eureka.bodies import instance_of, xml
from slotreeve_face_eureka.options import EurekaOptions

PATH = "/eureka"
MOST_BODY_BYTES = 256 * 1024
AT_ONCE = 200
"""Services that are asked for together, where all are needed."""
JSON, XML = "application/json", "application/xml"
Shown = dict[str, object]
T = TypeVar("T")


class EurekaFace:
    """Implements :class:`slotreeve.ports.Face`."""

    def __init__(self, options: EurekaOptions, context: Context) -> None:
        self._gateway = Gateway.of(context)
        self._group = options.group
        self._answered = self._refused = 0

    async def start(self) -> None:
        """See Face."""
        one = "/apps/{application}/{instance_id}"
        pages: list[tuple[str, str, Callable[[Request, Caller], Awaitable[Response]]]] = [
            ("GET", "/apps", self._all),
            ("GET", "/apps/", self._all),
            ("GET", "/apps/delta", self._all),
            ("GET", "/apps/{application}", self._application),
            ("POST", "/apps/{application}", self._register),
            ("PUT", one + "/status", self._override),
            ("DELETE", one + "/status", self._override),
            ("GET", one, self._instance),
            ("PUT", one, self._renew),
            ("DELETE", one, self._cancel),
            ("GET", "/vips/{vip}", self._vip),
        ]
        routes = [
            Route(base + path, self._page(page), methods=[method])
            for base in (PATH, PATH + "/v2")
            for method, path, page in pages
        ]
        self._gateway.pages.add([PATH], Router(routes, redirect_slashes=False))

    async def stop(self) -> None:
        """See Face."""

    def counters(self) -> Mapping[str, int]:
        """See Face."""
        return {"eureka_answers": self._answered, "eureka_refused": self._refused}

    def _page(self, page: Callable[[Request, Caller], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            answered = await page(request, self._gateway.access.caller(token_of(request)))
            self._answered += 1
            return answered

        return answering(answer, self._refusal)

    def _refusal(self, error: SlotreeveError) -> Response:
        self._refused += 1
        headers = {"WWW-Authenticate": 'Basic realm="eureka"'} if isinstance(error, Unauthenticated) else {}
        return Response(str(error).encode(errors="replace"), status_of(error), headers, "text/plain")

    # --- writes ------------------------------------------------------------------------------------------------------

    async def _register(self, request: Request, caller: Caller) -> Response:
        application = request.path_params["application"]
        caller.require(Right.REGISTER, data_info_id(application, self._group))
        body = await body_of(request, MOST_BODY_BYTES)
        given = instance_of(body, "xml" in request.headers.get("content-type", ""))
        asked = registration(application, given, self._gateway.zone, self._group)
        await self._gateway.registry.register(asked.service, asked.instance, asked.ttl_seconds)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def _renew(self, request: Request, caller: Caller) -> Response:
        return await self._of_lease(request, caller, self._gateway.registry.renew)

    async def _cancel(self, request: Request, caller: Caller) -> Response:
        return await self._of_lease(request, caller, self._gateway.registry.deregister)

    async def _of_lease(
        self, request: Request, caller: Caller, call: Callable[[str, str], Awaitable[bool]]
    ) -> Response:
        service = data_info_id(request.path_params["application"], self._group)
        caller.require(Right.REGISTER, service)
        known = await call(service, request.path_params["instance_id"])
        return Response(status_code=HTTPStatus.OK if known else HTTPStatus.NOT_FOUND)

    async def _override(self, request: Request, caller: Caller) -> Response:
        service, instance_id = await self._service(request), request.path_params["instance_id"]
        caller.require(Right.OPERATE, service)
        view = await self._gateway.registry.view(service)
        if all(one["instanceId"] != instance_id for one in _instances(view)):
            return Response(status_code=HTTPStatus.NOT_FOUND)
        override = None
        if request.method == "PUT":
            value = request.query_params.get("value", "")
            if value not in STATUSES:
                raise ModelError(f"value is {value[:20]!r}; expected {', '.join(STATUSES)}")
            override = Override(enabled=value == "UP", note=f"{value} by a client of Eureka")
        await self._gateway.registry.override(service, instance_id, override)
        return Response(status_code=HTTPStatus.OK)

    # --- reads -------------------------------------------------------------------------------------------------------

    async def _all(self, request: Request, caller: Caller) -> Response:
        return _applications(request, await self._views(caller))

    async def _vip(self, request: Request, caller: Caller) -> Response:
        return _applications(request, await self._views(caller), request.path_params["vip"])

    async def _application(self, request: Request, caller: Caller) -> Response:
        view = await self._readable(request, caller)
        found = _instances(view)
        if not found:
            return Response(status_code=HTTPStatus.NOT_FOUND)
        return _answer(request, "application", {"name": found[0]["app"], "instance": found})

    async def _instance(self, request: Request, caller: Caller) -> Response:
        view = await self._readable(request, caller)
        for one in _instances(view):
            if one["instanceId"] == request.path_params["instance_id"]:
                return _answer(request, "instance", one)
        return Response(status_code=HTTPStatus.NOT_FOUND)

    async def _service(self, request: Request) -> str:
        """The service of an application: that in small letters, or one that others have registered in other letters."""
        service = data_info_id(request.path_params["application"], self._group)
        services = await self._gateway.registry.directory.services()
        if service in services:
            return service
        return next((name for name in services if name.lower() == service.lower()), service)

    async def _readable(self, request: Request, caller: Caller) -> ServiceView:
        service = await self._service(request)
        caller.require(Right.READ, service)
        return await self._gateway.registry.view(service)

    async def _views(self, caller: Caller) -> list[ServiceView]:
        """All services of the group that the caller may see."""
        suffix = DataInfo("x", group=self._group).id[1:]
        services = await self._gateway.registry.directory.services()
        names = [n for n in services if n.endswith(suffix) and caller.may(Right.READ, n)]
        views: list[ServiceView] = []
        for part in _parts(names, AT_ONCE):
            views += await asyncio.gather(*map(self._gateway.registry.view, part))
        return views


def _parts(items: Iterable[T], most: int) -> Iterable[list[T]]:
    left = iter(items)
    while part := list(islice(left, most)):
        yield part


def _instances(view: ServiceView) -> list[Shown]:
    name = DataInfo.parse(view.data_info_id).data_id

    def make() -> list[Shown]:
        pairs = [(one.instance, one.said) for one in view.providers]
        return [shown(name, instance, said) for instance, said in pairs if instance is not None and said is not None]

    return view.once("eureka", make)


def _applications(request: Request, views: Iterable[ServiceView], vip: str = "") -> Response:
    """All applications. The delta is the same: that every instance was added. Then a client that lacks one has it, and
    one that has one too many finds another hash code, and asks for all. Clients ignore a delta of a version and a hash
    code that they know, so the version is another one after every change."""
    form = JSON if "json" in request.headers.get("accept", "") else XML
    listed: list[bytes] = []
    statuses: list[str] = []
    version = 0
    for view in views:
        version = crc32(f"{view.data_info_id} {view.index}".encode(), version)
        found = [one for one in _instances(view) if not vip or one["vipAddress"] == vip]
        if not found:
            continue
        whole = {"name": found[0]["app"], "instance": found}
        statuses += [str(one["status"]) for one in found]
        if vip:
            listed.append(_encoded(form, "application", whole))
        else:
            listed.append(view.once(("eureka", form), partial(_encoded, form, "application", whole)))
    code = hashcode(statuses)
    if form == JSON:
        head = msgspec.json.encode({"versions__delta": str(version), "apps__hashcode": code})
        body = b'{"applications":' + head[:-1] + b',"application":[' + b",".join(listed) + b"]}}"
    else:
        head = xml("versions__delta", version).encode() + xml("apps__hashcode", code).encode()
        body = b"<applications>" + head + b"".join(listed) + b"</applications>"
    return Response(body, media_type=form)


def _encoded(form: str, name: str, value: Shown) -> bytes:
    return msgspec.json.encode(value) if form == JSON else xml(name, value).encode()


def _answer(request: Request, name: str, value: Shown) -> Response:
    if "json" in request.headers.get("accept", ""):
        return Response(msgspec.json.encode({name: value}), media_type=JSON)
    return Response(xml(name, value), media_type=XML)
