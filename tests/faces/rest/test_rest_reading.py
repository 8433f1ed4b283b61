"""Reading services: filters, waiting, streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from slotreeve.model.data_info import DataInfo
from slotreeve_client import Health, Instance
from slotreeve_face_rest import stream

from tests.faces.stage import OnStage, Stage

SERVICE = "com.example.S"
S = f"/v1/services/{SERVICE}/instances"
WATCH = f"/v1/services/{SERVICE}/watch"
BODY = {"address": "10.0.0.1", "port": 80}
StreamEvent = dict[str, Any]


async def register(stage: Stage, *instances: Instance) -> None:
    for publication in [stage.sdk.register(SERVICE, instance) for instance in instances]:
        await publication.acknowledged()


async def seen(stage: Stage, count: int) -> bool:
    answer = (await stage.http.get(S)).json()
    return len(answer["instances"]) + len(answer["opaque"]) == count


def test_the_filters_are_those_of_the_sdk(on_stage: OnStage) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "abcd"),
        ({"worst_health": "warning"}, "acd"),
        ({"worst_health": "passing"}, "ad"),
        ({"enabled_only": "true"}, "abc"),
        ({"enabled_only": "true", "worst_health": "warning"}, "ac"),
        ({"tag": "blue"}, "ab"),
        ({"tag": ["blue", "v2"]}, "b"),
        ({"zone": "west"}, "cdab"),
        ({"zone": "west", "enough": 2}, "cd"),
        ({"zone": "west", "enough": 3}, "cdab"),
        ({"tag": "green"}, ""),
    ]

    async def story(stage: Stage) -> None:
        await register(
            stage,
            Instance("10.0.0.1", 1, zone="east", tags=("blue",), id="a"),
            Instance("10.0.0.1", 2, zone="east", tags=("blue", "v2"), id="b", health=Health.CRITICAL),
            Instance("10.0.0.1", 3, zone="west", id="c", health=Health.WARNING),
            Instance("10.0.0.1", 4, zone="west", id="d", enabled=False),
        )
        await stage.until(lambda: seen(stage, 4), "all are seen")
        order = [i["id"] for i in (await stage.http.get(S)).json()["instances"]]
        for params, wanted in cases:
            found = [i["id"] for i in (await stage.http.get(S, params=params)).json()["instances"]]
            assert sorted(found) == sorted(wanted), params
            near = [one for one in order if one in "cd"]
            expected = near + [one for one in order if one not in near] if "zone" in params else order
            assert found == [one for one in expected if one in wanted], params

    on_stage(story)


def test_providers_of_bytes_are_shown_apart_and_no_filter_admits_them(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        await stage.sdk.publish(SERVICE, b"\xff\x00", "text", zone="east").acknowledged()
        await register(stage, Instance("10.0.0.1", 80))
        await stage.until(lambda: seen(stage, 2), "both are seen")
        answer = (await stage.http.get(S)).json()
        assert [(one["zone"], one["data"]) for one in answer["opaque"]] == [("east", ["/wA=", "dGV4dA=="])]
        assert [one["id"] for one in answer["instances"]] == ["10.0.0.1:80"]
        assert (await stage.http.get(S, params={"worst_health": "warning"})).json()["opaque"] == []

    on_stage(story)


def test_a_service_that_nobody_provides_is_empty_and_so_is_one_whose_providers_have_gone(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        empty = (await stage.http.get(S)).json()
        assert (empty["service"], empty["instances"]) == (DataInfo(SERVICE).id, [])
        assert (await stage.http.get(f"{S}/a")).json()["code"] == "SR512"
        await stage.http.put(f"{S}/a", json=BODY)
        one = (await stage.http.get(S, params={"index": empty["index"]})).json()
        assert len(one["instances"]) == 1
        await stage.http.delete(f"{S}/a")
        none = (await stage.http.get(S, params={"index": one["index"]})).json()
        assert none["instances"] == []
        assert empty["index"] < one["index"] < none["index"]

    on_stage(story)


def test_a_wait_for_a_change_ends_with_it_or_after_its_time(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        index = (await stage.http.get(S)).json()["index"]
        same = (await stage.http.get(S, params={"index": index, "wait": 0.05})).json()
        assert (same["index"], same["instances"]) == (index, [])
        waiting = [asyncio.ensure_future(stage.http.get(S, params={"index": index})) for _ in range(20)]
        await stage.http.put(f"{S}/a", json=BODY)
        answers = await asyncio.gather(*waiting)
        assert {answer.json()["index"] > index for answer in answers} == {True}
        assert {answer.json()["instances"][0]["id"] for answer in answers} == {"a"}

    on_stage(story)


def test_no_wait_is_longer_than_the_gateway_allows(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        for path in (S, "/v1/services"):
            answer = await stage.http.get(path, params={"index": 10**17 if path == S else 0, "wait": 3600})
            assert answer.status_code == 200
        index = (await stage.http.get("/v1/services")).json()["index"]
        assert (await stage.http.get("/v1/services", params={"index": index, "wait": 3600})).json()["index"] == index

    on_stage(story, settings={"face.rest.longest_wait_seconds": 0.1}, seconds=20)


def test_services_are_listed_by_prefix_and_a_wait_ends_with_a_new_one(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        empty = (await stage.http.get("/v1/services")).json()
        assert empty["services"] == {}
        await stage.http.put(f"{S}/a", json=BODY)
        one = (await stage.http.get("/v1/services", params={"index": empty["index"], "wait": 10})).json()
        assert one["services"] == {DataInfo(SERVICE).id: 1}
        await stage.http.put("/v1/services/org.example.T/instances/a", json=BODY)
        two = (await stage.http.get("/v1/services", params={"index": one["index"], "prefix": "org."})).json()
        assert two["services"] == {DataInfo("org.example.T").id: 1}
        assert two["index"] > one["index"]

    on_stage(story)


def test_callers_that_wait_and_go_away_are_forgotten(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        index = (await stage.http.get(S)).json()["index"]
        before = len(asyncio.all_tasks())

        async def all_wait() -> bool:
            return stage.gateway.counters()["rest_waiting"] == 10

        async def none_is_left() -> bool:
            return stage.gateway.counters()["rest_waiting"] == 0 and len(asyncio.all_tasks()) <= before

        host, _, port = stage.gateway.address.rpartition(":")
        writers = []
        for path in (f"{S}?index={index}&wait=300", WATCH):
            for _ in range(5):
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                writers.append(writer)
                if path == WATCH:
                    await reader.readuntil(b"data: ")
        await stage.until(all_wait, "all wait")
        for writer in writers:
            writer.close()
        await stage.until(none_is_left, "none is left")

    on_stage(story)


@asynccontextmanager
async def watching(stage: Stage, last: int | None = None, **params: str) -> AsyncIterator[AsyncIterator[StreamEvent]]:
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    async with stage.http.stream("GET", WATCH, headers=headers, params=params) as answer:
        assert answer.status_code == 200
        assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        yield events(answer)


async def events(answer: httpx.Response) -> AsyncIterator[StreamEvent]:
    event: dict[str, str] = {}
    async for line in answer.aiter_lines():
        name, _, value = line.partition(": ")
        if line == ":":
            yield {"heartbeat": True}
        elif line:
            event[name] = value
        elif event:
            assert event["event"] == "service"
            yield json.loads(event["data"]) | {"event_id": int(event["id"])}
            event = {}


def test_a_stream_begins_with_the_state_and_goes_on_with_each_change(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        async with watching(stage) as stream_:
            first = await anext(stream_)
            assert (first["instances"], first["event_id"]) == ([], first["index"])
            await stage.http.put(f"{S}/a", json=BODY)
            second = await anext(stream_)
            assert [one["id"] for one in second["instances"]] == ["a"]
        async with watching(stage, last=first["event_id"]) as stream_:
            assert (await anext(stream_))["index"] == second["index"], "what came meanwhile"
        async with watching(stage, last=second["event_id"], worst_health="passing") as stream_:
            await stage.http.put(f"{S}/b", json=BODY | {"health": "critical"})
            assert [one["id"] for one in (await anext(stream_))["instances"]] == ["a"]
        counters = stage.gateway.counters()
        assert counters["rest_events"] == 4

    on_stage(story)


def test_a_quiet_stream_has_heartbeats_and_ends_after_its_time(
    on_stage: OnStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT_SECONDS", 0.1)

    async def story(stage: Stage) -> None:
        async with watching(stage) as stream_:
            found = [event async for event in stream_]
        assert found[0]["instances"] == []
        assert found[1:] == [{"heartbeat": True}] * len(found[1:])
        assert 2 <= len(found[1:]) <= 7

    on_stage(story, settings={"face.rest.watch_seconds": 0.65})


def test_a_last_event_that_is_none_of_ours_is_refused_and_a_head_gets_no_stream(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        for given in (b"x", b"-1", b"1.5", b"9" * 30, "٣".encode()):
            answer = await stage.http.get(WATCH, headers={b"Last-Event-ID": given})
            assert answer.status_code == 400, given
        assert (await stage.http.head(WATCH)).status_code == 200
        assert (await stage.http.head(S)).status_code == 200

    on_stage(story)


def test_a_service_of_10_000_instances_is_read_watched_and_changed(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        for part in range(10):
            many = [{"service": SERVICE, "address": f"10.0.{part}.1", "port": n + 1} for n in range(1000)]
            answer = await stage.http.post("/v1/bulk/register", json={"registrations": many})
            assert answer.json()["done"] == 1000
        await stage.until(lambda: seen(stage, 10_000), "all are seen")
        async with watching(stage) as stream_:
            assert len((await anext(stream_))["instances"]) == 10_000
            await stage.http.delete(f"{S}/10.0.9.1%3A1000")
            while len((await anext(stream_))["instances"]) != 9_999:
                pass
        assert (await stage.http.get(f"{S}/10.0.3.1:77")).json()["port"] == 77

    on_stage(story)


def test_a_reader_that_does_not_read_is_given_up(
    on_stage: OnStage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stream, "SLOW_SECONDS", 0.2)

    async def story(stage: Stage) -> None:
        filler = {"metadata": {f"k{n}": "x" * 1000 for n in range(12)}}
        many = [{"service": SERVICE, "port": n} | BODY | {"id": f"i{n}"} | filler for n in range(250)]
        for start in range(0, 1000, 250):
            part = [one | {"id": f"i{start + n}"} for n, one in enumerate(many)]
            await stage.http.post("/v1/bulk/register", json={"registrations": part})
        host, _, port = stage.gateway.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
        writer.write(f"GET {WATCH} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")

        async def given_up() -> bool:
            return stage.gateway.counters()["rest_slow_readers"] == 1

        await stage.until(given_up, "it is given up")
        await stage.http.get(f"{S}/i1")  # the others are served
        writer.transport.abort()

    on_stage(story)


def test_a_gateway_that_stops_ends_its_streams(on_stage: OnStage, caplog: pytest.LogCaptureFixture) -> None:
    async def story(stage: Stage) -> None:
        async with watching(stage) as stream_:
            await anext(stream_)
            stopping = asyncio.ensure_future(stage.gateway.stop())
            with pytest.raises((StopAsyncIteration, httpx.RemoteProtocolError)):
                await anext(stream_)
            await stopping

    on_stage(story)


def test_reading_goes_on_while_the_registry_is_down_and_what_is_unknown_is_refused(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        await stage.http.put(f"{S}/a", json=BODY)
        await stage.until(lambda: seen(stage, 1), "it is seen")
        for name in list(stage.cluster.servers):
            stage.cluster.kill(name)
        assert await seen(stage, 1), "what the gateway has seen last"
        asked = [
            stage.http.get("/v1/services/com.example.Other/instances"),
            stage.http.get("/v1/services"),
            stage.http.put(f"{S}/b", json=BODY),
            stage.http.put(f"{S}/a/renewal"),
            stage.http.delete(f"{S}/a"),
            stage.http.get(f"{S}/a/override"),
            stage.http.put(f"{S}/a/override", json={"drain": True}),
            stage.http.post("/v1/bulk/renew", json={"leases": {SERVICE: ["a"]}}),
            stage.http.get("/v1/services/com.example.Other/watch"),
        ]
        for answer in await asyncio.gather(*asked):
            assert answer.status_code == 503, answer.request.url
            assert answer.headers["Content-Type"] == "application/problem+json"
            assert answer.headers["Retry-After"] == "1"
            assert answer.json()["code"].startswith("SR"), answer.text

    on_stage(story)
