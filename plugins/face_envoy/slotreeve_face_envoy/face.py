"""``POST /v3/discovery:endpoints``: Envoy asks for the endpoints of its clusters, again and again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from zlib import crc32

import msgspec
from slotreeve.ports import Context
from slotreeve_gateway import Gateway, Right, ServiceView
from slotreeve_gateway.http import BadBody, answering, body_of, decoded, problem, token_of
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import request_response

from slotreeve_face_envoy.assignments import TYPE_URL, assignment

log = logging.getLogger("slotreeve.face.envoy")

PATH = "/v3/discovery:endpoints"
MOST_RESOURCES = 1_000
MOST_BODY_BYTES = 256 * 1024
MOST_SHOWN, LONGEST_SHOWN = 3, 100
"""So many services, and so many characters of each, a line of the log names."""


class _Status(msgspec.Struct):
    code: int = 0
    message: str = ""


class DiscoveryRequest(msgspec.Struct, rename=lambda name: name.replace("_", "")):
    """What Envoy sends (envoy.service.discovery.v3.DiscoveryRequest), as far as it matters here. Keys are read in
    either form that protobuf has in JSON, ``version_info`` and ``versionInfo``.

    Attributes:
        version_info: the version that Envoy has accepted.
        resource_names: names of its clusters, which are services here.
        type_url: what it wants.
        error_detail: why it did not accept the last answer.
    """

    version_info: str = ""
    resource_names: list[str] = []
    type_url: str = TYPE_URL
    error_detail: _Status | None = None


_decoder = msgspec.json.Decoder(dict[str, object])


class EnvoyFace:
    """Implements :class:`slotreeve.ports.Face`."""

    def __init__(self, context: Context) -> None:
        self._gateway = Gateway.of(context)
        self._answered = self._refused = 0

    async def start(self) -> None:
        """See Face."""
        self._gateway.pages.add([PATH], request_response(answering(self._endpoints)))

    async def stop(self) -> None:
        """See Face."""

    def counters(self) -> Mapping[str, int]:
        """See Face."""
        return {"envoy_answers": self._answered, "envoy_rejections": self._refused}

    async def _endpoints(self, request: Request) -> Response:
        if request.url.path != PATH or request.method != "POST":
            if request.url.path == PATH:
                return problem(405, f"expected POST {PATH}", allowed=["POST"])
            return problem(404, f"expected POST {PATH}")
        caller = self._gateway.access.caller(token_of(request))
        asked = _request(await body_of(request, MOST_BODY_BYTES))
        if asked.type_url not in ("", TYPE_URL):
            raise BadBody(f"typeUrl is {asked.type_url[:100]!r}; expected {TYPE_URL}")
        names = sorted(set(asked.resource_names))
        if not 0 < len(names) <= MOST_RESOURCES:
            raise BadBody(f"resourceNames has {len(names)} names; expected 1 to {MOST_RESOURCES}")
        for name in names:
            caller.require(Right.READ, name)
        views = await asyncio.gather(*(self._gateway.registry.view(name) for name in names))
        version = _version(names, views)
        if asked.error_detail is not None:
            self._refused += 1
            shown, more = [name[:LONGEST_SHOWN] for name in names[:MOST_SHOWN]], len(names) - MOST_SHOWN
            of = f"{shown} and {more} more" if more > 0 else f"{shown}"
            log.warning("an Envoy does not accept the endpoints of %s: %s", of, asked.error_detail.message[:300])
        elif asked.version_info == version:
            return Response(status_code=304)
        self._answered += 1
        resources = [_resource(name, view) for name, view in zip(names, views, strict=True)]
        answer = {
            "versionInfo": version,
            "typeUrl": TYPE_URL,
            "nonce": f"{self._gateway.rng.getrandbits(64):016x}",
            "resources": resources,
        }
        return Response(msgspec.json.encode(answer), media_type="application/json")


def _request(body: bytes) -> DiscoveryRequest:
    """Raises BadBody."""
    fields = {key.replace("_", "").lower(): value for key, value in decoded(body, _decoder).items()}
    try:
        return msgspec.convert(fields, DiscoveryRequest)
    except msgspec.ValidationError as error:
        raise BadBody(f"body: {error}") from None


def _version(names: list[str], views: list[ServiceView]) -> str:
    """A version of the endpoints of these services. Any gateway gives the same one for the same state. Each index only
    rises, so their sum is another one after each change."""
    return f"{sum(view.index for view in views)}.{crc32(','.join(names).encode()):08x}"


def _resource(name: str, view: ServiceView) -> msgspec.Raw:
    return view.once(("envoy", name), lambda: msgspec.Raw(msgspec.json.encode(assignment(name, view.instances))))
