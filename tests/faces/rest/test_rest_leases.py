"""Registering, renewing and ending instances, and overriding them."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

import pytest
from slotreeve.model.data_info import DataInfo
from slotreeve_client import Instance, Subscription
from slotreeve_gateway.views import MOST_FORMS, ServiceView
from slotreeve_protocol.overrides import OVERRIDES_KEY

from tests.faces.stage import OnStage, Stage

S = "/v1/services/com.example.S/instances"
BODY = {"address": "10.0.0.1", "port": 80}


def session_of(stage: Stage) -> str:
    """The session server that the gateway is connected to."""
    client = stage.gateway._client
    assert client is not None
    return next(name for name in stage.cluster.names if stage.cluster.address(name) == client.server)


async def ids(stage: Stage, service: str = "com.example.S") -> list[str]:
    answer = (await stage.http.get(f"/v1/services/{quote(service, safe='')}/instances")).json()
    return [instance["id"] for instance in answer["instances"]]


async def is_list(stage: Stage, service: str, wanted: list[str]) -> bool:
    return await ids(stage, service) == wanted


async def until_ids(stage: Stage, wanted: list[str]) -> None:
    """The gateway sees a change a moment after the one who made it has its answer."""
    await stage.until(lambda: is_list(stage, "com.example.S", wanted), f"the instances are {wanted}")


def test_an_instance_that_is_put_is_told_to_a_subscriber_with_all_its_fields(on_stage: OnStage) -> None:
    fields: dict[str, Any] = {
        "address": "10.0.0.1",
        "port": 8080,
        "scheme": "http",
        "weight": 7,
        "zone": "east",
        "tags": ["blue", "v2"],
        "metadata": {"version": "1.2"},
        "health": "warning",
        "health_note": "disk",
        "enabled": False,
    }

    async def story(stage: Stage) -> None:
        seen: asyncio.Future[Instance | None] = asyncio.get_running_loop().create_future()

        def changed(subscription: Subscription) -> None:
            if subscription.instances and not seen.done():
                seen.set_result(subscription.instances[0].instance)

        stage.sdk.subscribe("com.example.S", changed)
        answer = await stage.http.put(f"{S}/a", json=fields | {"ttl_seconds": 60})
        assert answer.status_code == 200
        assert answer.json() == {"service": DataInfo("com.example.S").id, "id": "a", "ttl_seconds": 60}
        instance = await seen
        assert instance is not None
        assert {name: getattr(instance, name) for name in fields} == fields | {"tags": ("blue", "v2")}
        shown = (await stage.http.get(f"{S}/a")).json()
        assert shown == fields | {"id": "a", "register_id": shown["register_id"]}

    on_stage(story)


def test_an_instance_that_is_posted_has_its_address_as_id_and_is_named_by_the_location(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        answer = await stage.http.post(S, json={"address": "2001:DB8:0::1", "port": 80})
        assert answer.status_code == 201
        assert answer.headers["Location"] == f"{S}/%5B2001%3Adb8%3A%3A1%5D%3A80"
        assert answer.json()["id"] == "[2001:db8::1]:80"
        assert (await stage.http.get(answer.headers["Location"])).json()["port"] == 80
        named = await stage.http.post(S, json=BODY | {"id": "a/b c"})
        assert named.headers["Location"] == f"{S}/a%2Fb%20c"
        assert (await stage.http.delete(named.headers["Location"])).status_code == 204
        await until_ids(stage, ["[2001:db8::1]:80"])

    on_stage(story)


def test_any_name_goes_through_the_whole_life_of_a_lease(on_stage: OnStage) -> None:
    services = ["com.example.S", "com/example/S", "Dienst ü", "S#@#tenant#@#group"]
    names = ["a/b", "..", "ä ö", "100%", "a?b#c", "+", "界" * 290, "a#@#b", "a;b=c"]

    def encoded(text: str) -> str:
        return quote(text, safe="").replace(".", "%2E")

    async def life(stage: Stage, service: str, instance_id: str) -> None:
        place = f"/v1/services/{encoded(service)}/instances/{encoded(instance_id)}"
        assert (await stage.http.put(f"{place}/renewal")).status_code == 404
        index = (await stage.http.get(place.rpartition("/")[0])).json()["index"]
        assert (await stage.http.put(place, json=BODY)).status_code == 200
        assert (await stage.http.put(f"{place}/renewal")).status_code == 204
        instances = f"/v1/services/{quote(service, safe='')}/instances"
        answer = (await stage.http.get(instances, params={"index": index})).json()
        assert [one["id"] for one in answer["instances"]] == [instance_id]
        assert (await stage.http.get(place)).json()["id"] == instance_id
        assert (await stage.http.delete(place)).status_code == 204
        for method, path in (("DELETE", place), ("PUT", f"{place}/renewal")):
            refusal = await stage.http.request(method, path)
            assert (refusal.status_code, refusal.json()["code"]) == (404, "SR512")
        answer = (await stage.http.get(instances, params={"index": answer["index"]})).json()
        assert (answer["service"], answer["instances"]) == (DataInfo.parse(service).id, [])

    async def story(stage: Stage) -> None:
        for service in services:
            for instance_id in names:
                await life(stage, service, instance_id)

    on_stage(story)


def test_a_second_put_replaces_the_first_and_a_lease_that_nobody_renews_ends(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        await stage.http.put(f"{S}/a", json=BODY)
        await stage.http.put(f"{S}/a", json=BODY | {"weight": 3, "ttl_seconds": 1})
        answer = (await stage.http.get(S)).json()
        assert [(i["id"], i["weight"]) for i in answer["instances"]] == [("a", 3)]
        later = await stage.http.get(S, params={"index": answer["index"], "wait": 10})
        assert later.json()["instances"] == []
        assert later.json()["index"] > answer["index"]
        assert (await stage.http.put(f"{S}/a/renewal")).status_code == 404

    on_stage(story)


def test_a_zone_that_is_not_named_is_that_of_the_gateway(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        await stage.http.put(f"{S}/a", json=BODY)
        await stage.http.put(f"{S}/b", json=BODY | {"zone": "west"})
        instances = (await stage.http.get(S, params={"zone": "west"})).json()["instances"]
        assert [(i["id"], i["zone"]) for i in instances] == [("b", "west"), ("a", "east")]

    on_stage(story, settings={"node.zone": "east"})


def test_the_bulk_forms_name_what_is_unknown_as_the_caller_does(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        whole = DataInfo("com.example.B").id
        many = [{"service": "com.example.A", "id": f"a{n}"} | BODY for n in range(3)]
        many += [{"service": whole} | BODY]
        answer = await stage.http.post("/v1/bulk/register", json={"registrations": many})
        assert answer.status_code == 200
        assert answer.json() == {"done": 4, "unknown": {}, "unanswered": {}, "reason": ""}
        leases = {"com.example.A": ["a0", "x", "a2"], whole: ["10.0.0.1:80"], "com.example.C": ["c"]}
        for form in ("renew", "deregister"):
            answer = await stage.http.post(f"/v1/bulk/{form}", json={"leases": leases})
            assert answer.json() == {
                "done": 3,
                "unknown": {"com.example.A": ["x"], "com.example.C": ["c"]},
                "unanswered": {},
                "reason": "",
            }
        await stage.until(lambda: is_list(stage, "com.example.A", ["a1"]), "the others have ended")

    on_stage(story)


def test_of_a_bulk_with_a_bad_instance_none_is_registered(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        many = [
            {"service": "com.example.S", "id": "a"} | BODY,
            {"service": "com.example.S"} | BODY | {"tags": ["x", "x"]},
        ]
        answer = await stage.http.post("/v1/bulk/register", json={"registrations": many})
        assert answer.status_code == 400
        assert answer.json()["detail"].startswith("registrations[1]: instance: tags is")
        many[1] = {"service": "com.example.S"} | BODY | {"port": 70_000}
        answer = await stage.http.post("/v1/bulk/register", json={"registrations": many})
        assert "$.registrations[1].port" in answer.json()["detail"]
        assert await ids(stage) == []

    on_stage(story)


def test_a_caller_may_go_to_another_gateway_at_any_time(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        async with stage.another() as (_, other):
            index = (await other.get(S)).json()["index"]
            await stage.http.put(f"{S}/a", json=BODY)
            seen = (await other.get(S, params={"index": index})).json()
            assert [one["id"] for one in seen["instances"]] == ["a"]
            assert (await other.put(f"{S}/a/renewal")).status_code == 204
            await stage.gateway.stop()
            assert (await other.put(f"{S}/b", json=BODY)).status_code == 200
            seen = (await other.get(S, params={"index": seen["index"]})).json()
            assert sorted(one["id"] for one in seen["instances"]) == ["a", "b"], "the first one stays"
            assert (await other.delete(f"{S}/a")).status_code == 204

    on_stage(story)


@pytest.mark.parametrize("killed", ["session", "data-1", "data-2"])
def test_no_registration_fails_or_is_lost_where_a_server_dies(on_stage: OnStage, killed: str) -> None:
    async def story(stage: Stage) -> None:
        stopping = False
        statuses: list[int] = []

        async def register(caller: int) -> None:
            while not stopping:
                place = f"/v1/services/com.example.S{caller}/instances/i{len(statuses)}"
                statuses.append((await stage.http.put(place, json=BODY)).status_code)
                made.append(place)

        made: list[str] = []
        callers = [asyncio.ensure_future(register(n)) for n in range(8)]
        await stage.until(lambda: true(len(made) > 50), "some are made")
        stage.cluster.kill(session_of(stage) if killed == "session" else killed)
        before = len(made)
        await stage.until(lambda: true(len(made) > before + 100), "more are made")
        stopping = True
        await asyncio.gather(*callers)
        assert set(statuses) == {200}
        for place in made:
            assert (await stage.http.put(f"{place}/renewal")).status_code == 204, place

    async def true(found: bool) -> bool:
        return found

    on_stage(story)


def test_a_bulk_names_what_no_leader_has_answered_for(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        await stage.http.put(f"{S}/a", json=BODY)
        for name in ("data-1", "data-2"):
            stage.cluster.kill(name)
        register = {"registrations": [{"service": "com.example.S", "id": n} | BODY for n in "ab"]}
        asked = [
            stage.http.post("/v1/bulk/register", json=register),
            stage.http.post("/v1/bulk/renew", json={"leases": {"com.example.S": ["a", "b"]}}),
            stage.http.post("/v1/bulk/deregister", json={"leases": {"com.example.S": ["a", "b"]}}),
        ]
        for answer in await asyncio.gather(*asked):
            assert answer.status_code == 200, answer.text
            found = answer.json()
            assert (found["done"], found["unknown"]) == (0, {})
            assert {service: sorted(ids) for service, ids in found["unanswered"].items()} == {
                "com.example.S": ["a", "b"]
            }
            assert found["reason"]
        answer = await stage.http.put(f"{S}/a/renewal")
        assert (answer.status_code, answer.json()["code"]) == (503, "SR206")

    on_stage(story)


def test_a_bulk_that_is_too_large_is_refused(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        answer = await stage.http.post("/v1/bulk/renew", json={"leases": {"a": ["x"] * 5_001, "b": ["x"] * 5_000}})
        assert (answer.status_code, "10001 ids" in answer.json()["detail"]) == (413, True)
        answer = await stage.http.post("/v1/bulk/renew", content=b" " * (4 * 1024 * 1024 + 1))
        assert answer.status_code == 413
        assert answer.headers["Content-Type"] == "application/problem+json"

    on_stage(story)


def test_a_bad_request_does_not_spoil_those_that_go_in_the_same_message(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        names = [f"i{n}" for n in range(30)]
        put = [stage.http.put(f"{S}/{name}", json=BODY) for name in names]
        assert {answer.status_code for answer in await asyncio.gather(*put)} == {200}
        renew = [stage.http.put(f"{S}/{name}/renewal") for name in [*names[:15], "x" * 513, *names[15:]]]
        statuses = [answer.status_code for answer in await asyncio.gather(*renew)]
        assert statuses == [204] * 15 + [400] + [204] * 15

    on_stage(story)


def test_an_override_is_seen_read_and_cleared(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        await stage.http.put(f"{S}/a", json=BODY)
        path = f"{S}/a/override"
        assert (await stage.http.get(path)).status_code == 404
        index = (await stage.http.get(S)).json()["index"]
        answer = await stage.http.put(path, json={"drain": True, "enabled": False, "note": "new disk"})
        assert answer.status_code == 204
        assert (await stage.http.get(path)).json() == {"drain": True, "enabled": False, "note": "new disk"}
        seen = (await stage.http.get(S, params={"index": index})).json()["instances"][0]
        assert (seen["weight"], seen["enabled"], seen["said"]) == (0, False, {"weight": 100, "enabled": True})
        await stage.http.put(f"{S}/a", json=BODY | {"weight": 50})
        index = (await stage.http.get(S)).json()["index"]
        assert (await stage.http.delete(path)).status_code == 204
        seen = (await stage.http.get(S, params={"index": index})).json()["instances"][0]
        assert (seen["weight"], "said" in seen) == (50, False)
        assert (await stage.http.delete(path)).status_code == 204

    on_stage(story)


def test_an_override_that_changes_nothing_is_refused(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        for body, says in (({}, "changes nothing"), ({"weight": 70_000}, "$.weight"), ({"wait": 1}, "`wait`")):
            answer = await stage.http.put(f"{S}/a/override", json=body)
            assert answer.status_code == 400
            assert says in answer.json()["detail"]

    on_stage(story)


def test_callers_that_go_away_in_the_middle_of_a_body_leave_no_trace_in_the_log(
    on_stage: OnStage, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(stage: Stage) -> None:
        host, _, port = stage.gateway.address.rpartition(":")
        for sent in (b"", b'{"address": "10.', json.dumps(BODY).encode()):
            _, writer = await asyncio.open_connection(host, int(port))
            head = f"PUT {S}/gone HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n"
            writer.write(head.encode() + sent)
            await writer.drain()
            await stage.http.get(S)  # the gateway has read what was sent
            writer.close()
            await writer.wait_closed()
        await stage.http.put(f"{S}/b", json=BODY)
        await until_ids(stage, ["b"])

    on_stage(story)
    assert [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")] == []


def test_only_so_many_forms_of_an_answer_are_kept(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        view = ServiceView(stage.sdk, DataInfo("com.example.S").id, stage.sdk.watch_config(OVERRIDES_KEY))
        await view.ready()
        made: list[int] = []

        def form(number: int) -> int:
            made.append(number)
            return number

        for number in range(MOST_FORMS + 1):
            assert view.once(number, lambda number=number: form(number)) == number  # type: ignore[misc]
        assert view.once(MOST_FORMS, lambda: form(-1)) == MOST_FORMS, "the newest is kept"
        assert view.once(0, lambda: form(-2)) == -2, "the oldest is not"

    on_stage(story)
