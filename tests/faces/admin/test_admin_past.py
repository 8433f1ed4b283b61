"""What operators read of the past through the face ``admin``."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

from slotreeve_protocol.instance import Instance

from tests.faces.admin.admin_scene import JSON, SCRIPT, SERVICE, AdminScene, on_admin


def test_events_are_told_in_sentences_and_with_all_fields_the_newest_first(tmp_path: Path) -> None:
    async def story(scene: AdminScene) -> None:
        scene.cluster.kill("data-2")
        await scene.cluster.ready()
        await scene.done("PUT", "orders/push-stop", {"except": []})
        await asyncio.sleep(2)
        told = await scene.read("events")
        assert (told["silent"], told["more"]) == ({}, False)
        times = [event["at_ms"] for event in told["events"]]
        assert times == sorted(times, reverse=True)
        texts = {event["kind"]: event["text"] for event in told["events"]}
        assert texts["node_left"].startswith("data server data-2 left: ")
        assert "pushes are stopped" in texts["configured"]
        (order,) = [each["event"] for each in told["events"] if each["kind"] == "configured"]
        assert "anonymous at 10.7.7.7" in order["author"]
        only = await scene.read("events?kind=node_left&kind=leader&limit=1")
        assert ([event["kind"] for event in only["events"]], only["more"]) == (["node_left"], True)
        before = await scene.read(f"events?kind=leader&until_ms={only['events'][0]['at_ms']}")
        assert {event["kind"] for event in before["events"]} == {"leader"}

    on_admin(story, history=tmp_path)


def test_a_service_is_told_as_it_was_with_what_changed_and_why(tmp_path: Path) -> None:
    async def story(scene: AdminScene) -> None:
        await scene.gateway.registry.register(SERVICE, Instance("10.0.0.2", 8080, metadata={"note": SCRIPT}), 600)
        await asyncio.sleep(2)
        then = scene.gateway.clock.wall_ms()
        await asyncio.sleep(2)
        await scene.gateway.registry.deregister(SERVICE, "10.0.0.2:8080")
        await asyncio.sleep(2)
        past = await scene.read(f"services/{SERVICE}/past?at_ms={then}")
        assert (past["known"], past["silent"], len(past["providers"])) == ("exactly", {}, 2)
        shown = {each["instance"]["address"]: each for each in past["providers"] if each["instance"]}
        assert shown["10.0.0.2"]["instance"]["metadata"] == {"note": SCRIPT}
        (opaque,) = [each["base64"] for each in past["providers"] if each["instance"] is None]
        assert [base64.b64decode(part) for part in opaque] == [b"10.0.0.1:80"]
        assert len((await scene.read(f"services/{SERVICE}/past"))["providers"]) == 1
        changes = (await scene.read(f"services/{SERVICE}/changes"))["changes"]
        assert changes[0]["is_gone"]
        assert changes[0]["reason"] == "its lease was ended by a caller"
        assert changes[0]["text"].startswith("10.0.0.2:8080")

    on_admin(story, history=tmp_path)


def test_without_a_history_the_servers_are_named_and_what_is_now_is_told() -> None:
    async def story(scene: AdminScene) -> None:
        told = await scene.read("events")
        assert (told["events"], len(told["silent"])) == ([], 6)
        assert all("keeps no history" in why for why in told["silent"].values())
        past = await scene.read(f"services/{SERVICE}/past")
        assert (past["known"], len(past["providers"]), len(past["silent"])) == ("nothing", 1, 3)

    on_admin(story)


def test_what_is_no_question_is_refused_with_what_would_be_right(tmp_path: Path) -> None:
    async def story(scene: AdminScene) -> None:
        for path, wanted in (
            ("events?kind=nonsense", "expected one of alarm"),
            ("events?since_ms=-1", "since_ms"),
            ("events?limit=0", "limit"),
            (f"services/{SERVICE}/past?at_ms=soon", "at_ms"),
            (f"services/{SERVICE}/past?at_ms=99999999999999999999", "at_ms"),
            ("services/%23%40%23/changes", "data id"),
        ):
            answer = await scene.gateway.ask("GET", f"/v1/admin/{path}", headers=JSON)
            assert answer.status == 400, (path, answer)
            assert wanted in answer.body.decode(), (path, answer.body)

    on_admin(story, history=tmp_path)
