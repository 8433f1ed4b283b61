"""What faces that speak HTTP share: tokens, bodies, and errors as problem+json (RFC 9457)."""

from __future__ import annotations

import base64
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from typing import TypeVar

import msgspec
from slotreeve.errors import (
    Backpressure,
    ClientError,
    Forbidden,
    ModelError,
    NotThere,
    RequestError,
    RequestTimeout,
    SlotreeveError,
    TransportError,
    Unauthenticated,
    UnknownInstance,
    VersionConflict,
)
from slotreeve.model.text import UNDECODABLE
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from slotreeve_gateway.typos import explained

log = logging.getLogger("slotreeve.gateway")

MOST_BODY_BYTES = 4 * 1024 * 1024
"""Larger bodies are refused."""
RETRY_SECONDS = 1
PROBLEM = "application/problem+json"

_STATUS: tuple[tuple[type[SlotreeveError], int], ...] = (
    (ModelError, 400),
    (NotThere, 404),
    (UnknownInstance, 404),
    (RequestError, 400),
    (Unauthenticated, 401),
    (Forbidden, 403),
    (VersionConflict, 409),
    (RequestTimeout, 503),
    (Backpressure, 503),
    (TransportError, 503),
    (ClientError, 503),
)
Endpoint = Callable[[Request], Awaitable[Response]]


class BadBody(ModelError):
    """A body is not what it should be, or too large. ``status`` is 400 or 413."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def status_of(error: SlotreeveError) -> int:
    """The HTTP status that says what kind of error it is: 4xx where the caller must change something."""
    if isinstance(error, BadBody):
        return error.status
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def problem(status: int, detail: str, code: str = "", allowed: Iterable[str] = ()) -> Response:
    """A problem as problem+json: ``title``, ``status``, ``detail`` for people, and ``code`` (docs/errors.md).
    ``allowed``: the methods that the path takes, with status 405."""
    title = HTTPStatus(status).phrase
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    headers = {}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if allowed:
        headers["Allow"] = ", ".join(allowed)
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = str(RETRY_SECONDS)
    return Response(msgspec.json.encode(body | ({"code": code} if code else {})), status, headers, PROBLEM)


def answering(endpoint: Endpoint, refused: Callable[[SlotreeveError], Response] | None = None) -> Endpoint:
    """``endpoint`` with an answer for every error that it raises.

    ``refused`` makes the answer to an error of ours; by default problem+json. Any other exception is logged and
    answered with 500.
    """

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except ClientDisconnect:
            raise
        except SlotreeveError as error:
            if refused is not None:
                return refused(error)
            return problem(status_of(error), str(error), error.code)
        except Exception:
            log.exception("%s %s failed", request.method, request.url.path)
            return problem(500, "the gateway has failed; its log says why")

    return answer


def routes(pages: Iterable[tuple[str, str, Endpoint]]) -> list[Route]:
    """Routes for pages, each with its method and its path. A path has one route for all its methods, so that the answer
    405 to another method names all of them in its header ``Allow``."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for method, path, endpoint in pages:
        by_path.setdefault(path, {})[method] = endpoint
    return [Route(path, _by_method(found), methods=list(found)) for path, found in by_path.items()]


def _by_method(endpoints: Mapping[str, Endpoint]) -> Endpoint:
    async def answer(request: Request) -> Response:
        return await endpoints["GET" if request.method == "HEAD" else request.method](request)

    return answer


async def body_of(request: Request, most: int = MOST_BODY_BYTES) -> bytes:
    """The body of a request.

    Raises:
        BadBody: it is larger than ``most`` bytes; the rest is not read.
    """
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise BadBody(f"the body is larger than {most} bytes", 413)
        parts.append(part)
    return b"".join(parts)


T = TypeVar("T")


def decoded(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """A JSON body.

    Raises:
        BadBody: it is not JSON, or not what is expected; the message says what is wrong and where.
    """
    try:
        return decoder.decode(body)
    except UNDECODABLE as error:
        raise BadBody(f"body: {explained(str(error), decoder.type)}") from None


def token_of(request: Request) -> str | None:
    """The token in the header ``Authorization``: that of ``Bearer``, or the password of ``Basic``. None: there is none.

    Raises:
        Unauthenticated: the header cannot be read.
    """
    given = request.headers.get("authorization")
    if given is None:
        return None
    scheme, _, value = given.partition(" ")
    if scheme.lower() == "bearer" and value.strip():
        return value.strip()
    if scheme.lower() == "basic":
        try:
            user, _, password = base64.b64decode(value.strip(), validate=True).decode().partition(":")
        except ValueError:
            raise Unauthenticated("the header Authorization is not the Base64 of user:password") from None
        return password or user
    raise Unauthenticated(f"the header Authorization has the scheme {scheme[:20]!r}; expected Bearer or Basic")
