"""Settings that change while servers run, through the face ``admin``."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from slotreeve_protocol.live_settings import SETTINGS_KEY

from tests.faces.admin.admin_scene import AdminScene, on_admin
from tests.faces.stage import OnStage, Stage


async def rows(scene: AdminScene, name: str) -> list[Any]:
    return [one for one in (await scene.read("settings"))["settings"] if one["name"] == name]


def test_what_is_in_force_is_shown_beside_what_is_configured_at_each_server() -> None:
    async def story(scene: AdminScene) -> None:
        (row,) = await rows(scene, "data.brake_few")
        assert row == {
            "name": "data.brake_few",
            "value": 64,
            "live": False,
            "configured": 64,
            "origin": "default",
            "bounds": "a whole number from 0 to 1000000",
            "servers": ["data-1", "data-2", "data-3"],
        }
        done = await scene.done("PUT", "settings/data.brake_few", {"value": 9})
        assert done["sentences"] == ["data.brake_few becomes 9 at data-1, data-2, data-3, where it is 64 (default)."]
        assert done["undo"] == {
            "method": "DELETE",
            "path": "/v1/admin/settings/data.brake_few",
            "body": None,
            "command": "slotreeve settings unset data.brake_few",
        }
        await asyncio.sleep(2)
        (row,) = await rows(scene, "data.brake_few")
        assert (row["value"], row["live"], row["configured"]) == (9, True, 64)
        again = await scene.done("PUT", "settings/data.brake_few", {"value": 7})
        assert again["sentences"][0].endswith("where it is 9 (changed; 64 is its default).")
        assert again["undo"]["body"] == {"value": 9}
        removed = await scene.done("DELETE", "settings/data.brake_few?dry_run=true")
        assert removed["sentences"][0].startswith("data.brake_few becomes 64 (default) at data-1")
        report = await scene.read("settings")
        assert (report["version"], report["silent"]) == (2, {})

    on_admin(story)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("data.brake_share", 3, "the setting data.brake_share is 3; expected 0 to 1"),
        ("data.brake_share", "x", "the setting data.brake_share is 'x'; expected 0 to 1"),
        ("data.departure_shar", 0.5, "did you mean data.brake_share"),
        ("cluster.slots", 7, "can be changed while servers run"),
    ],
)
def test_what_may_not_be_set_is_refused_with_the_bounds(name: str, value: object, said: str) -> None:
    async def story(scene: AdminScene) -> None:
        for query in ("", "?dry_run=true"):
            answer = await scene.act("PUT", f"settings/{name}{query}", {"value": value})
            assert (answer.status, said in answer.body.decode()) == (400, True), answer
        for body in ({}, {"value": None}, {"value": [1]}, {"value": True}, {"value": 1, "x": 2}):
            assert (await scene.act("PUT", f"settings/{name}", body)).status == 400
        assert (await scene.read("settings"))["version"] == 0

    on_admin(story)


def test_a_server_that_does_not_answer_is_named() -> None:
    async def story(scene: AdminScene) -> None:
        scene.cluster.kill("data-2")
        report = await scene.read("settings")
        assert list(report["silent"]) in (["data-2"], [])
        assert all("data-2" not in one["servers"] for one in report["settings"])

    on_admin(story)


def test_a_gateway_follows_and_shows_its_own_settings(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        async def shown() -> list[tuple[str, object, object, str]]:
            found = (await stage.http.get("/v1/admin/settings")).json()["settings"]
            return [
                (one["name"], one["value"], one["configured"], one["origin"])
                for one in found
                if one["servers"] == ["gateway-1"] and one["name"] != "log.level"
            ]

        fresh = "gateway.directory_seconds"
        assert (fresh, 0.1, 0.1, f"flag for {fresh}") in await shown()
        for name, value in (("gateway.most_services", 1), (fresh, 7.5), ("gateway.most_connections", 77)):
            done = await stage.http.put(f"/v1/admin/settings/{name}", json={"value": value})
            assert done.json()["done"], done.text
            assert done.json()["sentences"][0].startswith(f"{name} becomes {value} at gateway-1, ")

        async def follows() -> bool:
            return (fresh, 7.5, 0.1, f"flag for {fresh}") in await shown() and (
                "gateway.most_connections",
                77,
                20_000,
                "default",
            ) in await shown()

        await stage.until(follows, "the gateway follows")
        for service in ("a", "b"):
            await stage.sdk.publish(service, "10.0.0.1:80").acknowledged()
        index = (await stage.http.get("/v1/services/a/instances")).json()["index"]
        waits = f"/v1/services/a/instances?index={index}&wait=60"
        waiting = asyncio.create_task(stage.http.get(waits, timeout=90))

        async def is_full() -> bool:
            nonlocal waiting
            if waiting.done():  # the other service had taken its place before it waited
                waiting = asyncio.create_task(stage.http.get(waits, timeout=90))
            await asyncio.sleep(0.1)
            return (await stage.http.get("/v1/services/b/instances")).status_code == 503

        await stage.until(is_full, "the one place is taken by who waits")
        await stage.http.request("DELETE", "/v1/admin/settings/gateway.most_services", headers=JSON)

        async def lets_in() -> bool:
            return (await stage.http.get("/v1/services/b/instances")).status_code == 200

        await stage.until(lets_in, "the second service is watched")
        waiting.cancel()
        assert SETTINGS_KEY in (await stage.http.get("/v1/admin/configuration")).text

    on_stage(story, faces="rest,admin")


JSON = {"Content-Type": "application/json"}
