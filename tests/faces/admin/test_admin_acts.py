"""What operators do through the face ``admin``: dry runs, acts, undo."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import shlex
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve_cli.main import command_line
from slotreeve_face_admin.acts import undo_of as request_of
from slotreeve_gateway.acts import kinds
from slotreeve_gateway.acts.ordering import undo_of
from slotreeve_gateway.acts.writing import value_undo
from slotreeve_protocol.live_settings import SETTINGS_KEY
from slotreeve_protocol.meta_messages import ConfigEntry
from slotreeve_protocol.orders import Orders
from slotreeve_protocol.tokens import TOKENS_KEY
from slotreeve_servers.meta import configuration
from typer.main import get_command

from tests.faces.admin.admin_scene import JSON, SCRIPT, SERVICE, AdminScene, access_with, on_admin

ODD = f"{SCRIPT} %/\\'\"\n$(rm)"
ACTS: tuple[tuple[str, str, object], ...] = (
    ("PUT", "orders/banned/data-2", b""),
    ("PUT", "orders/banned/session-1", b""),
    ("PUT", "orders/banned/nobody", b""),
    ("PUT", f"orders/banned/{quote(ODD, safe='')}", b""),
    ("PUT", "drains/data-1", b""),
    ("PUT", "orders/push-stop", {}),
    ("PUT", "orders/push-stop", {"except": ["10.0.0.7", "-x", SCRIPT]}),
    ("PUT", "orders/freeze", b""),
    ("PUT", "orders/clients-off/shop", b""),
    ("PUT", f"orders/clients-off/{quote(ODD, safe='')}", b""),
    ("PUT", "configuration/limits.rate", {"value": "200"}),
    ("PUT", "configuration/raw", {"base64": "AP8="}),
    ("PUT", f"configuration/{quote(ODD, safe='')}", {"value": ODD}),
    ("DELETE", "configuration/limits.rate", b""),
    ("DELETE", "configuration/raw", b""),
    ("PUT", f"overrides/{SERVICE}/10.0.0.1:80", {"weight": 0, "enabled": False, "note": SCRIPT}),
    ("PUT", f"overrides/{quote(ODD, safe='')}/{quote(ODD, safe='')}", {"drain": True}),
    ("PUT", f"overrides/{SERVICE}/was", {"weight": 5}),
    ("DELETE", f"overrides/{SERVICE}/was", b""),
    ("PUT", "settings/session.push_window_seconds", {"value": 0.5}),
    ("PUT", "settings/data.brake_few", {"value": 3}),
    ("DELETE", "settings/data.brake_few", b""),
)


def named(act: tuple[str, str, object]) -> str:
    return f"{act[0]} {act[1][:24]}"


async def prepared(scene: AdminScene) -> None:
    """Values to be replaced and deleted."""
    await scene.gateway.put_config("limits.rate", b"-100")
    await scene.gateway.put_config("raw", b"\xff\x00")
    await scene.gateway.put_config(SETTINGS_KEY, b'{"data.brake_few":9}')
    await scene.done("PUT", f"overrides/{SERVICE}/was", {"enabled": True, "note": "before"})
    await asyncio.sleep(2)


async def values(scene: AdminScene) -> list[object]:
    """The orders, and all values without their versions, and the settings once the servers follow."""
    await asyncio.sleep(2)
    keys = [key["key"] for key in (await scene.read("configuration"))["keys"] if not key["is_own"]]
    found = [{**await scene.read(f"configuration/{quote(key, safe='')}"), "version": 0} for key in keys]
    return [await scene.read("orders"), await scene.settings(), await scene.read("overrides"), *found]


@pytest.mark.parametrize("act", [*ACTS, ("POST", "election/resignation", {})], ids=named)
def test_a_dry_run_changes_nothing_and_says_what_would_be(act: tuple[str, str, object]) -> None:
    method, path, body = act

    async def story(scene: AdminScene) -> None:
        await prepared(scene)
        before = await scene.state()
        answer = await scene.done(method, f"{path}?dry_run=true", body)
        assert not answer["done"]
        assert answer["sentences"]
        assert all(said.endswith(".") for said in answer["sentences"])
        await asyncio.sleep(5)
        assert await scene.state() == before

    on_admin(story)


@pytest.mark.parametrize("act", ACTS, ids=named)
def test_undo_undoes_and_a_second_time_nothing_is_done(act: tuple[str, str, object]) -> None:
    method, path, body = act

    async def story(scene: AdminScene) -> None:
        await prepared(scene)
        before = await values(scene)
        done = await scene.done(method, path, body)
        assert done["done"], done
        assert await values(scene) != before
        again = await scene.done(method, path, body)
        assert (again["done"], again["undo"]) == (False, None)
        assert again["sentences"][0].startswith("Nothing changes")
        undo = done["undo"]
        undone = await scene.gateway.ask(undo["method"], undo["path"], undo["body"] or b"", JSON)
        assert undone.json["done"], undone
        assert await values(scene) == before

    on_admin(story)


@pytest.mark.parametrize("act", ACTS, ids=named)
def test_the_command_line_of_an_undo_is_one_that_slotreeve_takes(act: tuple[str, str, object]) -> None:
    method, path, body = act

    async def story(scene: AdminScene) -> None:
        await prepared(scene)
        undo = (await scene.done(method, path, body))["undo"]
        line = undo["command"]
        if line.startswith("echo "):
            line = line.rpartition(" | ")[2]
        words = shlex.split(line)
        assert words.pop(0) == "slotreeve"
        command: Any = get_command(command_line(words[0]))
        while (name := words.pop(0)) in command.commands:
            command = command.commands[name]
            if not hasattr(command, "commands"):
                break
        context = command.make_context(name, words)
        named = [value for value in context.params.values() if value]
        for value in ("data-2", "limits.rate", "raw", ODD):
            if f"/{quote(value, safe='')}" in undo["path"]:
                assert value in named or [value] in named or (value,) in named, (context.params, line)

    on_admin(story)


def test_a_drain_says_what_moves_and_the_server_is_emptied() -> None:
    async def story(scene: AdminScene) -> None:
        (row,) = (one for one in (await scene.read("members"))["servers"] if one["name"] == "data-2")
        tried = await scene.done("PUT", "drains/data-2?dry_run=true")
        leads, follows = row["leads"], row["follows"]
        said = f"Draining data-2 moves {leads} leaders and {follows} followers of slots to 2 other data servers."
        assert tried["sentences"] == [said]
        assert tried["undo"]["command"] == "slotreeve admin unban data-2"
        await scene.done("PUT", "drains/data-2")

        await asyncio.sleep(60)
        (row,) = (one for one in (await scene.read("members"))["servers"] if one["name"] == "data-2")
        assert (row["leads"], row["follows"]) == (0, 0)
        await scene.done("PUT", "drains/data-1")
        alone = await scene.act("PUT", "drains/data-3")
        assert (alone.status, b"the only" in alone.body) == (400, True), alone
        assert (await scene.act("PUT", "drains/data-9")).status == 404
        assert (await scene.read("orders"))["banned"] == ["data-1", "data-2"]

    on_admin(story)


def test_sentences_count_the_clients_that_an_order_meets() -> None:
    async def story(scene: AdminScene) -> None:
        stopped = await scene.done("PUT", "orders/push-stop", {"except": [scene.client.client_id]})
        assert stopped["sentences"][0].startswith("Stopping pushes leaves 0 of 1 subscribing client without changes")
        assert (await scene.read("status"))["problems"] == [
            "Pushing is stopped by an order; slotreeve admin start-push undoes it."
        ]
        hidden = await scene.done("PUT", f"orders/clients-off/{scene.client.client_id}")
        assert hidden["sentences"] == [
            f"Hiding {scene.client.client_id} takes 1 registration of 1 connected client from every subscriber."
        ]

    on_admin(story)


def test_a_write_that_expects_another_version_is_a_conflict() -> None:
    async def story(scene: AdminScene) -> None:
        done = await scene.done("PUT", "configuration/a", {"value": "1", "expected_version": 0})
        assert done["sentences"] == ["Writing a makes version 1, which has 1 byte."]
        for query in ("", "?dry_run=true"):
            answer = await scene.act("PUT", f"configuration/a{query}", {"value": "2", "expected_version": 0})
            assert (answer.status, b"SR303" in answer.body) == (409, True), answer
        assert (await scene.act("DELETE", "configuration/a?expected_version=7")).status == 409
        assert (await scene.read("configuration/a"))["value"] == "1"
        done = await scene.done("DELETE", "configuration/a?expected_version=1")
        assert done["sentences"] == ["Deleting a makes version 2, which has no value; version 1 has 1 byte."]

    on_admin(story)


def test_what_belongs_to_slotreeve_is_not_written_as_configuration() -> None:
    async def story(scene: AdminScene) -> None:
        before = await scene.state()
        for key in (TOKENS_KEY, "slotreeve.intent", "slotreeve.overrides", SETTINGS_KEY, "slotreeve.whatever"):
            assert (await scene.act("PUT", f"configuration/{key}", {"value": "x"})).status == 403
            assert (await scene.act("DELETE", f"configuration/{key}")).status == 403
        assert await scene.state() == before

    on_admin(story)


def test_the_leader_resigns_and_the_servers_and_the_gateway_log_who_asked(caplog: pytest.LogCaptureFixture) -> None:
    access, token = access_with("operate:*")

    async def story(scene: AdminScene) -> None:
        async def act(body: object) -> Any:
            return await scene.act("POST", "election/resignation", body, token)

        before = (await scene.gateway.ask("GET", "/v1/admin/election", headers=token)).json
        nobody = await act({"to": "meta-9"})
        assert (nobody.status, b"they are meta-1, meta-2, meta-3" in nobody.body) == (400, True)
        same = (await act({"to": before["leader"]})).json
        assert (same["done"], same["undo"]) == (False, None)
        chosen = await act({"to": next(f"meta-{n}" for n in (1, 2, 3) if f"meta-{n}" != before["leader"])})
        assert (chosen.status, b"chooses its next leader itself" in chosen.body) == (400, True), chosen
        with caplog.at_level(logging.WARNING):
            assert (await act({})).json["done"]
        await scene.cluster.ready()
        after = (await scene.gateway.ask("GET", "/v1/admin/election", headers=token)).json
        assert after["term"] > before["term"]
        said = [record.getMessage() for record in caplog.records]
        assert f"token ci-1 at 10.7.7.7 asks {before['leader']} to resign" in said
        assert "token ci-1 at 10.7.7.7 (by gateway-1) asks this leader to resign" in said

    on_admin(story, access, meta=3)


def test_each_act_is_logged_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def story(scene: AdminScene) -> None:
        await prepared(scene)
        for method, path, body in ACTS:
            caplog.clear()
            await scene.done(method, path, body)
            said = [r.getMessage() for r in caplog.records if r.name == "slotreeve.gateway.acts"]
            assert len(said) == 1, (path, said)
            assert said[0].startswith("anonymous at 10.7.7.7 ")
            assert "\n" not in said[0]

    on_admin(story)


def refusals(scene: AdminScene) -> list[tuple[dict[str, str], int]]:
    """Headers, and how a request with them is answered."""
    host = "127.0.0.1:7740"
    json_ = {"Content-Type": "application/json", "Host": host}
    return [
        (json_, 200),
        ({"Content-Type": "application/json"}, 200),
        ({**json_, "Origin": f"http://{host}"}, 200),
        ({**json_, "Origin": f"HTTPS://{host}"}, 200),
        ({**json_, "Origin": "http://127.0.0.1:7741"}, 403),
        ({**json_, "Origin": "http://127.0.0.1"}, 403),
        ({**json_, "Origin": "https://evil.example.net"}, 403),
        ({**json_, "Origin": "null"}, 403),
        ({**json_, "Origin": ""}, 403),
        ({**json_, "Origin": "http://["}, 403),
        ({**json_, "Origin": f"http://user@{host}"}, 403),
        ({"Content-Type": "application/json", "Origin": f"http://{host}"}, 403),
        ({"Content-Type": "application/json", "Origin": "null"}, 403),
        ({"Content-Type": "application/json", "Host": "evil.example.net", "Origin": "http://evil.example.net"}, 403),
        ({"Host": host}, 415),
        ({"Content-Type": "text/plain", "Host": host}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded", "Host": host}, 415),
        ({"Content-Type": "multipart/form-data", "Host": host}, 415),
    ]


@pytest.mark.parametrize("act", [*ACTS[:1], *ACTS[5:6], ("DELETE", "orders/push-stop", b"")], ids=named)
def test_acts_that_a_page_of_another_origin_could_send_are_refused(act: tuple[str, str, object]) -> None:
    method, path, body = act

    async def story(scene: AdminScene) -> None:
        before = await scene.state()
        for headers, status in refusals(scene):
            query = "?dry_run=true" if status == 200 else ""
            answer = await scene.gateway.ask(method, f"/v1/admin/{path}{query}", body, headers)
            assert answer.status == status, (headers, answer)
            assert await scene.state() == before, headers

    on_admin(story)


def test_without_the_right_for_all_services_no_act_is_done() -> None:
    for rights in (("operate:com.example.*",), ("read:*", "register:*", "operate:com.example.Shop")):
        access, token = access_with(*rights)

        async def story(scene: AdminScene, token: dict[str, str] = token) -> None:
            for headers in (token, {}, {"Authorization": "Bearer slotreeve.a.b"}):
                for method, path, body in (*ACTS, ("POST", "election/resignation", {})):
                    answer = await scene.act(method, path, body, headers)
                    assert answer.status == (403 if headers is token else 401), (path, answer)

        on_admin(story, access)


def test_hostile_names_come_back_as_data() -> None:
    async def story(scene: AdminScene) -> None:
        name = quote(ODD, safe="")
        await scene.done("PUT", f"orders/banned/{name}")
        await scene.done("PUT", f"orders/clients-off/{name}")
        await scene.done("PUT", "orders/push-stop", {"except": [ODD]})
        done = await scene.done("PUT", f"configuration/{name}", {"value": ODD})
        assert ODD in done["sentences"][0]
        assert shlex.split(done["undo"]["command"])[-1] == ODD
        orders = await scene.read("orders")
        assert orders["banned"] == orders["clients_off"] == orders["push_to"] == [ODD]
        assert (await scene.read(f"configuration/{name}"))["value"] == ODD
        assert (await scene.read("status"))["problems"]

    on_admin(story)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just("x" * 300),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(["except", "value", "base64", "expected_version", "to", "dry_run", "x"])
BODIES = st.one_of(
    st.binary(max_size=40),
    VALUES.map(lambda value: json.dumps(value).encode()),
    st.dictionaries(FIELDS, VALUES, max_size=3).map(lambda value: json.dumps(value).encode()),
)
PLACES = st.text(max_size=12).map(lambda text: quote(text.encode("utf-8", "ignore"), safe=""))
REQUESTS = st.tuples(
    st.sampled_from(["PUT", "POST", "DELETE", "GET"]),
    st.one_of(
        st.sampled_from(["orders/push-stop", "configuration/a", "election/resignation"]),
        st.builds("{}/{}".format, st.sampled_from(["orders/banned", "orders/clients-off", "drains"]), PLACES),
        st.builds("configuration/{}".format, PLACES),
        st.builds("overrides/{}/{}".format, PLACES, PLACES),
        st.builds("settings/{}".format, PLACES | st.sampled_from(["log.level", "meta.protect_below"])),
    ),
    st.sampled_from(["", "?dry_run=true", "?dry_run=maybe", "?expected_version=1", "?dry_run", "?%ff"]),
    BODIES,
)


@settings(derandomize=True)
@given(st.lists(REQUESTS, min_size=10, max_size=30))
def test_whatever_is_sent_is_answered_below_500(requests: list[tuple[str, str, str, bytes]]) -> None:
    async def story(scene: AdminScene) -> None:
        for method, path, query, body in requests:
            answer = await scene.act(method, f"{path}{query}", body)
            assert 200 <= answer.status < 500, (method, path, query, body, answer)

    on_admin(story)


NAMES = st.frozensets(st.sampled_from(["a", "b", "c", SCRIPT]))
ORDERS = st.builds(Orders, NAMES, st.booleans(), NAMES, NAMES)


@given(ORDERS)
def test_orders_that_stay_have_no_undo(orders: Orders) -> None:
    assert undo_of(orders, orders) is None


@given(st.none() | st.binary(max_size=8), st.binary(max_size=8), st.integers(1, 9))
def test_the_undo_of_a_write_has_the_value_before(before: bytes | None, after: bytes, version: int) -> None:
    undo = request_of(value_undo(ConfigEntry("k", before, version - 1), ConfigEntry("k", after, version)))
    if before is None:
        assert (undo.method, undo.path) == ("DELETE", f"/v1/admin/configuration/k?expected_version={version}")
        return
    assert undo.body is not None
    body = undo.body
    found = body["value"].encode() if "value" in body else base64.b64decode(body["base64"])
    assert (found, body["expected_version"]) == (before, version)


def test_the_largest_value_is_the_largest_that_meta_servers_take() -> None:
    assert kinds.MOST_VALUE_BYTES == configuration.MAX_VALUE_BYTES


def test_values_that_are_none_or_too_large_are_refused() -> None:
    async def story(scene: AdminScene) -> None:
        for body, status in (
            ({}, 400),
            ({"value": "a", "base64": "AA=="}, 400),
            ({"base64": "?"}, 400),
            ({"value": "x" * (kinds.MOST_VALUE_BYTES + 1)}, 413),
            ({"value": "x" * kinds.MOST_VALUE_BYTES}, 200),
        ):
            assert (await scene.act("PUT", "configuration/a", body)).status == status, str(body)[:50]
        for name in ("%20", "", "x" * 256):
            assert (await scene.act("PUT", f"orders/banned/{name}")).status == 400

    on_admin(story)
