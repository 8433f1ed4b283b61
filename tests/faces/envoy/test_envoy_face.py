"""Envoy's discovery service: version, nonce, refusals, and what is not asked rightly."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from slotreeve_protocol.envelope import encode_instance
from slotreeve_protocol.instance import Instance

from tests.faces.stage import OnStage, Stage

PATH = "/v3/discovery:endpoints"
WEB, DATABASE = "com.example.Web", "com.example.Database"


async def ask(http: httpx.AsyncClient, *names: str, **fields: object) -> httpx.Response:
    return await http.post(PATH, json={"node": {"id": "test"}, "resource_names": names, **fields})


def addresses(answer: httpx.Response) -> dict[str, list[str]]:
    """Addresses by service."""
    resources: list[Any] = answer.json()["resources"]
    return {
        resource["clusterName"]: [
            endpoint["endpoint"]["address"]["socketAddress"]["address"]
            for locality in resource["endpoints"]
            for endpoint in locality["lbEndpoints"]
        ]
        for resource in resources
    }


async def register(stage: Stage, service: str, address: str) -> None:
    await stage.sdk.leases.register(service, address, encode_instance(Instance(address, 80, id=address)))


def test_a_version_stays_until_something_changes_and_every_answer_has_a_nonce_of_its_own(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        await register(stage, WEB, "10.0.0.1")
        first, again = await ask(stage.http, WEB), await ask(stage.http, WEB)
        assert addresses(first) == {WEB: ["10.0.0.1"]}
        version = first.json()["versionInfo"]
        assert again.json()["versionInfo"] == version
        assert again.json()["nonce"] != first.json()["nonce"]

        assert (await ask(stage.http, WEB, version_info=version)).status_code == 304
        assert (await ask(stage.http, WEB, versionInfo=version)).status_code == 304
        await register(stage, WEB, "10.0.0.2")

        async def has_changed() -> bool:
            return (await ask(stage.http, WEB, version_info=version)).status_code == 200

        await stage.until(has_changed, "another version")
        assert addresses(await ask(stage.http, WEB, version_info=version)) == {WEB: ["10.0.0.1", "10.0.0.2"]}

    on_stage(story, faces="envoy")


def test_several_services_are_one_answer_and_another_set_of_them_another_version(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        await register(stage, WEB, "10.0.0.1")
        await register(stage, DATABASE, "10.0.0.2")
        both = await ask(stage.http, WEB, DATABASE, WEB)
        assert addresses(both) == {WEB: ["10.0.0.1"], DATABASE: ["10.0.0.2"]}
        assert addresses(await ask(stage.http, "com.example.Nobody")) == {"com.example.Nobody": []}
        version = both.json()["versionInfo"]
        assert (await ask(stage.http, DATABASE, WEB, version_info=version)).status_code == 304, "in any order"
        assert (await ask(stage.http, WEB, version_info=version)).status_code == 200

    on_stage(story, faces="envoy")


def test_another_gateway_gives_the_same_version(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        await register(stage, WEB, "10.0.0.1")
        version = (await ask(stage.http, WEB)).json()["versionInfo"]
        async with stage.another() as (_, http):
            assert (await ask(http, WEB, version_info=version)).status_code == 304

    on_stage(story, faces="envoy")


def test_an_envoy_that_did_not_accept_an_answer_gets_it_again_and_is_counted(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        await register(stage, WEB, "10.0.0.1")
        version = (await ask(stage.http, WEB)).json()["versionInfo"]
        refused = await ask(stage.http, WEB, version_info=version, error_detail={"code": 13, "message": "bad"})
        assert refused.status_code == 200
        assert stage.gateway.counters()["envoy_rejections"] == 1
        assert stage.gateway.counters()["envoy_answers"] == 2

    on_stage(story, faces="envoy")


def test_a_line_of_the_log_is_short_however_much_an_envoy_does_not_accept(
    on_stage: OnStage, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(stage: Stage) -> None:
        names = [f"{number:03}-{'x' * 200}" for number in range(20)]
        refused = await ask(stage.http, *names, error_detail={"code": 13, "message": "bad" * 1_000})
        assert refused.status_code == 200

    on_stage(story, faces="envoy")
    (line,) = [one.getMessage() for one in caplog.records if "an Envoy does not accept" in one.getMessage()]
    assert len(line) < 800
    assert "000-xxx" in line
    assert "and 17 more" in line


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"resource_names": "web"}',
        b'{"resource_names": [1]}',
        b'{"resource_names": [" "]}',
        b'{"resource_names": ["web"], "type_url": "type.googleapis.com/envoy.config.cluster.v3.Cluster"}',
        b'{"resource_names": ["web"], "version_info": {}}',
        b"[" * 100_000,
        b'{"resource_names": ["' + b"x" * 3_000 + b'"]}',
        json.dumps({"resource_names": [f"s{number}" for number in range(1_001)]}).encode(),
    ],
)
def test_a_request_that_is_wrong_is_told_what_is_wrong(on_stage: OnStage, body: bytes) -> None:
    async def story(stage: Stage) -> None:
        answer = await stage.http.post(PATH, content=body)
        assert answer.status_code == 400, answer.text
        assert answer.json()["detail"]

    on_stage(story, faces="envoy")


def test_other_paths_and_methods_are_refused(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        assert (await stage.http.get(PATH)).status_code == 405
        assert (await stage.http.post(PATH + "/x", json={})).status_code == 404
        assert (await stage.http.post(PATH, content=b"x" * 300_000)).status_code == 413

    on_stage(story, faces="envoy")
