"""What is refused, and how that is said."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from slotreeve.errors import Forbidden, Unauthenticated
from slotreeve.model.data_info import DataInfo
from slotreeve_gateway import Caller, Right

from tests.faces.stage import OnStage, Stage

S = "/v1/services/com.example.S/instances"
BODY = {"address": "10.0.0.1", "port": 80}


def test_every_refusal_is_a_problem_with_a_code(on_stage: OnStage) -> None:
    json_ = {"Content-Type": "application/json"}
    cases: list[tuple[str, str, dict[str, Any], int, str]] = [
        ("GET", "/v1/services/", {}, 404, "SR511"),
        ("GET", "/v1/services/a/b/c/d/e", {}, 404, "SR511"),
        ("GET", "/v1/services/com.example.S", {}, 404, "SR511"),
        ("GET", "/v1/bulk", {}, 404, "SR511"),
        ("GET", "/v1/openapi.json/x", {}, 404, "SR511"),
        ("DELETE", "/v1/services", {}, 405, "SR510"),
        ("OPTIONS", S, {}, 405, "SR510"),
        ("PROPFIND", S, {}, 405, "SR510"),
        ("GET", "/v1/bulk/renew", {}, 405, "SR510"),
        ("GET", f"{S}?indx=5", {}, 400, "SR510"),
        ("PUT", f"{S}/a/renewal?x=1", {}, 400, "SR510"),
        ("GET", "/v1/services/%20/instances", {}, 400, "SR120"),
        ("GET", "/v1/services//instances", {}, 400, "SR120"),
        ("GET", f"/v1/services/{'x' * 3000}/instances", {}, 400, "SR120"),
        ("GET", "/v1/services/a%23%40%23b/instances", {}, 400, "SR120"),
        ("PUT", "/v1/services/%FF/instances/a", {"json": BODY}, 400, "SR510"),
        ("PUT", f"{S}/{'x' * 291}", {"json": BODY}, 400, "SR120"),
        ("PUT", f"{S}/a%0Ab", {"json": BODY}, 400, "SR120"),
        ("PUT", f"{S}/a", {"json": BODY | {"id": "b"}}, 400, "SR510"),
        ("PUT", f"{S}/a", {"data": {"address": "10.0.0.1"}}, 415, "SR510"),
        ("PUT", f"{S}/a", {"content": b"{}", "headers": {"Content-Type": "text/json"}}, 415, "SR510"),
        ("PUT", f"{S}/a", {"content": b"", "headers": json_}, 400, "SR120"),
        ("PUT", f"{S}/a", {"content": b"[" * 100_000, "headers": json_}, 400, "SR120"),
        ("PUT", f"{S}/a", {"content": b'{"address": ' + b"[" * 100_000, "headers": json_}, 400, "SR120"),
        ("PUT", f"{S}/a", {"content": b'{"address": "\xff"}', "headers": json_}, 400, "SR120"),
        ("PUT", f"{S}/a", {"content": b'{"address": "\\ud800"}', "headers": json_}, 400, "SR120"),
        ("PUT", f"{S}/a", {"content": b'{"address": "a", "port": 1e999}', "headers": json_}, 400, "SR120"),
        ("PUT", f"{S}/a", {"json": BODY | {"ttl_seconds": 0.5}}, 400, "SR120"),
        ("PUT", f"{S}/a", {"json": BODY | {"ttl_seconds": 86_401}}, 400, "SR120"),
        ("PUT", f"{S}/a", {"json": {"port": 80}}, 400, "SR120"),
        ("PUT", f"{S}/a", {"json": BODY | {"address": "-"}}, 400, "SR120"),
        ("PUT", f"{S}/a", {"json": BODY | {"metadata": {f"k{n}": "x" * 1024 for n in range(64)}}}, 400, "SR120"),
        ("POST", "/v1/bulk/renew", {"json": {"leases": {"": ["a"]}}}, 400, "SR120"),
        ("POST", "/v1/bulk/renew", {"json": {"leases": {"a": [""]}}}, 400, "SR120"),
    ]

    async def story(stage: Stage) -> None:
        for method, path, sent, status, code in cases:
            answer = await stage.http.request(method, path, **sent)
            case = (method, path[:80], answer.text)
            assert answer.status_code == status, case
            assert answer.headers["Content-Type"] == "application/problem+json", case
            problem = answer.json()
            assert (problem["status"], problem["code"]) == (status, code), case
            assert problem["detail"], case
        assert (await stage.http.get("/v1/services")).json()["services"] == {}
        assert stage.gateway.counters()["rest_refusals"] == len(cases)

    on_stage(story)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (BODY | {"prot": 80}, "`prot`"),
        (BODY | {"prot": 80}, "did you mean 'port'?"),
        (BODY | {"TTL_secnds": 80}, "did you mean 'ttl_seconds'?"),
        (BODY | {"anything": 80}, "known: address, port, scheme"),
        (BODY | {"health": "criticle"}, "did you mean 'critical'?"),
        (BODY | {"port": 70_000}, "$.port"),
        (BODY | {"port": "80"}, "$.port"),
        (BODY | {"tags": ["a", 1]}, "$.tags[1]"),
        (BODY | {"tags": ["a", "a"]}, "each tag once"),
        (BODY | {"metadata": {"a": 1}}, "$.metadata"),
        (BODY | {"health": "ill"}, "'ill'"),
        (BODY | {"scheme": "HTTP"}, "scheme is 'HTTP'"),
        (BODY | {"address": "a b"}, "address is 'a b'"),
    ],
)
def test_a_field_that_is_not_good_is_named(on_stage: OnStage, body: dict[str, Any], says: str) -> None:
    async def story(stage: Stage) -> None:
        assert says in (await stage.http.post(S, json=body)).json()["detail"]

    on_stage(story)


def test_a_name_that_is_mistyped_within_a_list_or_in_the_query_is_found_too(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        many = {"registrations": [{"servcie": "a", "address": "10.0.0.1"}]}
        said = (await stage.http.post("/v1/bulk/register", json=many)).json()["detail"]
        assert said.endswith("at `$.registrations[0]`; did you mean 'service'?")
        assert "did you mean 'index'?" in (await stage.http.get(f"{S}?indx=5")).json()["detail"]
        path = f"{S}/a/override"
        assert "did you mean 'weight'?" in (await stage.http.put(path, json={"wieght": 5})).json()["detail"]

    on_stage(story)


class Names:
    """A caller who may do some things with services whose data id begins with a text."""

    def __init__(self, name: str, prefix: str, *rights: Right) -> None:
        self.name = self.author = name
        self._prefix, self._rights = prefix, rights

    def may(self, right: Right, service: str) -> bool:
        return right in self._rights and service.startswith(self._prefix)

    def require(self, right: Right, service: str) -> None:
        if not self.may(right, service):
            raise Forbidden(f"the token {self.name} has no right to {right} {service}")


class Tokens:
    """Callers by token. Tokens can be revoked."""

    def __init__(self) -> None:
        self.callers: dict[str | None, Caller] = {
            "reader": Names("reader", "com.example.", Right.READ),
            "provider": Names("provider", "com.example.S", Right.REGISTER),
            "operator": Names("operator", "", Right.OPERATE),
        }

    def caller(self, token: str | None) -> Caller:
        if token not in self.callers:
            raise Unauthenticated("a token is needed, and this one is not known")
        return self.callers[token]


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_token_opens_what_it_has_a_right_for_and_nothing_else(on_stage: OnStage) -> None:
    override = {"json": {"drain": True}}
    lease = {"json": {"leases": {"com.example.S": ["a"]}}}
    both = {"json": {"registrations": [{"service": s} | BODY for s in ("com.example.S", "com.example.T")]}}
    asked: list[tuple[str, str, dict[str, Any], set[str]]] = [
        ("PUT", f"{S}/a", {"json": BODY}, {"provider"}),
        ("POST", S, {"json": BODY}, {"provider"}),
        ("PUT", f"{S}/a/renewal", {}, {"provider"}),
        ("GET", S, {}, {"reader"}),
        ("GET", f"{S}/a", {}, {"reader"}),
        ("GET", "/v1/services/com.example.S/watch", {}, {"reader"}),
        ("PUT", f"{S}/a/override", override, {"operator"}),
        ("GET", f"{S}/a/override", {}, {"operator"}),
        ("DELETE", f"{S}/a/override", {}, {"operator"}),
        ("POST", "/v1/bulk/renew", lease, {"provider"}),
        ("POST", "/v1/bulk/register", both, set()),
        ("POST", "/v1/bulk/deregister", lease, {"provider"}),
        ("GET", "/v1/services", {}, {"reader", "provider", "operator"}),
        ("GET", "/v1/openapi.json", {}, {"reader", "provider", "operator"}),
    ]

    async def story(stage: Stage) -> None:
        for method, path, sent, may in asked:
            for token in ("reader", "provider", "operator"):
                answer = await stage.http.request(method, path, headers=bearer(token), **sent)
                if token in may:
                    assert answer.status_code < 300, (method, path, token, answer.text)
                else:
                    assert (answer.status_code, answer.json()["code"]) == (403, "SR502"), (method, path, token)
            for headers in ({}, bearer("other"), {"Authorization": "Digest x"}, {"Authorization": "Basic %"}):
                answer = await stage.http.request(method, path, headers=headers, **sent)
                assert (answer.status_code, answer.json()["code"]) == (401, "SR501"), (method, path)
                assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert (await stage.http.get(S, auth=("anybody", "reader"))).status_code == 200

    on_stage(story, access=Tokens(), settings={"face.rest.watch_seconds": 0.05})


def test_a_list_shows_what_the_caller_may_read(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        for name in ("com.example.S", "com.example.T", "org.example.U"):
            await stage.sdk.publish(name, "x").acknowledged()
        wanted = {DataInfo(name).id: 1 for name in ("com.example.S", "com.example.T")}

        async def listed() -> bool:
            answer = await stage.http.get("/v1/services", headers=bearer("reader"))
            return bool(answer.json()["services"] == wanted)

        await stage.until(listed, "those of the reader are listed")
        assert (await stage.http.get("/v1/services", headers=bearer("provider"))).json()["services"] == {}

    on_stage(story, access=Tokens())


def test_a_wait_is_refused_when_its_token_is_revoked_meanwhile(on_stage: OnStage) -> None:
    tokens = Tokens()

    async def story(stage: Stage) -> None:
        index = (await stage.http.get(S, headers=bearer("reader"))).json()["index"]
        waiting = asyncio.ensure_future(stage.http.get(S, params={"index": index}, headers=bearer("reader")))

        async def is_read() -> bool:
            return stage.gateway.counters()["rest_waiting"] == 1

        await stage.until(is_read, "it waits")
        del tokens.callers["reader"]
        await stage.sdk.publish("com.example.S", "secret").acknowledged()
        assert (await waiting).status_code == 401

    on_stage(story, access=tokens)


def test_a_stream_ends_when_its_token_is_revoked(on_stage: OnStage) -> None:
    tokens = Tokens()

    async def story(stage: Stage) -> None:
        path = "/v1/services/com.example.S/watch"
        async with stage.http.stream("GET", path, headers=bearer("reader")) as answer:
            lines = answer.aiter_lines()
            while await anext(lines):
                pass
            del tokens.callers["reader"]
            await stage.sdk.publish("com.example.S", "secret").acknowledged()
            async with asyncio.timeout(20):
                assert [line async for line in lines if "c2VjcmV0" in line] == []

    on_stage(story, access=tokens)
