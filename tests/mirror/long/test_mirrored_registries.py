"""Registries of others, as our own faces speak their languages, and as Nacos answers: equal within a second."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any
from urllib.parse import unquote

import httpx
import msgspec
import pytest
from slotreeve.clock import LoopClock
from slotreeve.errors import RequestError, Unreachable
from slotreeve.model.data_info import DEFAULT_GROUP
from slotreeve_client import Health, Instance
from slotreeve_mirror.consul import MOST_WAITING, ConsulSource
from slotreeve_mirror.eureka import EurekaSource
from slotreeve_mirror.following import TURN_SECONDS
from slotreeve_mirror.mirror import HELD_SECONDS, MARK, Seen
from slotreeve_mirror.nacos import NacosSource
from slotreeve_mirror.source import MirrorSource, Narrowed, SourcePages, first_of
from slotreeve_protocol.envelope import encode_instance

from tests.faces.stage import Stage, run_story
from tests.mirror.stage import mirrored, mirroring, second_registry

SOON = 5.0
"""A generous multiple of the second in which it should be."""


def eureka(pages: SourcePages) -> MirrorSource:
    return EurekaSource(pages, LoopClock(), DEFAULT_GROUP, 0.2)


def consul(pages: SourcePages) -> MirrorSource:
    return ConsulSource(pages, LoopClock(), DEFAULT_GROUP)


def nacos(pages: SourcePages) -> MirrorSource:
    return NacosSource(pages, LoopClock(), DEFAULT_GROUP, 0.2, {})


async def eureka_put(http: httpx.AsyncClient, number: int, status: str = "UP") -> None:
    instance = {
        "app": "SHOP",
        "instanceId": f"shop-{number}",
        "hostName": f"host-{number}",
        "ipAddr": f"10.0.0.{number}",
        "port": {"$": 8080, "@enabled": "true"},
        "status": status,
        "metadata": {"version": "7"},
        "dataCenterInfo": {"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"},
    }
    (await http.post("/eureka/apps/SHOP", json={"instance": instance})).raise_for_status()


async def consul_put(http: httpx.AsyncClient, number: int) -> None:
    body = {
        "Name": "shop",
        "ID": f"shop-{number}",
        "Address": f"10.0.0.{number}",
        "Port": 8080,
        "Tags": ["blue"],
        "Meta": {"version": "7"},
        "Check": {"TTL": "60s", "Status": "passing"},
    }
    (await http.put("/v1/agent/service/register", json=body)).raise_for_status()


async def eureka_delete(http: httpx.AsyncClient, number: int) -> None:
    (await http.delete(f"/eureka/apps/SHOP/shop-{number}")).raise_for_status()


async def consul_delete(http: httpx.AsyncClient, number: int) -> None:
    (await http.put(f"/v1/agent/service/deregister/shop-{number}")).raise_for_status()


async def eureka_down(http: httpx.AsyncClient, number: int) -> None:
    await eureka_put(http, number, "DOWN")


async def consul_down(http: httpx.AsyncClient, number: int) -> None:
    (await http.put(f"/v1/agent/check/fail/service:shop-{number}")).raise_for_status()


LANGUAGES = {
    "eureka": (eureka, "/eureka", eureka_put, eureka_delete, eureka_down),
    "consul": (consul, "", consul_put, consul_delete, consul_down),
}


@pytest.mark.parametrize("face", LANGUAGES)
def test_what_comes_changes_and_goes_there_does_so_here(face: str) -> None:
    made, path, put, delete, down = LANGUAGES[face]

    async def story(stage: Stage) -> None:
        await put(stage.http, 1)
        async with mirrored(made, stage.url + path) as here:
            await here.until("shop", lambda found: found.keys() == {"shop-1"})
            await put(stage.http, 2)
            assert await here.until("shop", lambda found: found.keys() == {"shop-1", "shop-2"}) < SOON
            one = (await here.instances("shop"))["shop-2"]
            assert (one.address, one.port, one.metadata["version"]) == ("10.0.0.2", 8080, "7")
            assert one.metadata[MARK] == stage.url + path
            await down(stage.http, 1)
            assert await here.until("shop", lambda found: found["shop-1"].health is Health.CRITICAL) < SOON
            await delete(stage.http, 1)
            assert await here.until("shop", lambda found: found.keys() == {"shop-2"}) < SOON
            await delete(stage.http, 2)
            assert await here.until("shop", lambda found: not found) < SOON
            await put(stage.http, 3)
            assert await here.until("shop", lambda found: found.keys() == {"shop-3"}) < SOON

    run_story(story, faces=face)


@pytest.mark.parametrize("face", LANGUAGES)
def test_an_application_that_moves_takes_its_lease_over_and_is_left_alone(face: str) -> None:
    made, path, put, delete, _ = LANGUAGES[face]

    async def story(stage: Stage) -> None:
        await put(stage.http, 1)
        await put(stage.http, 2)
        async with mirrored(made, stage.url + path) as here:
            await here.until("shop", lambda found: found.keys() == {"shop-1", "shop-2"})
            moved = (await here.instances("shop"))["shop-1"]
            plain = {key: value for key, value in moved.metadata.items() if key != MARK}
            itself = encode_instance(msgspec.structs.replace(moved, metadata=plain))
            await here.client.leases.register("shop", "shop-1", itself, ttl_seconds=60)
            await delete(stage.http, 1)
            await delete(stage.http, 2)
            await here.until("shop", lambda found: found.keys() == {"shop-1"})
            await here.until_said("1 ended")
            assert MARK not in (await here.instances("shop"))["shop-1"].metadata

    run_story(story, faces=face)


class Nacos:
    """Answers as Nacos 2 documents them for its open API."""

    def __init__(self) -> None:
        self.services: dict[str, list[dict[str, Any]]] = {}
        self.is_up = True

    def add(self, service: str, number: int, **fields: object) -> None:
        host = {
            "instanceId": f"10.0.0.{number}#8080#DEFAULT#DEFAULT_GROUP@@{service}",
            "ip": f"10.0.0.{number}",
            "port": 8080,
            "weight": 1.0,
            "healthy": True,
            "enabled": True,
            "ephemeral": True,
            "clusterName": "DEFAULT",
            "serviceName": f"DEFAULT_GROUP@@{service}",
            "metadata": {"version": "7"},
        }
        self.services.setdefault(service, []).append({**host, **fields})

    def __call__(self, request: httpx.Request) -> httpx.Response:
        asked = request.url.params
        if not self.is_up:
            return httpx.Response(503, text="server is DOWN now")
        if request.url.path == "/nacos/v1/ns/service/list":
            number, size = int(asked["pageNo"]), int(asked["pageSize"])
            names = sorted(self.services)[(number - 1) * size : number * size]
            return httpx.Response(200, json={"count": len(self.services), "doms": names})
        assert request.url.path == "/nacos/v1/ns/instance/list"
        name = asked["serviceName"]
        hosts = self.services.get(name, [])
        return httpx.Response(200, json={"name": f"DEFAULT_GROUP@@{name}", "hosts": hosts, "valid": True})


def test_the_services_of_a_nacos_come_change_and_go_and_stay_while_it_is_down() -> None:
    async def story(_: Stage) -> None:
        there = Nacos()
        for number in range(600):
            there.add(f"other-{number}", 9)
        there.add("shop", 1)
        transport = httpx.MockTransport(there)
        async with mirrored(nacos, "http://nacos:8848/nacos", transport) as here:
            await here.until("shop", lambda found: found.keys() == {"10.0.0.1:8080"}, 30.0)
            await here.until_listed(601)
            there.add("shop", 2, weight=0.5, healthy=False)
            await here.until("shop", lambda found: found.keys() == {"10.0.0.1:8080", "10.0.0.2:8080"})
            second = (await here.instances("shop"))["10.0.0.2:8080"]
            assert (second.weight, second.health, second.metadata["version"]) == (50, Health.CRITICAL, "7")
            there.is_up = False
            await here.until_said("503")
            assert len(await here.instances("shop")) == 2
            del there.services["shop"]
            there.is_up = True
            await here.until("shop", lambda found: not found)

    run_story(story, faces="rest")


class Consul:
    """Answers as Consul documents its catalog. Without an index, if ``index`` is 0."""

    def __init__(self, *names: str) -> None:
        self.names, self.index, self.asked = names, 7, list[str]()
        self.trouble: httpx.Response | None = None
        self.bad = "nothing"
        self.defect: Exception | None = None

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode().partition("?")[0]
        self.asked.append(path)
        headers = {"X-Consul-Index": str(self.index)} if self.index else {}
        if self.trouble is not None or path.endswith(f"/{self.bad}"):
            return httpx.Response(self.trouble.status_code if self.trouble else 500, text="Too many requests")
        if path == "/v1/catalog/services":
            return httpx.Response(200, json={name: [] for name in self.names}, headers=headers)
        if self.defect is not None:
            raise self.defect
        name = unquote(path.removeprefix("/v1/health/service/"))
        service = {"ID": f"{name}-1", "Service": name, "Address": "10.0.0.1", "Port": 80}
        return httpx.Response(200, json=[{"Service": service, "Checks": []}], headers=headers)


def test_a_service_of_consul_may_have_any_name() -> None:
    there = Consul("a b", "a/b", "a?b", "ä")
    pages = SourcePages("http://there", transport=httpx.MockTransport(there))

    async def run() -> Seen:
        return (await first_of(consul(pages))).instances

    found = asyncio.run(run())
    assert {place.lease_id for place in found} == {"a b-1", "a/b-1", "a?b-1", "ä-1"}
    assert "/v1/health/service/a%2Fb" in there.asked


def test_the_worst_check_counts_and_a_weight_that_consul_shows_of_everybody_is_ours_of_everybody() -> None:
    entries = [
        {
            "Service": {
                "ID": name,
                "Service": "shop",
                "Address": "10.0.0.1",
                "Port": 80,
                "Weights": {"Passing": weight},
            },
            "Checks": [{"Status": status} for status in statuses],
        }
        for name, weight, statuses in (
            ("a", 1, ["passing"]),
            ("b", 7, ["passing", "critical", "warning"]),
            ("c", 1, ["warning", "passing"]),
        )
    ]

    def answer(request: httpx.Request) -> httpx.Response:
        listed = request.url.path == "/v1/catalog/services"
        return httpx.Response(
            200, json={"shop": [], "consul": []} if listed else entries, headers={"X-Consul-Index": "7"}
        )

    async def run() -> Seen:
        return (await first_of(consul(SourcePages("http://there", transport=httpx.MockTransport(answer))))).instances

    found = {place.lease_id: (one.weight, one.health) for place, one in asyncio.run(run()).items()}
    assert found == {"a": (100, Health.PASSING), "b": (7, Health.CRITICAL), "c": (100, Health.WARNING)}


def test_what_eureka_says_of_changes_is_enough_as_long_as_its_hash_fits() -> None:
    one: dict[str, object] = {
        "instanceId": "a",
        "ipAddr": "10.0.0.1",
        "port": {"$": 80, "@enabled": "true"},
        "status": "UP",
    }
    other: dict[str, object] = {**one, "instanceId": "b"}
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        instances: list[dict[str, object]] = [one, other]
        if request.url.path.endswith("delta"):
            instances = [{**other, "actionType": "DELETED"}]
        application = {"name": "SHOP", "instance": instances}
        whole = {
            "apps__hashcode": "UP_1_" if request.url.path.endswith("delta") else "UP_2_",
            "application": application,
        }
        return httpx.Response(200, json={"applications": whole})

    async def run() -> list[set[str]]:
        found = []
        source = eureka(SourcePages("http://there", transport=httpx.MockTransport(answer)))
        async with aclosing(source.states()) as states:
            async for state in states:
                found.append({place.lease_id for place in state.instances})
                if len(found) == 2:
                    return found
        return found

    assert asyncio.run(run()) == [{"a", "b"}, {"a"}]
    assert asked == ["/apps", "/apps/delta"]


def test_a_consul_without_an_index_is_asked_once_a_second_and_not_in_a_hot_loop() -> None:
    there = Consul("shop")
    there.index = 0

    async def story(_: Stage) -> None:
        async with mirrored(consul, "http://there", httpx.MockTransport(there)) as here:
            await here.until("shop", lambda found: len(found) == 1)
            before = len(there.asked)
            await here.until("shop", lambda _: len(there.asked) > before)
            assert len(there.asked) < before + 20

    run_story(story, faces="rest")


def test_what_was_imported_stays_while_the_source_answers_nonsense_and_goes_on_afterwards() -> None:
    there = Consul("shop")

    async def story(_: Stage) -> None:
        async with mirrored(consul, "http://there", httpx.MockTransport(there)) as here:
            await here.until("shop", lambda found: len(found) == 1)
            there.trouble = httpx.Response(429, text="Too many requests")
            there.names = ("shop", "cart")
            await here.until_said("429")
            asked, began = len(there.asked), asyncio.get_running_loop().time()
            await here.until("shop", lambda _: asyncio.get_running_loop().time() > began + 1.0)
            assert len(there.asked) < asked + 10, "it is asked again with pauses"
            assert len(await here.instances("shop")) == 1
            there.trouble = None
            await here.until("cart", lambda found: len(found) == 1)
            await here.until_said("the source answers again")

    run_story(story, faces="rest")


def test_a_service_that_cannot_be_read_holds_up_no_other_one() -> None:
    there = Consul("api", "shop")

    async def story(_: Stage) -> None:
        async with mirrored(consul, "http://there", httpx.MockTransport(there)) as here:
            await here.until("api", lambda found: len(found) == 1)
            there.bad = "api"
            there.names = ("api", "shop", "cart")
            there.index += 1
            await here.until("cart", lambda found: len(found) == 1)
            assert len(await here.instances("api")) == 1

    run_story(story, faces="rest")


def test_many_services_of_consul_take_turns_at_its_connections() -> None:
    there, at_once = Consul(*(f"s{number}" for number in range(3 * MOST_WAITING))), list[int]([0, 0])

    async def answer(request: httpx.Request) -> httpx.Response:
        at_once[0] += 1
        at_once[1] = max(at_once)
        await asyncio.sleep(0.01)
        at_once[0] -= 1
        return there(request)

    async def story(_: Stage) -> None:
        async with mirrored(consul, "http://there", httpx.MockTransport(answer)) as here:
            await here.until(f"s{3 * MOST_WAITING - 1}", lambda found: len(found) == 1)
            await here.until_listed(len(there.names))
        assert at_once[1] <= MOST_WAITING + 1

    run_story(story, faces="rest")


def test_a_mirror_that_starts_while_its_source_is_down_takes_over_what_an_earlier_one_has_imported() -> None:
    there = Consul("shop")

    async def story(_: Stage) -> None:
        async with second_registry() as client:
            async with mirroring(consul, "http://there", httpx.MockTransport(there), client) as here:
                await here.until("shop", lambda found: len(found) == 1)
            there.trouble = httpx.Response(503)
            async with mirroring(consul, "http://there", httpx.MockTransport(there), client) as here:
                await here.until("shop", lambda _: {place.lease_id for place in here.core.imported} == {"shop-1"})
                there.trouble, there.names = None, ()
                await here.until("shop", lambda found: not found)

    run_story(story, faces="rest")


def test_what_vanished_at_once_stays_as_long_as_the_source_is_down() -> None:
    there = Consul(*(f"s{number}" for number in range(20)))

    async def story(_: Stage) -> None:
        async with mirrored(consul, "http://there", httpx.MockTransport(there)) as here:
            await here.until("s19", lambda found: len(found) == 1)
            there.names, there.index = (), 8
            await here.until_said("vanished at once")
            there.trouble = httpx.Response(503)
            await here.until_said("503")
            here.clock.ahead = 2 * HELD_SECONDS
            await asyncio.sleep(4 * TURN_SECONDS)
            assert len(await here.instances("s19")) == 1
            here.said.clear()
            there.trouble = None
            await here.until_said("answers again")
            here.clock.ahead *= 2
            await here.until("s19", lambda found: not found)

    run_story(story, faces="rest")


def test_an_application_that_moved_while_nobody_mirrored_its_service_is_left_alone() -> None:
    there = Consul("shop")

    async def story(_: Stage) -> None:
        async with mirrored(consul, "http://there", httpx.MockTransport(there)) as here:
            await here.until("shop", lambda found: len(found) == 1)
            there.names, there.index = ("cart",), 8
            await here.until("shop", lambda found: not found)
            await here.until("cart", lambda found: len(found) == 1)
            itself = encode_instance(Instance("10.0.0.9", 80, id="shop-1"))
            await here.client.leases.register("shop", "shop-1", itself, ttl_seconds=60)
            there.names, there.index = ("shop", "cart", "last"), 9
            await here.until("last", lambda found: len(found) == 1)
            assert (await here.instances("shop"))["shop-1"].address == "10.0.0.9"

    run_story(story, faces="rest")


def test_a_defect_in_what_follows_a_service_is_not_silent() -> None:
    there = Consul("shop")
    pages = SourcePages("http://there", transport=httpx.MockTransport(there))

    async def run() -> None:
        async with aclosing(consul(pages).states()) as states:
            await anext(states)
            there.index = -1
            there.names = ("shop", "shop-2")
            there.defect = ZeroDivisionError("planted")
            async for _ in states:
                pass

    with pytest.raises(ZeroDivisionError, match="planted"):
        asyncio.run(run())


BAD = [
    (eureka, {}, "is no dict"),
    (eureka, {"applications": {"application": [7]}}, "is no dict"),
    (consul, [], "is no dict"),
    (nacos, {"doms": "x"}, "is no list"),
    (nacos, 7, "is no dict"),
]


def read(made: Any, answer: httpx.Response) -> dict[Any, Any]:
    async def run() -> dict[Any, Any]:
        pages = SourcePages("http://there", transport=httpx.MockTransport(lambda _: answer))
        try:
            return dict((await first_of(made(pages))).instances)
        finally:
            await pages.close()

    return asyncio.run(run())


@pytest.mark.parametrize(("made", "answer", "why"), BAD)
def test_an_answer_of_another_shape_is_refused_in_words(made: Any, answer: object, why: str) -> None:
    with pytest.raises(RequestError, match=why):
        read(made, httpx.Response(200, json=answer))


@pytest.mark.parametrize("made", [eureka, consul, nacos])
def test_an_answer_that_is_no_json_or_no_answer_is_told_with_its_address(made: Any) -> None:
    with pytest.raises(RequestError, match=r"http://there/.* answers no JSON"):
        read(made, httpx.Response(200, text="<html>"))
    with pytest.raises(RequestError, match=r"http://there/.* answers 403: no"):
        read(made, httpx.Response(403, text="no"))
    with pytest.raises(Unreachable, match=r"http://there/.* answers 503"):
        read(made, httpx.Response(503))


def test_an_instance_that_cannot_be_one_of_ours_is_left_out_alone() -> None:
    good = {"instanceId": "a", "ipAddr": "10.0.0.1", "port": {"$": 80, "@enabled": "true"}, "status": "UP"}
    bad = {**good, "instanceId": "b", "status": "SIDEWAYS"}
    answer = {"applications": {"application": {"name": "SHOP", "instance": [good, bad]}}}
    found = read(eureka, httpx.Response(200, json=answer))
    assert [place.lease_id for place in found] == ["a"]


def test_only_the_services_that_are_wanted_are_seen() -> None:
    one = {"instanceId": "a", "ipAddr": "10.0.0.1", "port": {"$": 80, "@enabled": "true"}, "status": "UP"}
    answer = {"applications": {"application": [{"name": name, "instance": one} for name in ("SHOP", "CART")]}}

    def carts(pages: SourcePages) -> MirrorSource:
        return Narrowed(eureka(pages), lambda name: name.startswith("cart"))

    found = read(carts, httpx.Response(200, json=answer))
    assert [place.service.partition("#")[0] for place in found] == ["cart"]
