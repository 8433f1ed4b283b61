"""Open pages follow changes: what they cost the servers, and what is sent."""

from __future__ import annotations

import asyncio
import json

from slotreeve_protocol.instance import Instance

from tests.faces.console.console_on_trial import PAGES, ConsoleOnTrial, events_of, play

SECONDS = 30


def test_twelve_consoles_make_one_question_a_second() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        paths = [path for path in PAGES if path != "/ui/services"] * 2
        await trial.page("/ui/")
        await asyncio.sleep(3)
        before = trial.readings
        streams = await asyncio.gather(*(trial.follow(path, SECONDS) for path in paths))
        assert len(streams) == 12
        assert SECONDS - 3 <= trial.readings - before <= SECONDS + 1

    play(story)


def test_nobody_who_looks_costs_nothing() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await trial.follow("/ui/", 5)
        before = trial.readings
        await asyncio.sleep(60)
        assert trial.readings == before
        assert trial.gateway.faces["console"].counters()["console_readers"] == 0

    play(story)


def test_a_quiet_cluster_sends_nothing_but_heartbeats() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await asyncio.sleep(5)
        for path in PAGES:
            await trial.page(path)
        await asyncio.sleep(2)
        for path in PAGES:
            stream = await trial.follow(path, 40)
            assert events_of(stream) == [], path
            assert stream.count(":\n\n") == 3

    play(story)


def test_only_what_changed_is_sent() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await asyncio.sleep(5)
        for path in ("/ui/servers", "/ui/slots"):
            await trial.page(path)
        servers = asyncio.create_task(trial.follow("/ui/servers", 6))
        slots = asyncio.create_task(trial.follow("/ui/slots", 6))
        await asyncio.sleep(2)
        await trial.gateway.registry.register("com.example.Web", Instance("10.0.0.1", 80), 600)
        events = events_of(await servers)
        assert events
        changed = [key for event in events for change in event.values() for key in change.get("set", {})]
        assert set(changed) < {"data-1", "data-2", "data-3", "session-1", "session-2"}
        assert not any("order" in change for event in events for change in event.values())
        assert events_of(await slots) == [], "a registration changes no slot"

    play(story)


def test_the_slot_map_is_sent_as_the_cells_that_changed() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await asyncio.sleep(5)
        before = json.loads((await trial.get("/ui/slots.json")).body)["cells"]
        following = asyncio.create_task(trial.follow("/ui/slots", 20))
        await asyncio.sleep(1)
        trial.cluster.kill("data-3")
        for event in events_of(await following):
            change = event.get("cells", {})
            assert "order" not in change
            cells = change.get("set", {})
            assert isinstance(cells, dict)
            for slot, text in cells.items():
                before[int(slot)] = text
        assert before == json.loads((await trial.get("/ui/slots.json")).body)["cells"]

    play(story)


def test_a_page_of_another_gateway_gets_everything_once() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await trial.page("/ui/servers")
        for after in ("&after=0123abcd-7", "", "&after=x", "&after=-1"):
            answer = await trial.get(f"/ui/events?page=servers{after}", leave=3)
            [event] = events_of(answer.body.decode())
            assert event["data"]["order"] == ["data-1", "data-2", "data-3"]

    play(story)


def test_a_page_that_connects_again_goes_on_where_it_was() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        stream = (await trial.get("/ui/events?page=servers", leave=3)).body.decode()
        last = [line.removeprefix("id: ") for line in stream.splitlines() if line.startswith("id: ")][-1]
        answer = await trial.get("/ui/events?page=servers", {"Last-Event-ID": last}, leave=3)
        assert events_of(answer.body.decode()) == []

    play(story)


def test_a_service_that_changes_is_seen_on_its_open_page() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        registry = trial.gateway.registry
        await registry.register("com.example.Web", Instance("10.0.0.1", 80, id="a"), 600)
        following = asyncio.create_task(trial.follow("/ui/services/com.example.Web", 6))
        await asyncio.sleep(2)
        await registry.register("com.example.Web", Instance("10.0.0.2", 80, id="b"), 600)
        stream = await following
        assert "10.0.0.2:80" in stream
        assert "10.0.0.1:80" not in stream

    play(story)


def test_more_open_pages_than_are_allowed_are_refused() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        following = [asyncio.create_task(trial.follow("/ui/", 5)) for _ in range(2)]
        await asyncio.sleep(1)
        refused = await trial.get("/ui/events?page=first")
        assert refused.status == 503
        assert b"2 pages are open already" in refused.body
        await asyncio.gather(*following)

    play(story, options={"most_readers": 2})


def test_a_stream_ends_after_its_time() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        answer = await trial.get("/ui/events?page=first")
        assert 9 <= answer.seconds <= 11

    play(story, options={"stream_seconds": 10})


def test_servers_that_are_slow_are_asked_less_often() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await trial.page("/ui/")
        trial.cluster.freeze("data-1")
        before = trial.readings
        await trial.follow("/ui/servers", 8)
        assert trial.readings - before <= 3

    play(story)
