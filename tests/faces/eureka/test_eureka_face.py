"""The face of Eureka on a simulated cluster: registration, heartbeats, lists, deltas, overrides, hostile input."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve.errors import ModelError
from slotreeve_client import Health, Instance
from slotreeve_face_eureka.applications import hashcode, registration, shown, status_of
from slotreeve_face_eureka.bodies import instance_of, xml
from slotreeve_face_eureka.changes import RETENTION_SECONDS, RecentChanges, ServiceState, Shown

from tests.faces.gateway_on_trial import ENDED, TTL, GatewayOnTrial, Trial, play
from tests.faces.odd_values import odd_metadata, odd_values

JSON = {"Accept": "application/json"}
GIVEN: dict[str, Any] = {
    "instanceId": "host-1:shop:8080",
    "hostName": "host-1.example",
    "app": "SHOP",
    "ipAddr": "10.0.0.1",
    "status": "UP",
    "port": {"$": 8080, "@enabled": "true"},
    "securePort": {"$": 8443, "@enabled": "false"},
    "vipAddress": "shop",
    "statusPageUrl": "http://host-1.example:8080/info",
    "leaseInfo": {"renewalIntervalInSecs": 2, "durationInSecs": int(TTL)},
    "dataCenterInfo": {"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"},
    "metadata": {"@class": "java.util.Collections$EmptyMap", "zone": "west", "k": "v & <w>"},
}


async def register(gateway: GatewayOnTrial, app: str = "SHOP", **fields: object) -> None:
    answer = await gateway.ask("POST", f"/eureka/apps/{app}", {"instance": GIVEN | {"app": app} | fields})
    assert answer.status == 204, answer


async def apps(gateway: GatewayOnTrial, page: str = "/eureka/apps/") -> dict[str, dict[str, Any]]:
    """Instances by application and id; those in XML are the same."""
    found = (await gateway.get(page, headers=JSON)).json["applications"]
    listed = {app["name"]: {one["instanceId"]: one for one in app["instance"]} for app in found["application"]}
    statuses = [one["status"] for app in listed.values() for one in app.values()]
    assert found["apps__hashcode"] == hashcode(Counter(statuses))
    root = ElementTree.fromstring((await gateway.get(page)).body)
    assert root.findtext("apps__hashcode") == found["apps__hashcode"]
    assert {
        app.findtext("name"): {one.findtext("instanceId"): one.findtext("status") for one in app.findall("instance")}
        for app in root.findall("application")
    } == {name: {key: one["status"] for key, one in app.items()} for name, app in listed.items()}
    return listed


@pytest.mark.parametrize("form", ["json", "xml"])
def test_an_instance_is_registered_renewed_through_any_gateway_and_ends_when_nobody_renews_it(form: str) -> None:
    async def scenario(trial: Trial) -> None:
        first, second = await trial.gateway(), await trial.gateway()
        one = "/eureka/apps/SHOP/host-1:shop:8080"
        assert (await second.put(f"{one}?status=UP&lastDirtyTimestamp=1")).status == 404
        body = json.dumps({"instance": GIVEN}).encode() if form == "json" else xml("instance", GIVEN).encode()
        posted = await first.ask("POST", "/eureka/apps/SHOP", body, {"Content-Type": f"application/{form}"})
        assert (posted.status, posted.body) == (204, b"")
        for number in range(4):
            assert (await [first, second][number % 2].put(f"{one}?status=UP&lastDirtyTimestamp=1")).status == 200
            await asyncio.sleep(TTL / 2)
            for gateway in (first, second):
                [(name, found)] = (await apps(gateway)).items()
                assert (name, list(found)) == ("SHOP", ["host-1:shop:8080"])
        shown_one = found["host-1:shop:8080"]
        for field in ("hostName", "ipAddr", "status", "port", "securePort", "vipAddress", "statusPageUrl"):
            wanted = {"$": 443, "@enabled": "false"} if field == "securePort" else GIVEN[field]
            assert shown_one[field] == wanted, field
        assert shown_one["metadata"] == {"zone": "west", "k": "v & <w>"}
        assert shown_one["leaseInfo"]["durationInSecs"] == TTL
        await asyncio.sleep(ENDED)
        assert await apps(second) == {}
        assert (await second.put(one)).status == 404

    play(scenario)


@pytest.mark.parametrize("form", ["json", "xml"])
def test_metadata_of_any_kind_is_registered_as_text(form: str) -> None:
    given = {"n": 1, "f": 1.5, "b": True, "no": False, "null": None, "l": [1, "x"], "o": {"a": {"b": None}}, "t": "t"}
    told = {"n": "1", "f": "1.5", "b": "true", "no": "false", "null": "", "l": '[1,"x"]', "o": '{"a":{"b":null}}'}
    if form == "xml":
        del given["l"], told["l"]
        told["o"] = '{"a":{"b":"None"}}'

    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        body = {"metadata": given, "port": {"$": 8080.0, "@enabled": True}, "leaseInfo": {"durationInSecs": 90.0}}
        whole: dict[str, Any] = GIVEN | body
        if form == "xml":
            whole |= {"port": {"$": 8080, "@enabled": True}, "leaseInfo": {"durationInSecs": 90}}
            xml_body = xml("instance", whole | {"metadata": {k: "" if v is None else v for k, v in given.items()}})
            answer = await gateway.ask("POST", "/eureka/apps/SHOP", xml_body.encode(), {"Content-Type": "text/xml"})
        else:
            answer = await gateway.ask("POST", "/eureka/apps/SHOP", {"instance": whole})
        assert answer.status == 204, answer
        found = (await apps(gateway, "/eureka/apps/"))["SHOP"]["host-1:shop:8080"]
        assert found["metadata"] == told | {"t": "t", "zone": "east"}
        assert (found["port"]["$"], found["leaseInfo"]["durationInSecs"]) == (8080, 90)

    play(scenario)


def test_the_registration_that_was_said_last_holds_whichever_comes_last() -> None:
    one = "/eureka/apps/SHOP/host-1:shop:8080"

    async def scenario(trial: Trial) -> None:
        gateway, other = await trial.gateway(), await trial.gateway()

        async def status() -> tuple[str, str]:
            found = (await gateway.get(one, headers=JSON)).json["instance"]
            return found["status"], found["lastDirtyTimestamp"]

        await register(gateway, status="STARTING", lastDirtyTimestamp=1_000)
        await register(gateway, status="UP", lastDirtyTimestamp="2000")
        await register(gateway, status="STARTING", lastDirtyTimestamp="1000")
        await register(other, status="STARTING", lastDirtyTimestamp="1000")
        assert await status() == ("UP", "2000")
        late = (register(gateway, status=status, lastDirtyTimestamp=at) for status, at in (("UP", 9), ("DOWN", 3_000)))
        await asyncio.gather(*late)
        assert await status() == ("DOWN", "3000")
        for gateway_of_renewal in (gateway, other):
            for dirty, answered in (("", 200), ("2000", 200), ("3000", 200), ("3001", 404), ("soon", 200)):
                path = f"{one}?status=UP&lastDirtyTimestamp={dirty}"
                assert (await gateway_of_renewal.put(path)).status == answered, dirty
        await register(gateway, status="UP", lastDirtyTimestamp="3001")
        assert (await gateway.put(f"{one}?lastDirtyTimestamp=3001")).status == 200
        await register(gateway, status="STARTING")
        assert await status() == ("STARTING", "0"), "whoever says no time is believed"

    play(scenario)


def test_what_was_cancelled_is_not_taken_for_registered_although_a_gateway_sees_it_yet() -> None:
    one = "/eureka/apps/SHOP/host-1:shop:8080"

    async def scenario(trial: Trial) -> None:
        gateway, other = await trial.gateway(), await trial.gateway()
        for here, there in ((gateway, gateway), (gateway, other)):
            await register(here, lastDirtyTimestamp=2_000)
            assert (await there.get(one, headers=JSON)).status == 200
            assert (await here.ask("DELETE", one)).status == 200
            await register(there, lastDirtyTimestamp=1_000)
            assert (await there.put(one)).status == 200
            await asyncio.sleep(1)
            assert (await here.ask("DELETE", one)).status == 200
            assert (await there.put(f"{one}/metadata?a=b")).status == 404
            await asyncio.sleep(1)
            assert (await there.get(one, headers=JSON)).status == 404

    play(scenario)


def test_of_two_instances_with_one_id_one_is_shown_and_counted() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        instance = Instance("10.0.0.1", 80)
        await trial.cluster.client().register("SHOP", instance).acknowledged()
        await gateway.registry.register("SHOP", instance)
        await asyncio.sleep(1)
        assert len((await gateway.registry.view("SHOP")).instances) == 2
        for page in ("/eureka/apps/", "/eureka/apps/delta"):
            assert [list(app) for app in (await apps(gateway, page)).values()] == [[instance.id]]

    play(scenario)


@pytest.mark.parametrize("field", ["vip", "secureVip"])
def test_an_instance_is_found_under_each_of_its_virtual_addresses(field: str) -> None:
    page = {"vip": "vips", "secureVip": "svips"}[field]

    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        await register(gateway, **{f"{field}Address": "a, B.example,c"})
        await register(gateway, "OTHER", instanceId="o", **{f"{field}Address": "b"})
        await asyncio.sleep(1.5)
        for name, found in (("a", "SHOP"), ("b.example", "SHOP"), ("c", "SHOP"), ("b", "OTHER"), ("a,c", "")):
            assert set(await apps(gateway, f"/eureka/{page}/{name}")) == ({found} if found else set()), name

    play(scenario)


def test_metadata_is_changed_by_a_request_of_its_own_and_the_rest_stays() -> None:
    one = "/eureka/apps/SHOP/host-1:shop:8080"

    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        await register(gateway)
        before = (await gateway.get(one, headers=JSON)).json["instance"]
        assert (await gateway.put(f"{one}/metadata?k=2&new=a%20b&eureka-vip=x")).status == 200
        after = (await gateway.get(one, headers=JSON)).json["instance"]
        assert after["metadata"] == {"zone": "west", "k": "2", "new": "a b"}
        assert after | {"metadata": ""} == before | {"metadata": ""}
        assert (await gateway.put("/eureka/apps/SHOP/nobody/metadata?k=2")).status == 404
        assert (await gateway.put(f"{one}/metadata?k={'v' * 2_000}")).status == 400
        await gateway.registry.register("shop", Instance("10.0.0.5", id="other"), TTL)
        await asyncio.sleep(0.1)
        assert (await gateway.put("/eureka/apps/SHOP/other/metadata?k=2")).status == 400
        found = (await gateway.get("/eureka/instances/host-1:shop:8080", headers=JSON)).json["instance"]
        assert found == after
        assert (await gateway.get("/eureka/instances/nobody")).status == 404
        await asyncio.sleep(ENDED)
        assert (await gateway.get(one)).status == 404, "its time to live is the same"

    play(scenario)


async def delta(gateway: GatewayOnTrial) -> list[tuple[str, str]]:
    """What happened to which instance, in this order; XML says the same."""
    found = (await gateway.get("/eureka/apps/delta", headers=JSON)).json["applications"]
    listed = [(one["actionType"], one["instanceId"]) for app in found["application"] for one in app["instance"]]
    root = ElementTree.fromstring((await gateway.get("/eureka/apps/delta")).body)
    assert [(i.findtext("actionType"), i.findtext("instanceId")) for i in root.iter("instance")] == listed
    whole = (await gateway.get("/eureka/apps", headers=JSON)).json["applications"]
    assert (found["apps__hashcode"], found["versions__delta"]) == (whole["apps__hashcode"], whole["versions__delta"])
    return listed


def test_a_delta_is_what_has_changed_lately_with_the_hash_code_of_the_whole() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()

        async def goes_on(seconds: float) -> None:
            for _ in range(int(seconds / 30)):
                for name in ("a", "b", "c"):
                    await gateway.put(f"/eureka/apps/SHOP/{name}")
                await asyncio.sleep(30)
                await delta(gateway)

        lease: dict[str, Any] = {"leaseInfo": {"durationInSecs": 60}}
        for name in ("a", "b"):
            await register(gateway, instanceId=name, **lease)
        await asyncio.sleep(1.5)
        assert await delta(gateway) == [("ADDED", "a"), ("ADDED", "b")], "a gateway that begins tells the whole"
        await goes_on(RETENTION_SECONDS + 30)
        assert await delta(gateway) == []
        await register(gateway, instanceId="a", status="DOWN", **lease)
        await register(gateway, instanceId="c", **lease)
        await gateway.ask("DELETE", "/eureka/apps/SHOP/b")
        await asyncio.sleep(1.5)
        assert await delta(gateway) == [("DELETED", "b"), ("MODIFIED", "a"), ("ADDED", "c")]
        await register(gateway, instanceId="c", status="DOWN", **lease)
        assert await delta(gateway) == [("DELETED", "b"), ("MODIFIED", "a"), ("MODIFIED", "c")], "each one once"
        for name in ("a", "c"):
            await gateway.ask("DELETE", f"/eureka/apps/SHOP/{name}")
        await asyncio.sleep(1.5)
        assert sorted(await delta(gateway)) == [("DELETED", "a"), ("DELETED", "b"), ("DELETED", "c")]
        await goes_on(RETENTION_SECONDS + 30)
        assert await delta(gateway) == []

    play(scenario)


operations = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "y"]), st.integers(0, 3)), max_size=30)


@given(operations, st.lists(st.booleans(), min_size=30, max_size=30))
def test_whoever_takes_every_delta_has_what_is_there_and_whoever_does_not_finds_another_hash_code(
    steps: list[tuple[str, str, int]], asks: list[bool]
) -> None:
    changes, there, now, index = RecentChanges(), dict[str, dict[str, Shown]](), 0.0, 0
    copy: dict[tuple[str, str], Shown] = {}
    for (service, name, value), asked in zip(steps, asks, strict=False):
        now, index = now + 29, index + 1
        of_service = there.setdefault(service, {})
        if value:
            of_service[name] = {"instanceId": name, "value": value}
        else:
            of_service.pop(name, None)
        listed = {key: found for key, found in there.items() if found}
        if asked:
            states = [ServiceState(key, index, list(found.values())) for key, found in listed.items()]
            changes.take(now, states, listed)
            for key, found in changes.of(changes.services):
                for one in found:
                    if one["actionType"] == "DELETED":
                        copy.pop((key, str(one["instanceId"])), None)
                    else:
                        copy[key, str(one["instanceId"])] = {k: v for k, v in one.items() if k != "actionType"}
            if all(asks[:index]):
                assert copy == {(key, name): one for key, found in listed.items() for name, one in found.items()}


def test_a_method_that_a_path_does_not_take_is_told_which_it_takes() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        for path, allowed in (
            ("/eureka/apps/SHOP/i", {"GET", "HEAD", "PUT", "DELETE"}),
            ("/eureka/apps/SHOP", {"GET", "HEAD", "POST"}),
            ("/v1/agent/service/register", {"PUT"}),
            ("/v1/health/service/web", {"GET"}),
        ):
            refused = await gateway.ask("PATCH", path)
            assert refused.status == 405
            assert set(refused.headers["allow"].split(", ")) == allowed

    play(scenario)


def test_single_applications_and_instances_are_shown_and_cancelled() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        await register(gateway)
        await register(gateway, "API", instanceId="a", vipAddress="front", ipAddr="10.0.0.2")
        await asyncio.sleep(1.5)
        assert set(await apps(gateway)) == {"SHOP", "API"}
        assert set(await apps(gateway, "/eureka/v2/apps/delta")) == {"SHOP", "API"}
        assert set(await apps(gateway, "/eureka/vips/front")) == {"API"}
        assert set(await apps(gateway, "/eureka/vips/nobody")) == set()
        found = (await gateway.get("/eureka/apps/shop", headers=JSON)).json["application"]
        assert [one["ipAddr"] for one in found["instance"]] == ["10.0.0.1"]
        assert (await gateway.get("/eureka/apps/API/a", headers=JSON)).json["instance"]["ipAddr"] == "10.0.0.2"
        for missing in ("/eureka/apps/NOBODY", "/eureka/apps/API/b", "/eureka/nothing"):
            assert (await gateway.get(missing)).status == 404
        assert (await gateway.ask("DELETE", "/eureka/apps/API/a")).status == 200
        assert (await gateway.ask("DELETE", "/eureka/apps/API/a")).status == 404
        await asyncio.sleep(1.5)
        assert set(await apps(gateway)) == {"SHOP"}

    play(scenario)


def test_a_delta_has_another_version_after_every_change_also_where_the_hash_code_is_the_same() -> None:
    async def scenario(trial: Trial) -> None:
        gateway, seen = await trial.gateway(), []
        await register(gateway, instanceId="a")
        for before, after in (("a", "b"), ("b", "c")):
            await asyncio.sleep(1.5)
            seen.append((await gateway.get("/eureka/apps/delta", headers=JSON)).json["applications"])
            await register(gateway, instanceId=after)
            await gateway.ask("DELETE", f"/eureka/apps/SHOP/{before}")
        await asyncio.sleep(1.5)
        again = (await gateway.get("/eureka/apps/", headers=JSON)).json["applications"]
        assert len({one["versions__delta"] for one in (*seen, again)}) == 3
        assert {one["apps__hashcode"] for one in (*seen, again)} == {"UP_1_"}

    play(scenario)


def test_a_status_override_holds_over_registrations_until_it_is_deleted() -> None:
    async def scenario(trial: Trial) -> None:
        gateway, other = await trial.gateway(), await trial.gateway()
        await register(gateway)
        one = "/eureka/apps/SHOP/host-1:shop:8080"
        assert (await gateway.put(f"{one}/status?value=BROKEN")).status == 400
        assert (await gateway.put("/eureka/apps/SHOP/nobody/status?value=DOWN")).status == 404

        async def status(wanted: tuple[str, str]) -> None:
            for _ in range(50):
                found = (await other.get(one, headers=JSON)).json["instance"]
                if (found["status"], found["overriddenstatus"]) == wanted:
                    return
                await asyncio.sleep(0.1)
            raise AssertionError(f"{found['status']}, {found['overriddenstatus']}")

        await status(("UP", "UNKNOWN"))
        assert (await gateway.put(f"{one}/status?value=OUT_OF_SERVICE&lastDirtyTimestamp=1")).status == 200
        await status(("OUT_OF_SERVICE", "OUT_OF_SERVICE"))
        await register(gateway)
        await status(("OUT_OF_SERVICE", "OUT_OF_SERVICE"))
        assert (await gateway.ask("DELETE", f"{one}/status")).status == 200
        await status(("UP", "UNKNOWN"))

    play(scenario)


@pytest.mark.parametrize("cancels", ["the same gateway", "another gateway", "a new gateway"])
def test_a_status_override_ends_with_its_instance_and_that_of_an_operator_stays(cancels: str) -> None:
    async def scenario(trial: Trial) -> None:
        gateway = other = await trial.gateway()
        if cancels == "another gateway":
            other = await trial.gateway()
            await other.get("/eureka/apps/SHOP", headers=JSON)
        for number in ("1", "2"):
            await register(gateway, instanceId=number)
            assert (await gateway.put(f"/eureka/apps/SHOP/{number}/status?value=OUT_OF_SERVICE")).status == 200
        await gateway.start_face("rest")
        by_an_operator = {"enabled": False, "note": "it is broken"}
        assert (await gateway.put("/v1/services/shop/instances/2/override", by_an_operator)).status == 204
        await asyncio.sleep(0.5)
        if cancels == "a new gateway":
            other = await trial.gateway()
        for number in ("1", "2"):
            assert (await other.ask("DELETE", f"/eureka/apps/SHOP/{number}")).status == 200
            await register(gateway, instanceId=number)
        await asyncio.sleep(0.5)
        found = (await gateway.get("/eureka/apps/SHOP", headers=JSON)).json["application"]["instance"]
        statuses = {one["instanceId"]: one["status"] for one in found}
        assert statuses == {"1": "UP", "2": "OUT_OF_SERVICE"}

    play(scenario)


def test_a_status_override_can_be_ended_when_its_instance_has_gone() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        await register(gateway, leaseInfo={"durationInSecs": 1})
        one = "/eureka/apps/SHOP/host-1:shop:8080/status"
        assert (await gateway.put(f"{one}?value=OUT_OF_SERVICE")).status == 200
        await asyncio.sleep(10.0)
        assert (await gateway.get("/eureka/apps/SHOP", headers=JSON)).status == 404
        assert (await gateway.ask("DELETE", one)).status == 200
        assert (await gateway.ask("DELETE", one)).status == 404
        await register(gateway)
        await asyncio.sleep(0.5)
        found = (await gateway.get("/eureka/apps/SHOP", headers=JSON)).json["application"]["instance"]
        assert [one["status"] for one in found] == ["UP"]

    play(scenario)


def test_an_id_and_an_application_with_a_slash_are_reached_by_the_encoded_path() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        said = GIVEN | {"app": "SHOP/A B", "instanceId": "host:shop/8080 %2F"}
        assert (await gateway.ask("POST", "/eureka/apps/SHOP%2Fa%20b", {"instance": said})).status == 204
        one = "/eureka/apps/SHOP%2Fa%20b/host%3Ashop%2F8080%20%252F"
        found = (await gateway.get(one, headers=JSON)).json["instance"]
        assert (found["app"], found["instanceId"]) == ("SHOP/A B", "host:shop/8080 %2F")
        assert (await gateway.put(one)).status == 200
        assert (await gateway.ask("DELETE", one)).status == 200
        await asyncio.sleep(0.5)
        assert (await gateway.get(one, headers=JSON)).status == 404

    play(scenario)


def test_the_faces_and_the_sdk_see_each_others_instances() -> None:
    async def scenario(trial: Trial) -> None:
        gateway, client = await trial.gateway(), trial.cluster.client()
        await register(gateway, status="STARTING")
        await gateway.register("web", "web-1", Meta={"x": "y"})
        strange = {"@a='1'><evil/": "1", "$": "x", "no name": "x", "eureka-duration": "x", "eureka-secure-port": "-"}
        said = Instance("api.example", 443, "https", zone="east", metadata=strange | {"c": "\x00<&"}, id="i")
        await client.register("com.example.Api", said).acknowledged()
        await asyncio.sleep(1.5)
        assert await gateway.statuses("shop") == {"host-1:shop:8080": "critical"}
        found = await apps(gateway)
        assert found["SHOP"]["host-1:shop:8080"]["status"] == "STARTING"
        assert (found["WEB"]["web-1"]["status"], found["WEB"]["web-1"]["vipAddress"]) == ("DOWN", "web")
        api = found["COM.EXAMPLE.API"]["i"]
        assert (api["hostName"], api["ipAddr"]) == ("api.example", "")
        assert api["securePort"] == {"$": 443, "@enabled": "true"}
        assert api["leaseInfo"]["durationInSecs"] == 90
        answer = await gateway.get("/eureka/apps/COM.EXAMPLE.API")
        assert (answer.status, b"evil" in answer.body) == (200, False)

    play(scenario)


ENTITIES = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
BOMB = ENTITIES + b"<instance><ipAddr>&b;</ipAddr></instance>"
BAD: list[tuple[str, bytes]] = [
    ("xml", BOMB),
    ("xml", BOMB.decode().encode("utf-16")),
    ("xml", b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><instance><ipAddr>&a;</ipAddr></instance>'),
    ("xml", b"<a>" * 50_000),
    ("xml", b"<instance>" + b"<a>" * 500 + b"</a>" * 500 + b"</instance>"),
    ("xml", b"<other/>"),
    ("xml", b"<instance/>"),
    ("xml", b""),
    ("json", b""),
    ("json", b"[" * 100_000),
    ("json", b'{"instance":' * 50_000),
    ("json", b'{"instance": 5}'),
    ("json", b"{}"),
    ("json", b'{"instance":{"ipAddr":"' + b"1" * 300_000 + b'"}}'),
]
WRONG: list[dict[str, Any]] = [
    {"ipAddr": "no address", "hostName": ""},
    {"ipAddr": 5},
    {"ipAddr": "", "hostName": ""},
    {"port": {"$": "x"}},
    {"port": {"$": 2**70}},
    {"port": {"$": -1}},
    {"port": []},
    {"status": "FINE"},
    {"instanceId": "i" * 100_000},
    {"instanceId": "a\nb"},
    {"metadata": [1]},
    {"metadata": {str(number): "x" for number in range(70)}},
    {"leaseInfo": 5},
    {"leaseInfo": {"durationInSecs": "soon"}},
    {"leaseInfo": {"durationInSecs": -1}},
]


def test_what_is_wrong_or_hostile_is_refused_and_the_face_goes_on() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        for form, body in [*BAD, *(("json", json.dumps({"instance": GIVEN | wrong}).encode()) for wrong in WRONG)]:
            answer = await gateway.ask("POST", "/eureka/apps/SHOP", body, {"Content-Type": f"application/{form}"})
            assert answer.status in (400, 413), (body[:100], answer)
            assert len(answer.body) > 10
            assert b"ENTITY" not in body or b"declarations" in answer.body
        for method, path, status in [
            ("PUT", "/eureka/apps/SHOP/" + "i" * 600, 400),
            ("DELETE", "/eureka/apps/SHOP/" + "i" * 600, 400),
            ("PUT", "/eureka/apps/" + "a" * 3000 + "/i", 400),
            ("GET", "/eureka/apps/a#@#b", 400),
            ("POST", "/eureka/apps/%20", 400),
            ("PATCH", "/eureka/apps/SHOP", 405),
        ]:
            assert (await gateway.ask(method, path)).status == status, path[:60]
        await register(gateway)
        await asyncio.sleep(1.5)
        assert set(await apps(gateway)) == {"SHOP"}

    play(scenario)


def test_rights_are_asked_for_and_a_password_is_a_token() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway(checked=True)
        writer = {"Authorization": "Basic ZXVyZWthOndyaXRlcg=="} | JSON
        reader = {"Authorization": "Bearer reader"} | JSON
        body = {"instance": GIVEN}
        nobody = await gateway.ask("POST", "/eureka/apps/OPEN", body)
        assert (nobody.status, nobody.headers["www-authenticate"]) == (401, 'Basic realm="eureka"')
        assert (await gateway.ask("POST", "/eureka/apps/OPEN", body, reader)).status == 403
        assert (await gateway.ask("POST", "/eureka/apps/SHOP", body, writer)).status == 403
        assert (await gateway.ask("POST", "/eureka/apps/OPEN", body, writer)).status == 204
        one = "/eureka/apps/OPEN/host-1:shop:8080"
        assert (await gateway.put(one, headers=reader)).status == 403
        assert (await gateway.put(one, headers=writer)).status == 200
        assert (await gateway.put(f"{one}/status?value=DOWN", headers=writer)).status == 403
        await asyncio.sleep(1.5)
        assert (await gateway.get(one, headers=reader)).status == 200
        assert (await gateway.get("/eureka/apps/SHOP", headers=reader)).status == 403
        assert len((await gateway.get("/eureka/apps", headers=reader)).json["applications"]["application"]) == 1

    play(scenario)


texts = st.text(max_size=20)
fields_of_instances = st.sampled_from([*GIVEN, "x", "lastDirtyTimestamp", "secureVipAddress"])
values = texts | odd_values


@given(st.dictionaries(fields_of_instances, values, max_size=6))
@settings(max_examples=300)
def test_any_instance_is_registered_and_shown_or_refused_in_words(fields: dict[str, object]) -> None:
    try:
        found = registration("Shop", instance_of(json.dumps({"instance": GIVEN | fields}).encode(), False), "", "G")
    except ModelError:
        return
    seen = shown("shop", found.instance, found.instance)
    assert seen["status"] == status_of(found.instance) == (fields.get("status") or "UP")
    ElementTree.fromstring(xml("instance", seen))
    again = registration("shop", {**seen, "metadata": seen["metadata"]}, "", "G")
    assert again.instance.endpoint == found.instance.endpoint


@given(odd_metadata)
def test_any_metadata_is_text_or_refused_in_words(metadata: dict[str, object]) -> None:
    body = json.dumps({"instance": GIVEN | {"metadata": metadata}}).encode()
    try:
        found = registration("Shop", instance_of(body, False), "", "G").instance
    except ModelError:
        # Scalars and what is in them are never the reason, unless the text is too long, or no text in UTF-8.
        assert len(metadata) > 60 or any(not fits(key, value) for key, value in metadata.items())
        return
    assert all(key in found.metadata for key in metadata if not key.startswith(("@", "eureka-")))
    ElementTree.fromstring(xml("instance", shown("shop", found, found)))


def fits(key: str, value: object) -> bool:
    text = json.dumps([key, value])
    control = any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in key)
    return not control and 0 < len(key) <= 128 and len(text) < 900 and "\\ud" not in text and "e+" not in text


@given(st.dictionaries(texts, texts | st.dictionaries(texts, texts)))
def test_whatever_is_shown_is_good_xml(value: dict[str, object]) -> None:
    assert ElementTree.fromstring(xml("a", value)).tag == "a"


def test_the_hash_code_counts_the_statuses_in_their_order() -> None:
    assert hashcode(Counter(["UP", "DOWN", "UP"])) == "DOWN_1_UP_2_"
    assert hashcode({}) == ""
    assert status_of(Instance("a.example", health=Health.WARNING)) == "UP"
    assert re.fullmatch("(UP|DOWN)_1_", hashcode({"DOWN": 1}))
