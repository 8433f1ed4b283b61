"""What operators read through the face ``admin``."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from slotreeve_face_admin.queries import page_of
from slotreeve_protocol.instance import Instance
from slotreeve_protocol.overrides import Override
from slotreeve_protocol.tokens import TOKENS_KEY

from tests.faces.admin.admin_scene import JSON, SCRIPT, SERVICE, AdminScene, on_admin

READS = (
    "status",
    "members",
    "slots",
    "orders",
    "configuration",
    "election",
    "overrides",
    "clients",
    "applications",
    "applications/shop",
    "settings",
    "delays",
    f"services/{SERVICE}/subscribers",
    f"services/{SERVICE}/changes",
    f"services/{SERVICE}/past",
    "events",
)


def test_a_quiet_cluster_is_well_and_its_servers_are_listed() -> None:
    async def story(scene: AdminScene) -> None:
        status = await scene.read("status")
        assert (status["well"], status["problems"], status["leader"], status["slots"]) == (True, [], "meta-1", 16)
        names = ["meta-1", "data-1", "data-2", "data-3", "session-1", "session-2"]
        assert [server["name"] for server in status["servers"]] == names
        assert (await scene.read("members"))["servers"] == status["servers"]
        assert sum(server["leads"] or 0 for server in status["servers"]) == 16

    on_admin(story)


def test_the_stages_of_changes_are_told_and_those_of_one_service_by_server() -> None:
    async def story(scene: AdminScene) -> None:
        client = scene.cluster.client()
        await client.subscribe(SERVICE, lambda _: None).ready()
        await client.publish(SERVICE, "10.0.0.1:80").acknowledged()

        told = await scene.read(f"delays?service={quote(SERVICE, safe='')}")
        assert any(one["subscribers"] for one in told["service"])
        assert told["delay_ms"] == 500
        assert {"push_age", "push_wait"} <= {stage["stage"] for stage in told["stages"]}
        assert told["silent"] == {}
        for name in ("x" * 2049, "a%23%40%23b"):
            refused = await scene.gateway.ask("GET", f"/v1/admin/delays?service={name}")
            assert (refused.status, "SR" in refused.body.decode()) == (400, True), refused

    on_admin(story)


def test_a_server_that_died_is_a_problem_in_a_sentence() -> None:
    async def story(scene: AdminScene) -> None:
        scene.cluster.kill("data-2")
        await scene.cluster.ready()
        status = await scene.read("status")
        assert not status["well"]
        assert status["problems"][0].startswith("data server data-2 left at ")

    on_admin(story)


def test_the_slot_table_comes_in_pages_and_by_single_slots() -> None:
    async def story(scene: AdminScene) -> None:
        whole = await scene.read("slots")
        assert ([slot["slot"] for slot in whole["slots"]], whole["next"]) == ([*range(16)], None)
        first = await scene.read("slots?limit=10")
        rest = await scene.read(f"slots?limit=10&after={first['next']}")
        assert first["slots"] + rest["slots"] == whole["slots"]
        assert (await scene.read("slots?slot=7"))["slots"] == [whole["slots"][7]]
        missing = await scene.gateway.ask("GET", "/v1/admin/slots?slot=16")
        assert missing.status == 404

    on_admin(story)


def test_tokens_are_listed_as_a_key_and_never_shown() -> None:
    async def story(scene: AdminScene) -> None:
        await scene.gateway.put_config(TOKENS_KEY, b'{"by_id":{"aa":{"secret_hash":"5ec4e7"}}}')
        await scene.gateway.put_config("limits.rate", b"100")
        await scene.gateway.put_config("raw", b"\xff")
        keys = {key["key"]: key for key in (await scene.read("configuration"))["keys"]}
        assert keys[TOKENS_KEY]["is_own"]
        assert keys["limits.rate"] == {"key": "limits.rate", "version": 1, "bytes": 3, "is_own": False}
        assert (await scene.gateway.ask("GET", f"/v1/admin/configuration/{TOKENS_KEY}")).status == 404
        value = {"key": "limits.rate", "version": 1, "value": "100", "base64": None}
        assert await scene.read("configuration/limits.rate") == value
        assert (await scene.read("configuration/raw"))["base64"] == "/w=="
        assert [k["key"] for k in (await scene.read("configuration?prefix=limits"))["keys"]] == ["limits.rate"]
        for path in READS:
            answer = await scene.gateway.ask("GET", f"/v1/admin/{path}")
            assert b"5ec4e7" not in answer.body, path

    on_admin(story)


def test_each_meta_server_says_who_leads() -> None:
    async def story(scene: AdminScene) -> None:
        found = await scene.read("election")
        assert found["leader"] == scene.cluster.leader
        assert {meta["leader"] for meta in found["meta_servers"]} == {found["leader"]}
        assert {meta["term"] for meta in found["meta_servers"]} == {found["term"]}
        (other, *_) = (meta["name"] for meta in found["meta_servers"] if meta["state"] == "follows")
        scene.cluster.kill(other)
        states = {meta["name"]: meta["state"] for meta in (await scene.read("election"))["meta_servers"]}
        assert states[other] == "does not answer"

    on_admin(story, meta=3)


def test_clients_and_subscribers_are_listed_in_pages() -> None:
    async def story(scene: AdminScene) -> None:
        for number in range(5):
            other = scene.cluster.client(name=f"other-{number}")
            await other.subscribe(SERVICE, lambda _: None).ready()
        whole: list[Any] = []
        after: str | None = ""
        while after is not None:
            page = await scene.read(f"clients?limit=2&after={after}")
            assert len(page["clients"]) <= 2
            whole += page["clients"]
            after = page["next"]
        names = [client["client"] for client in whole]
        assert names == sorted(names)
        assert whole == (await scene.read("clients"))["clients"]
        (shop,) = (await scene.read("clients?prefix=shop"))["clients"]
        assert (shop["records"], shop["services"], shop["hidden"]) == (1, 1, False)
        await asyncio.sleep(1)
        found = await scene.read(f"services/{SERVICE}/subscribers")
        assert len(found["subscribers"]) == 6
        assert all(one["is_current"] and one["scope"] == "data_center" for one in found["subscribers"])
        assert found["silent"] == {}

    on_admin(story)


def test_hostile_names_are_data_in_every_answer() -> None:
    async def story(scene: AdminScene) -> None:
        instance = Instance("10.0.0.9", 80, id=SCRIPT)
        await scene.gateway.registry.register(SERVICE, instance)
        await scene.gateway.registry.override(SERVICE, SCRIPT, Override(weight=1, note=SCRIPT))
        await scene.gateway.put_config(SCRIPT, SCRIPT.encode())
        await scene.connect_as(SCRIPT)
        (override,) = (await scene.read("overrides"))["overrides"]
        assert (override["id"], override["note"]) == (SCRIPT, SCRIPT)
        assert SCRIPT in {key["key"] for key in (await scene.read("configuration"))["keys"]}
        assert SCRIPT in {one["client"] for one in (await scene.read("clients"))["clients"]}
        for path in (*READS, f"services/{SCRIPT.replace('/', '%2F')}/subscribers", f"{SCRIPT}"):
            answer = await scene.gateway.ask("GET", f"/v1/admin/{path}")
            media = {name.lower(): value for name, value in answer.headers.items()}["content-type"]
            assert media in ("application/json", "application/problem+json"), path
            msgspec.json.decode(answer.body)

    on_admin(story)


def test_without_meta_servers_each_read_says_that_none_answers() -> None:
    async def story(scene: AdminScene) -> None:
        scene.cluster.kill("meta-1")
        for path in READS:
            answer = await scene.gateway.ask("GET", f"/v1/admin/{path}", headers=JSON)
            assert answer.status == (200 if path == "election" else 503), (path, answer)
            assert answer.seconds < 10

    on_admin(story)


def test_bad_queries_are_refused_and_named() -> None:
    async def story(scene: AdminScene) -> None:
        for query in ("slots?slot=x", "slots?slot=-1", "clients?limit=0", "clients?limit=1001", "status?x=1"):
            answer = await scene.gateway.ask("GET", f"/v1/admin/{query}")
            assert answer.status == 400, (query, answer)
        assert (await scene.gateway.ask("GET", "/v1/admin/services/%20/subscribers")).status == 400
        assert (await scene.gateway.ask("GET", "/v1/admin/nothing")).status == 404
        assert (await scene.gateway.ask("POST", "/v1/admin/status", headers=JSON)).status == 405

    on_admin(story)


def test_the_description_names_every_operation_and_its_right() -> None:
    async def story(scene: AdminScene) -> None:
        described = await scene.read("openapi.json")
        assert described["openapi"] == "3.1.0"
        for path in READS:
            named = path.replace(SERVICE, "{service}").replace("/shop", "/{application}")
            assert f"/v1/admin/{named}" in described["paths"]
        for path, methods in described["paths"].items():
            for operation in methods.values():
                if not path.endswith("openapi.json"):
                    assert "the right operate for all services" in operation["description"], path

    on_admin(story)


@given(st.lists(st.tuples(st.text(max_size=2), st.integers())), st.integers(1, 4))
def test_the_pages_of_a_list_are_the_list(items: list[tuple[str, int]], limit: int) -> None:
    named = [item for item in items if item[0]]
    found: list[tuple[str, int]] = []
    after: str | None = ""
    while after is not None:
        page, after = page_of(named, lambda item: item[0], after, limit)
        found += page
    assert sorted(found) == sorted(named)
    assert [name for name, _ in found] == sorted(name for name, _ in named)
