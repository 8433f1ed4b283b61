"""What faces that speak HTTP share: paths, tokens, bodies and errors."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator

import httpx
import msgspec
import pytest
from slotreeve.errors import (
    Backpressure,
    ClientClosed,
    ConfigError,
    Forbidden,
    ModelError,
    PluginError,
    RequestTimeout,
    SlotreeveError,
    Unauthenticated,
    Unreachable,
)
from slotreeve_gateway import FacePages
from slotreeve_gateway.http import answering, body_of, decoded, problem, token_of
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp


def says(text: str) -> ASGIApp:
    return PlainTextResponse(text)


def fetch(application: ASGIApp, path: str, **given: object) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            return await client.request(str(given.pop("method", "POST")), path, **given)  # type: ignore[arg-type]

    return asyncio.run(ask())


def test_a_request_goes_to_the_face_whose_path_it_is_and_others_are_not_found() -> None:
    pages = FacePages()
    pages.add(["/eureka"], says("eureka"))
    pages.add(["/v1/catalog", "/v1/health"], says("consul"))
    pages.add(["/v1/services"], says("rest"))

    answers = {path: fetch(pages, path) for path in ("/eureka", "/eureka/apps/X", "/v1/catalog/a/b", "/v1/services")}
    assert [answer.text for answer in answers.values()] == ["eureka", "eureka", "consul", "rest"]
    for path in ("/", "/v1", "/v1/", "/v1/servicesX", "/eurekaX", "//eureka", "/v1/catalogue/"):
        unknown = fetch(pages, path)
        assert unknown.status_code == 404, path
        assert unknown.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("prefix", ["eureka", "/eureka/", "/", "", "/a/b/c"])
def test_a_prefix_that_cannot_be_told_apart_is_refused(prefix: str) -> None:
    with pytest.raises(PluginError, match="expected /one or /one/two"):
        FacePages().add([prefix], says("x"))


def test_two_faces_cannot_have_the_same_path() -> None:
    pages = FacePages()
    pages.add(["/v1/services"], says("one"))
    with pytest.raises(
        PluginError, match=r"two faces ask for the path '/v1/services'; take one of them out of face\.use"
    ):
        pages.add(["/v1/services"], says("two"))


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ModelError("bad name"), 400),
        (Unauthenticated("no token"), 401),
        (Forbidden("no right"), 403),
        (RequestTimeout("late"), 503),
        (Backpressure("full"), 503),
        (Unreachable("nobody"), 503),
        (ClientClosed("stops"), 503),
        (ConfigError("unforeseen"), 500),
    ],
)
def test_each_error_has_a_status_its_code_and_its_message(error: SlotreeveError, status: int) -> None:
    async def fail(request: Request) -> Response:
        raise error

    answer = fetch(Router([Route("/x", answering(fail), methods=["POST"])]), "/x")
    assert answer.status_code == status
    assert answer.json()["detail"] == str(error)
    assert answer.json()["code"] == error.code
    assert ("www-authenticate" in answer.headers) == (status == 401)
    assert ("retry-after" in answer.headers) == (status == 503)


def test_an_error_that_nobody_foresaw_is_logged_and_tells_the_caller_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(request: Request) -> Response:
        raise KeyError("secret")

    answer = fetch(Router([Route("/x", answering(fail), methods=["POST"])]), "/x")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "POST /x failed" in caplog.text


def test_a_body_is_read_to_its_limit_and_no_further() -> None:
    sent = 0

    async def parts() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1_000):
            sent += 1
            yield b"x" * 100

    async def read(request: Request) -> Response:
        return PlainTextResponse(str(len(await body_of(request, 1_000))))

    application = Router([Route("/x", answering(read), methods=["POST"])])
    assert fetch(application, "/x", content=b"x" * 1_000).text == "1000"
    assert fetch(application, "/x", content=b"x" * 1_001).status_code == 413
    assert fetch(application, "/x", content=parts()).status_code == 413
    assert sent <= 12


@pytest.mark.parametrize("body", [b"", b"{", b'{"port": "x"}', b"\xff", b"[" * 100_000, b'{"other": 1}', b"1e999"])
def test_a_body_that_is_not_what_is_expected_is_a_bad_request_that_says_where(body: bytes) -> None:
    class Wanted(msgspec.Struct, forbid_unknown_fields=True):
        port: int

    decoder = msgspec.json.Decoder(Wanted)

    async def read(request: Request) -> Response:
        return PlainTextResponse(str(decoded(await body_of(request), decoder).port))

    answer = fetch(Router([Route("/x", answering(read), methods=["POST"])]), "/x", content=body)
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("body: ")


def asks(header: str | None) -> Request:
    headers = [] if header is None else [(b"authorization", header.encode())]
    return Request({"type": "http", "headers": headers})


def basic(text: str) -> str:
    return f"Basic {b64encode(text.encode()).decode()}"


@pytest.mark.parametrize(
    ("header", "token"),
    [
        (None, None),
        ("Bearer abc", "abc"),
        ("bearer  abc ", "abc"),
        (basic("user:abc"), "abc"),
        (basic("abc:"), "abc"),
        (basic("abc"), "abc"),
    ],
)
def test_a_token_is_found_where_clients_put_it(header: str | None, token: str | None) -> None:
    assert token_of(asks(header)) == token


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic !", "Basic \xff", "Digest x", "Basic /w=="])
def test_a_header_that_cannot_be_read_is_no_missing_token(header: str) -> None:
    with pytest.raises(Unauthenticated, match="Authorization"):
        token_of(asks(header))


def test_a_problem_without_a_code_has_none() -> None:
    assert msgspec.json.decode(bytes(problem(405, "not this method").body)) == {
        "type": "about:blank",
        "title": "Method Not Allowed",
        "status": 405,
        "detail": "not this method",
    }
