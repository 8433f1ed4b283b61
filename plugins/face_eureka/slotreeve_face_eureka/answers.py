"""Applications as answers, encoded once for all who ask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from zlib import crc32

import msgspec
from slotreeve.model.data_info import DataInfo
from slotreeve_gateway import Caller, Right, ServiceDirectory, ServiceView
from starlette.requests import Request
from starlette.responses import Response

from slotreeve_face_eureka.applications import data_info_id, hashcode, shown
from slotreeve_face_eureka.bodies import xml
from slotreeve_face_eureka.changes import Shown

JSON, XML = "application/json", "application/xml"


async def service_of(
    application: str, group: str, directory: ServiceDirectory, caller: Caller, right: Right = Right.READ
) -> str:
    """The service of an application: that in small letters, or one that others have registered in other letters, if the
    caller has the right for it: a refusal must not tell how others write theirs."""
    service = data_info_id(application, group)
    services = await directory.services()
    if service in services:
        return service
    lower, may = service.lower(), caller.may
    return next((name for name in services if name.lower() == lower and may(right, name)), service)


def instances_of(view: ServiceView) -> list[Shown]:
    """The instances of a service, as they are shown; of several with one id the last one, as clients keep it."""
    name = DataInfo.parse(view.data_info_id).data_id

    def make() -> list[Shown]:
        pairs = [(one.instance, one.said) for one in view.providers]
        by_id = {one.id: shown(name, one, said) for one, said in pairs if one is not None and said is not None}
        return list(by_id.values())

    return view.once("eureka", make)


def applications_of(
    form: str, views: Iterable[ServiceView], listed: Iterable[bytes], counted: Iterable[list[Shown]] | None = None
) -> Response:
    """Applications that are encoded already, with version and hash code.

    Args:
        views: the services that the version stands for.
        counted: the instances that the hash code stands for, if they are not those of ``views``.
    """
    views, version = list(views), 0
    for view in views:
        version = crc32(f"{view.data_info_id} {view.index}".encode(), version)
    statuses: Counter[str] = Counter()
    for found in map(_statuses, views) if counted is None else map(_count, counted):
        statuses.update(found)
    code = hashcode(statuses)
    if form == JSON:
        head = msgspec.json.encode({"versions__delta": str(version), "apps__hashcode": code})
        body = b'{"applications":' + head[:-1] + b',"application":[' + b",".join(filter(None, listed)) + b"]}}"
    else:
        start = xml("versions__delta", version).encode() + xml("apps__hashcode", code).encode()
        body = b"<applications>" + start + b"".join(listed) + b"</applications>"
    return Response(body, media_type=form)


def _count(instances: list[Shown]) -> Counter[str]:
    return Counter(str(one["status"]) for one in instances)


def _statuses(view: ServiceView) -> Counter[str]:
    return view.once("eureka statuses", lambda: _count(instances_of(view)))


def application_of(form: str, instances: list[Shown]) -> bytes:
    """An application; nothing where it has no instances."""
    return _encoded(form, "application", {"name": instances[0]["app"], "instance": instances}) if instances else b""


def whole_of(form: str, view: ServiceView) -> bytes:
    """The application that a service is; nothing where it has no instances."""
    return view.once(("eureka", form), lambda: application_of(form, instances_of(view)))


def form_of(request: Request) -> str:
    """The form of body that a request asks for."""
    return JSON if "json" in request.headers.get("accept", "") else XML


def _encoded(form: str, name: str, value: Shown) -> bytes:
    return msgspec.json.encode(value) if form == JSON else xml(name, value).encode()


def answer_of(request: Request, name: str, value: Shown) -> Response:
    """One application or instance."""
    if form_of(request) == JSON:
        return Response(msgspec.json.encode({name: value}), media_type=JSON)
    return Response(xml(name, value), media_type=XML)
