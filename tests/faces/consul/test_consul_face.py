"""The face of Consul on a simulated cluster: what clients register and see, which gateway they ever ask."""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Address

import pytest
from slotreeve_client import Filter, Health, Instance
from slotreeve_protocol.overrides import Override

from tests.faces.gateway_on_trial import ENDED, TTL, Trial, play


def test_a_registration_is_critical_until_its_check_passes_and_again_when_nobody_renews_it() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        await gateway.register("web", "web-1")
        assert await gateway.statuses("web") == {"web-1": "critical"}
        assert set((await gateway.get("/v1/agent/services")).json) == {"web-1"}
        await gateway.register("late", "late-1")
        assert set((await gateway.get("/v1/agent/checks")).json) == {"service:web-1", "service:late-1"}
        assert (await gateway.get("/v1/health/service/web?passing")).json == []
        for _ in range(4):
            assert (await gateway.put("/v1/agent/check/pass/service:web-1")).status == 200
            assert await gateway.statuses("web") == {"web-1": "passing"}
            await asyncio.sleep(TTL / 2)
        await asyncio.sleep(ENDED)
        assert await gateway.statuses("web") == {"web-1": "critical"}
        gone = await gateway.put("/v1/agent/check/pass/service:web-2")
        assert (gone.status, gone.headers["content-type"]) == (404, "text/plain; charset=utf-8")
        assert b"Unknown check ID" in gone.body

    play(scenario)


@pytest.mark.parametrize("service_id", ["web-1", "1", "ü/ %2F;", "webshop-1", "x" * 290])
def test_a_gateway_that_never_saw_the_registration_renews_reports_and_deregisters(service_id: str) -> None:
    async def scenario(trial: Trial) -> None:
        first, second = await trial.gateway(), await trial.gateway()
        for other in ("webshop", "api", "db"):
            await first.register(other, f"{other}-0")
        await first.register("web", service_id, Tags=["a"], Meta={"v": "1"})
        assert (await second.put(f"/v1/agent/check/pass/service:{service_id}")).status == 200
        assert await second.statuses("web") == {service_id: "passing"}
        third = await trial.gateway()
        assert (await third.put(f"/v1/agent/check/fail/service:{service_id}?note=disk")).status == 200
        [entry] = (await third.get("/v1/health/service/web")).json
        assert (entry["Service"]["Tags"], entry["Service"]["Meta"]) == (["a"], {"v": "1"})
        assert (entry["Checks"][0]["Status"], entry["Checks"][0]["Output"]) == ("critical", "disk")
        await asyncio.sleep(TTL / 2)
        fourth = await trial.gateway()
        assert (await fourth.put(f"/v1/agent/service/deregister/{service_id}")).status == 200
        assert await fourth.statuses("web") == {}
        assert (await second.put(f"/v1/agent/service/deregister/{service_id}")).status == 404

    play(scenario)


@pytest.mark.parametrize("after", [None, "20s"])
def test_a_check_that_is_not_passed_in_time_is_critical_until_the_time_to_deregister_it(after: str | None) -> None:
    async def scenario(trial: Trial) -> None:
        gateway, other = await trial.gateway(), await trial.gateway()
        check = {"TTL": f"{TTL:g}s", "Status": "passing", "DeregisterCriticalServiceAfter": after}
        await gateway.register("web", "web-1", Check=check, Meta={"v": "1"})
        index = (await other.get("/v1/health/service/web")).index
        seen = await other.get(f"/v1/health/service/web?index={index}&wait=60s")
        assert (seen.seconds < ENDED, seen.index > index) == (True, True)
        [entry] = seen.json
        assert (entry["Checks"][0]["Status"], entry["Checks"][0]["Output"]) == ("critical", "TTL expired")
        assert entry["Service"]["Meta"] == {"v": "1"}
        assert (await other.get("/v1/health/service/web?passing")).json == []
        assert (await other.get("/v1/catalog/services")).json == {"web": []}
        assert set((await other.get("/v1/agent/services")).json) == {"web-1"}
        assert await trial.cluster.client().get("web") == (), "nobody else is sent to it"
        # It comes back by its check, at a gateway that has never seen it.
        third = await trial.gateway()
        assert (await third.put("/v1/agent/check/pass/service:web-1")).status == 200
        assert await other.statuses("web") == {"web-1": "passing"}
        await asyncio.sleep(ENDED)
        assert await other.statuses("web") == {"web-1": "critical"}
        index = (await other.get("/v1/health/service/web")).index
        seen = await other.get(f"/v1/health/service/web?index={index}&wait=30s")
        assert (seen.json == []) is (after is not None)
        assert (seen.seconds < 25) is (after is not None), "those who wait are told"
        if after is None:
            await asyncio.sleep(600)
            assert await other.statuses("web") == {"web-1": "critical"}
            assert (await other.put("/v1/agent/service/deregister/web-1")).status == 200
        assert await gateway.statuses("web") == {}
        assert (await third.put("/v1/agent/check/pass/service:web-1")).status == 404

    play(scenario)


def test_a_registration_that_is_repeated_keeps_status_and_output_of_its_check() -> None:
    async def scenario(trial: Trial) -> None:
        gateway, other = await trial.gateway(), await trial.gateway()
        await gateway.register("web")
        for report, status, output in (
            ("pass", "passing", ""),
            ("warn", "warning", "slow"),
            ("fail", "critical", "no"),
        ):
            await gateway.put(f"/v1/agent/check/{report}/service:web?note={output}")
            for again in (gateway, other):
                await again.register("web", Tags=[report], Check={"TTL": f"{TTL:g}s", "Status": "passing"})
                [entry] = (await again.get("/v1/health/service/web")).json
                check = entry["Checks"][0]
                assert (check["Status"], check["Output"], entry["Service"]["Tags"]) == (status, output, [report])

    play(scenario)


def test_a_maintenance_is_a_check_of_its_own_that_a_registration_does_not_end() -> None:
    async def scenario(trial: Trial) -> None:
        gateway, other = await trial.gateway(), await trial.gateway()
        await gateway.register("web", Check={"TTL": "6s"})
        await gateway.put("/v1/agent/check/warn/service:web?note=slow")
        assert (await gateway.put("/v1/agent/service/maintenance/web?enable=true&reason=a+new+disk")).status == 200
        for _ in range(2):
            await other.register("web", Check={"TTL": "6s"})
            await other.put("/v1/agent/check/warn/service:web?note=slower")
            [entry] = (await other.get("/v1/health/service/web")).json
            own, maintenance = entry["Checks"]
            assert (own["Status"], own["Output"]) == ("warning", "slower")
            assert maintenance["CheckID"] == "_service_maintenance:web"
            assert (maintenance["Status"], maintenance["Notes"]) == ("critical", "a new disk")
            assert entry["Service"]["Meta"] == {}
            await asyncio.sleep(ENDED)  # it is late: its maintenance goes on
            await other.put("/v1/agent/check/warn/service:web?note=slower")
        await gateway.put("/v1/agent/service/maintenance/web?enable=false")
        [entry] = (await other.get("/v1/health/service/web")).json
        assert [check["Output"] for check in entry["Checks"]] == ["slower"]

    play(scenario)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_an_id_that_is_registered_under_another_name_ends_under_the_former_one(elsewhere: bool) -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        await gateway.register("old", "id-1")
        await gateway.register("beside", "id-1", Address="10.0.0.77")
        await asyncio.sleep(1.5)
        again = await trial.gateway() if elsewhere else gateway
        await again.register("old", "id-1")
        await again.register("new", "id-1")
        if elsewhere:
            await asyncio.sleep(1)
        assert (await again.get("/v1/health/service/old")).json == []
        assert set(await again.statuses("new")) == {"id-1"}
        assert set(await again.statuses("beside")) == {"id-1"}, "another machine has the same id"
        assert (await again.put("/v1/agent/service/deregister/id-1")).status == 200

    play(scenario)


def test_a_gateway_that_has_not_seen_an_id_ends_it_under_its_former_name_too() -> None:
    async def scenario(trial: Trial) -> None:
        first, second = await trial.gateway(), await trial.gateway()
        await first.register("old", "id-1", Check={"TTL": "60s", "Status": "passing"})
        await asyncio.sleep(1.5)
        await second.register("new", "id-1", Check={"TTL": "60s", "Status": "passing"})
        for _ in range(100):
            if not await first.statuses("old"):
                break
            await asyncio.sleep(0.1)
        assert (await first.statuses("old"), await first.statuses("new")) == ({}, {"id-1": "passing"})

    play(scenario)


UNSPECIFIED = str(IPv4Address(0))


@pytest.mark.parametrize("address", [UNSPECIFIED, "::", f"::ffff:{UNSPECIFIED}", "224.0.0.1", "255.255.255.255"])
def test_an_address_that_nobody_can_call_is_refused_in_every_language(address: str) -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        refused = await gateway.put("/v1/agent/service/register", {"Name": "web", "Address": address, "Port": 80})
        assert (refused.status, b"nobody can call" in refused.body) == (400, True)
        given = {"instance": {"instanceId": "a", "ipAddr": address}}
        assert (await gateway.ask("POST", "/eureka/apps/WEB", given)).status == 400
        await gateway.start_face("rest")
        body = {"address": address}
        assert (await gateway.ask("PUT", "/v1/services/web/instances/a", body)).status == 400
        assert (await gateway.get("/v1/health/service/web")).json == []

    play(scenario)


def test_an_unknown_id_is_answered_at_once() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        await gateway.register("web")
        for number in range(3):
            answer = await gateway.put(f"/v1/agent/check/pass/service:nobody-{number}")
            assert (answer.status, answer.seconds < 0.1) == (404, True), answer
            await asyncio.sleep(1)

    play(scenario)


def test_a_new_service_is_found_by_another_gateway_at_once_although_its_list_is_older() -> None:
    async def scenario(trial: Trial) -> None:
        first, second = await trial.gateway(), await trial.gateway()
        assert (await second.get("/v1/catalog/services")).json == {}
        await first.register("new", "new-1")
        answer = await second.put("/v1/agent/check/pass/service:new-1")
        assert answer.status == 200
        assert answer.seconds < 1.5

    play(scenario)


def test_to_pass_again_renews_and_changes_nothing_for_others() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        await gateway.register("web")
        await gateway.put("/v1/agent/check/pass/service:web")
        index = (await gateway.get("/v1/health/service/web")).index
        for number in range(8):
            await gateway.put(f"/v1/agent/check/pass/service:web?note={number}")
            await asyncio.sleep(TTL / 3)
        again = await gateway.get("/v1/health/service/web")
        assert (again.index, len(again.json)) == (index, 1)

    play(scenario)


def test_a_client_that_registers_anew_and_passes_at_once_is_passing_with_what_it_registered() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        for version in range(5):
            await gateway.register("web", Tags=[f"v{version}"])
            await gateway.put("/v1/agent/check/pass/service:web")
            [entry] = (await gateway.get("/v1/health/service/web?passing=1")).json
            assert entry["Service"]["Tags"] == [f"v{version}"]

    play(scenario)


@pytest.mark.parametrize(
    ("report", "body", "status", "output"),
    [
        ("warn/service:web?note=slow", b"", "warning", "slow"),
        ("fail/service:web?note=dead", b"", "critical", "dead"),
        ("update/service:web", {"Status": "warning", "Output": "n\no" * 2000}, "warning", ("n\no" * 2000)[:1024]),
        ("update/service:web", {"status": "passing", "output": ""}, "passing", ""),
    ],
)
def test_a_report_is_seen_with_its_note_and_renews(report: str, body: object, status: str, output: str) -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        await gateway.register("web", Check={"TTL": f"{TTL:g}s", "Status": "passing"})
        assert await gateway.statuses("web") == {"web": "passing"}
        for _ in range(3):
            await asyncio.sleep(TTL / 2)
            assert (await gateway.put(f"/v1/agent/check/{report}", body)).status == 200
            [check] = (await gateway.get("/v1/health/checks/web")).json
            assert (check["Status"], check["Output"], check["CheckID"]) == (status, output, "service:web")

    play(scenario)


def test_a_registration_without_a_check_lives_as_long_as_the_option_says_and_takes_no_reports() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway(unchecked_seconds=20)
        await gateway.register("db", Check=None)
        refused = await gateway.put("/v1/agent/check/pass/service:db")
        assert (refused.status, b"does not have associated TTL" in refused.body) == (400, True)
        await asyncio.sleep(15)
        assert await gateway.statuses("db") == {"db": "passing"}
        await asyncio.sleep(10)
        assert await gateway.statuses("db") == {}

    play(scenario)


def test_maintenance_disables_an_instance_until_it_is_over() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        await gateway.register("web", Check={"TTL": "6s", "Status": "passing"})
        assert (await gateway.put("/v1/agent/service/maintenance/web")).status == 400
        assert (await gateway.put("/v1/agent/service/maintenance/web?enable=maybe")).status == 400
        assert (await gateway.put("/v1/agent/service/maintenance/web?enable=true&reason=disk")).status == 200
        assert (await gateway.get("/v1/health/service/web?passing")).json == []
        [entry] = (await gateway.get("/v1/health/service/web")).json
        assert [check["Status"] for check in entry["Checks"]] == ["passing", "critical"]
        await gateway.put("/v1/agent/check/pass/service:web")
        assert (await gateway.get("/v1/health/service/web?passing")).json == []
        assert (await gateway.put("/v1/agent/service/maintenance/web?enable=false")).status == 200
        assert len((await gateway.get("/v1/health/service/web?passing")).json) == 1

    play(scenario)


def test_what_was_registered_in_another_way_keeps_its_time_to_live() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        await gateway.registry.register("web", Instance("10.0.0.1", 80, id="other"), TTL)
        for page in ("agent/check/fail/service:other", "agent/service/maintenance/other?enable=true"):
            assert (await gateway.put(f"/v1/{page}")).status == 400
        assert await gateway.statuses("web") == {"other": "passing"}
        await asyncio.sleep(ENDED)
        assert await gateway.statuses("web") == {}
        await gateway.register("web", Check=None)
        assert (await gateway.put("/v1/agent/service/maintenance/web?enable=true")).status == 200
        [entry] = (await gateway.get("/v1/health/service/web")).json
        assert (entry["Service"]["Meta"], entry["Checks"][0]["Type"], len(entry["Checks"])) == ({}, "", 2)

    play(scenario)


def test_a_subscriber_sees_what_was_registered_and_clients_of_consul_see_what_the_sdk_registers() -> None:
    async def scenario(trial: Trial) -> None:
        gateway, client = await trial.gateway(), trial.cluster.client()
        watched = client.subscribe("web")
        await watched.ready()
        await gateway.register(
            "web", "a", Tags=["x", "x", "y"], Meta={"scheme": "http", "v": "1"}, Weights={"Passing": 7, "Warning": 1}
        )
        await trial.cluster.until(lambda: watched.count, "it is seen", 0.5)
        [provider] = watched.instances
        assert provider.instance == Instance(
            "10.0.0.1",
            80,
            "http",
            7,
            "east",
            ("x", "y"),
            {"scheme": "http", "v": "1", "consul-ttl": "6s"},
            Health.CRITICAL,
            id="a",
        )
        said = Instance("2001:DB8::1", 443, "https", 3, "west", ("t",), {"k": "v"}, Health.WARNING, "slow", True, "b")
        await client.register("web", said).acknowledged()
        await trial.cluster.until(lambda: watched.count == 2, "it is seen", 0.5)
        entry = next(e for e in (await gateway.get("/v1/health/service/web")).json if e["Service"]["ID"] == "b")
        service, check = entry["Service"], entry["Checks"][0]
        assert (service["Address"], service["Port"], service["Tags"]) == ("2001:db8::1", 443, ["t"])
        assert (service["Meta"], service["Weights"]["Passing"]) == ({"scheme": "https", "k": "v"}, 3)
        assert service["Locality"]["Zone"] == "west"
        assert (check["Status"], check["Output"]) == ("warning", "slow")
        found = next(e for e in (await gateway.get("/v1/catalog/service/web")).json if e["ServiceID"] == "b")
        assert (found["ServiceAddress"], found["ServicePort"], found["Node"]) == ("2001:db8::1", 443, "2001:db8::1")

    play(scenario)


def test_an_operators_override_is_seen_and_does_not_become_what_the_provider_says() -> None:
    async def scenario(trial: Trial) -> None:
        gateway, client = await trial.gateway(), trial.cluster.client()
        await gateway.register("web")
        await gateway.registry.override("web", "web", Override(weight=1, enabled=False))
        watched = client.subscribe("web")
        disabled = watched.select(Filter(enabled_only=False, worst_health=Health.CRITICAL))
        enabled = watched.select(Filter(worst_health=Health.CRITICAL))
        await trial.cluster.until(lambda: disabled.instances and not enabled.instances, "it is seen", 5)
        await gateway.put("/v1/agent/check/pass/service:web")
        [entry] = (await gateway.get("/v1/health/service/web")).json
        assert [check["Status"] for check in entry["Checks"]] == ["passing", "critical"]
        assert entry["Service"]["Weights"]["Passing"] == 1
        await trial.cluster.until(lambda: watched.select(Filter(enabled_only=False)).instances, "it is seen", 5)
        said = watched.instances[0].said
        assert said is not None
        assert (said.weight, said.enabled, said.health) == (100, True, Health.PASSING)

    play(scenario)


def test_tags_health_and_nearness_choose_and_sort() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        for number, (zone, tags) in enumerate([("west", ["A"]), ("east", ["a", "b"]), ("west", []), ("east", ["b"])]):
            address = f"10.0.0.{number}"
            await gateway.register("web", f"w{number}", Address=address, Tags=tags, Locality={"Zone": zone})

        async def ids(query: str) -> list[str]:
            found = (await gateway.get(f"/v1/health/service/web?{query}")).json
            catalog = (await gateway.get(f"/v1/catalog/service/web?{query}")).json
            assert [entry["ServiceID"] for entry in catalog] == [entry["Service"]["ID"] for entry in found]
            return [entry["Service"]["ID"] for entry in found]

        for _ in range(2):
            assert await ids("tag=a") == ["w0", "w1"]
            assert await ids("tag=B&tag=a") == ["w1"]
            assert await ids("tag=nobody") == []
            assert await ids("passing") == []
            assert await ids("passing=false&tag=b") == ["w1", "w3"]
            assert await ids("near=_agent") == ["w1", "w3", "w0", "w2"]
            assert await ids("near=10.0.0.2") == ["w2", "w0", "w1", "w3"]
            assert await ids("near=elsewhere") == ["w0", "w1", "w2", "w3"]

    play(scenario)


def test_lists_show_services_nodes_and_tags() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        await gateway.register("web", "w1", Tags=["a", "b"])
        await gateway.register("web", "w2", Tags=["b", "c"], Address="10.0.0.2")
        await gateway.register("db", Check=None)
        trial.cluster.client().publish("bytes", "10.0.0.9:1")
        trial.cluster.client().publish("other#@#DEFAULT_INSTANCE_ID#@#OTHER", "10.0.0.9:1")
        await asyncio.sleep(1.5)
        services = await gateway.get("/v1/catalog/services")
        assert services.json == {"bytes": [], "db": [], "web": ["a", "b", "c"]}
        assert services.index > 0
        assert (await gateway.get("/v1/health/service/bytes")).json == []
        assert [node["Address"] for node in (await gateway.get("/v1/catalog/nodes")).json] == ["10.0.0.1", "10.0.0.2"]
        assert set((await gateway.get("/v1/agent/services")).json) == {"w1", "w2", "db"}
        assert set((await gateway.get("/v1/agent/checks")).json) == {"service:w1", "service:w2", "service:db"}
        assert (await gateway.get("/v1/catalog/datacenters")).json == ["slotreeve"]
        assert (await gateway.get("/v1/status/leader")).json == "10.9.9.9:8300"
        assert (await gateway.get("/v1/status/peers")).json == ["10.9.9.9:8300"]
        me = (await gateway.get("/v1/agent/self")).json
        assert (me["Config"]["Datacenter"], me["Member"]["Addr"]) == ("slotreeve", "10.9.9.9")
        plain = await trial.gateway(tags_in_lists=False, group="OTHER", datacenter="dc9")
        assert (await plain.get("/v1/catalog/services?dc=dc9")).json == {"other": []}
        assert (await plain.get("/v1/catalog/datacenters")).json == ["dc9"]

    play(scenario)
