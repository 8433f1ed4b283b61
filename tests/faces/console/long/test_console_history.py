"""What the console tells of the past, on a simulated cluster whose servers keep a history."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from slotreeve_protocol.instance import Instance
from slotreeve_simulator.simulated_gateway import SimulatedGateway

from tests.faces.console.console_on_trial import OPERATOR, READER, ConsoleOnTrial, Story, TwoTokens, events_of, words
from tests.faces.console.console_on_trial import play as play_without_history

WEB = "com.example.Web"


def play(tmp_path: Path, story: Story, access: TwoTokens | None = None, **settings: object) -> None:
    every = {"history.directory": str(tmp_path), **settings}
    play_without_history(story, access, settings=every)


async def register(trial: ConsoleOnTrial, *ids: str, service: str = WEB) -> None:
    for number, name in enumerate(ids):
        await trial.gateway.registry.register(service, Instance(f"10.0.0.{number + 1}", 80, id=name), 4000)


async def late_console(trial: ConsoleOnTrial) -> ConsoleOnTrial:
    """Somebody opens the console of another gateway, which has seen nothing yet."""
    gateway = SimulatedGateway(trial.cluster, "gateway-2")
    await gateway.start_face("console")
    return ConsoleOnTrial(trial.cluster, gateway)


def test_the_history_tells_what_happened_the_newest_first(tmp_path: Path) -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await asyncio.sleep(2)
        trial.cluster.kill("data-1")
        await asyncio.sleep(10)
        page = await trial.page("/ui/history")
        said = words(page)
        assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC meta-\d node_left data server data-1 left: ", said), said
        assert re.search(r"meta-\d table meta-\d committed table \d+: ", said)
        assert "session server session-1 joined." in said
        times = re.findall(r'<td class="time">([^<]+)</td>', page)
        assert len(times) > 10
        assert times == sorted(times, reverse=True)
        assert "client_joined" not in re.findall(r"</td><td>(\w+)</td>", page)
        assert "There is nothing older in this time span." in said

    play(tmp_path, story)


def test_the_history_is_filtered_by_kind_text_and_time(tmp_path: Path) -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await asyncio.sleep(5)
        before_ms = trial.gateway.clock.wall_ms()
        trial.cluster.kill("data-1")
        await asyncio.sleep(10)
        left = await trial.words("/ui/history?span=30m&kind=node_left&kind=node_joined")
        assert "data server data-1 left" in left
        assert "data server data-2 joined" in left
        earlier = await trial.words(f"/ui/history?before={before_ms}")
        assert "data server data-1 left" not in earlier
        assert "data server data-2 joined" in earlier
        assert "the newest first, before 2023-11-14 22:13:2" in earlier
        assert "committed table" not in left
        joined = await trial.page("/ui/history?span=1h&kind=node_joined&q=DATA-2")
        assert "data server data-2 joined" in joined
        assert "data server data-3 joined" not in joined
        assert '<option value="1h" selected>' in joined
        assert re.findall(r'value="(\w+)" checked', joined) == ["node_joined"]
        assert 'value="DATA-2"' in joined
        nothing = await trial.words("/ui/history?q=no+such+thing")
        assert "Nothing of this kind is known to have happened." in nothing
        for query in ("kind=nothing", "span=2h", "before=x", "before=1234567890123456", "&".join(["q=x"] * 50)):
            answer = await trial.get(f"/ui/history?{query}")
            assert answer.status == 400, query
            assert (await trial.get(f"/ui/events?page=history&{query}")).status == 400

    play(tmp_path, story)


def test_older_pages_tell_each_event_once(tmp_path: Path) -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        for number in range(130):
            client = trial.cluster.client(name=f"caller-{number}")
            client.publish(WEB, "a")
            await client.flush()
            await client.close()
            await asyncio.sleep(0.05)
        await asyncio.sleep(2)
        path, seen, pages = "/ui/history?kind=client_joined&kind=client_left", [], 0
        while True:
            page = await trial.page(path)
            pages += 1
            seen += re.findall(r'<tr data-key="([^"]+)"><td class="time">', page)
            older = re.search(r'<a rel="next" href="([^"]+)">Older</a>', page)
            assert ("Newest</a>" in page) == (pages > 1)
            if older is None:
                break
            path = "/ui/history" + older[1].replace("&amp;", "&")
        assert pages >= 3
        assert len(seen) == len(set(seen))
        assert len(seen) >= 260
        found = await trial.page("/ui/history?kind=client_joined&q=FROM+caller-3:")
        assert re.findall(r"from (caller-[^ ]+):0", found) == ["caller-3"]

    play(tmp_path, story)


def test_an_open_history_follows_what_happens_and_asks_seldom(tmp_path: Path) -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await asyncio.sleep(5)
        await trial.page("/ui/history")
        following = [asyncio.create_task(trial.follow("/ui/history", 25)) for _ in range(3)]
        await asyncio.sleep(3)
        trial.cluster.kill("data-3")
        for stream in await asyncio.gather(*following):
            assert "data server data-3 left: " in stream
            changed = [key for event in events_of(stream) for key in event.get("events", {}).get("set", {})]
            assert len(changed) == len(set(changed)), "what is there already is not sent again"
        quiet = await trial.follow("/ui/history?kind=started", 40)
        assert events_of(quiet) == []

    play(tmp_path, story)


def test_whoever_opens_the_console_after_an_incident_sees_it(tmp_path: Path) -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await register(trial, "web-1", "web-2", "web-3")
        await register(trial, "one", service="com.example.Other")
        await asyncio.sleep(2)
        for name in ("web-2", "web-3"):
            await trial.gateway.registry.deregister(WEB, name)
        await trial.gateway.registry.deregister("com.example.Other", "one")
        trial.cluster.kill("data-1")
        await asyncio.sleep(60)
        late = await late_console(trial)
        said = await late.words("/ui/")
        assert re.search(r"\d\d:\d\d:\d\d UTC data server data-1 left: .+?\.", said), said
        news = said[said.index("What changed lately") : said.index("Services and subscribers")]
        history = await late.words("/ui/history?kind=node_left")
        left = "data server data-1 left"
        assert news.count(left) == history.count(left), "the meta leader tells the same, which is said once"
        assert re.search(r"meta-\d committed (table \d+|\d+ tables, \d+ to \d+): ", said)
        losses = said[said.index("Services that lost instances") : said.index("Who lags")]
        assert re.search(rf"{WEB} 2 instances ended, the last at \d\d:\d\d:\d\d UTC: .+?\. It has 1 now\.", losses), (
            losses
        )
        assert re.search(r"com\.example\.Other 1 instance ended at .+?\. It has none now\.", losses)
        assert losses.index(WEB) < losses.index("com.example.Other"), "most ends first"

    play(tmp_path, story)


def test_where_a_meta_server_does_not_tell_the_gateway_tells_what_it_has_seen(tmp_path: Path) -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await asyncio.sleep(2)
        leader = trial.cluster.leader
        assert leader is not None
        await trial.page("/ui/")
        trial.cluster.kill(leader)
        await trial.cluster.until(lambda: trial.cluster.leader not in (None, leader), "another leads")
        await asyncio.sleep(10)
        said = await trial.words("/ui/")
        assert f"{trial.cluster.leader} leads the meta servers in term 2; {leader} led before." in said
        assert f"{trial.cluster.leader} leads in term 2: " in said, "the history has it, too"

    play(tmp_path, story)


def test_a_service_has_a_timeline_and_is_shown_as_it_was(tmp_path: Path) -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await asyncio.sleep(1)
        await register(trial, "web-1", "web-2")
        await asyncio.sleep(120)
        await trial.gateway.registry.deregister(WEB, "web-2")
        await asyncio.sleep(60)
        now = await trial.words(f"/ui/services/{WEB}")
        timeline = now[now.index("What changed") :]
        assert re.search(r"UTC 10\.0\.0\.2:80 \(web-2\) ended: .+?\. Told by data-\d\.", timeline), timeline
        assert timeline.index("ended: ") < timeline.index("was registered, or changed")
        for text in ("2", "2 min ago", "120s", "2m"):
            then = words(await trial.page(f"/ui/services/{WEB}?at={text.replace(' ', '+')}"))
            assert "10.0.0.2:80" in then[: then.index("What changed")], text
            assert re.search(
                r"The instances as of \S+ \S+ UTC; the last change before was at \S+ \S+ UTC, told by d", then
            )
            assert "Show the present" in then
        later = await trial.words(f"/ui/services/{WEB}?at=0.5")
        assert "10.0.0.2:80" not in later[: later.index("What changed")]
        assert "10.0.0.1:80" in later
        before = await trial.words(f"/ui/services/{WEB}?at=10m")
        assert "as before the first change that is known" in before
        assert "The history begins at " in before
        for wrong in ("soon", "25:00", "2999-01-01"):
            answer = await trial.get(f"/ui/services/{WEB}?at={wrong}")
            assert answer.status == 400, wrong
        stream = await trial.follow(f"/ui/services/{WEB}?at=2", 12)
        assert events_of(stream) == []

    play(tmp_path, story)


def test_a_timeline_is_bounded(tmp_path: Path) -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        client = trial.cluster.client()
        registrations = [client.publish(WEB, f"10.0.0.{number}:80") for number in range(80)]
        await client.flush()
        await asyncio.sleep(2)
        for registration in registrations:
            registration.unpublish()
        await client.flush()
        await asyncio.sleep(2)
        page = await trial.page(f"/ui/services/{WEB}")
        assert page.count('<span class="quiet">Told by ') == 50

    play(tmp_path, story)


def test_the_moves_of_a_slot_are_told(tmp_path: Path) -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await asyncio.sleep(2)
        cells = json.loads((await trial.get("/ui/slots.json")).body)
        number = cells["names"].index("data-1")
        slot = next(slot for slot, cell in enumerate(cells["cells"]) if cell.split(",")[0] == str(number))
        trial.cluster.kill("data-1")
        await asyncio.sleep(10)
        told = (await trial.get(f"/ui/slots/moves.json?slot={slot}")).json
        assert told["notes"] == [] or all("history of a server begins" in note for note in told["notes"])
        texts = [text for _, text in told["moves"]]
        assert any(text.startswith(f"slot {slot}: ") and "data-1" in text for text in texts), texts
        times = [at for at, _ in told["moves"]]
        assert times == sorted(times, reverse=True)
        assert (await trial.get("/ui/slots/moves.json?slot=x")).status == 400
        assert (await trial.get("/ui/slots/moves.json?slot=9999")).json["moves"] == []

    play(tmp_path, story)


def test_the_slot_map_of_an_earlier_time_is_made_again(tmp_path: Path) -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        async def shown() -> dict[int, list[str]]:
            await asyncio.sleep(2)
            found = (await trial.get("/ui/slots.json")).json
            return {slot: places(cell, found["names"]) for slot, cell in enumerate(found["cells"])}

        was: dict[int, dict[int, list[str]]] = {}
        for round_number in range(3):
            if round_number == 1:
                trial.cluster.kill("data-1")
            await asyncio.sleep(40)
            seen = await shown()
            was[trial.gateway.clock.wall_ms() - 1] = seen
        await trial.cluster.start("data-1")
        await asyncio.sleep(60)
        was[trial.gateway.clock.wall_ms()] = await shown()
        past = (await trial.get("/ui/slots/past.json")).json
        for at_ms, expected in was.items():
            cells: list[str] = list(past["cells"])
            for step in past["steps"]:
                if step["at_ms"] <= at_ms:
                    for slot, cell in step["cells"].items():
                        cells[int(slot)] = cell
            assert {slot: places(cell, past["names"]) for slot, cell in enumerate(cells)} == expected

    play(tmp_path, story)


def places(cell: str, names: list[str]) -> list[str]:
    return ["unknown"] if cell == "?" else [names[int(place)] for place in cell.rstrip("gsc").split(",")]


@pytest.mark.parametrize("path", ["/ui/history", "/ui/", f"/ui/services/{WEB}", f"/ui/services/{WEB}?at=0"])
def test_servers_that_do_not_tell_are_named_and_so_is_a_history_that_begins_late(tmp_path: Path, path: str) -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await register(trial, "web-1")
        await asyncio.sleep(2)
        trial.cluster.freeze("data-2")
        said = await trial.words(path)
        assert re.search(r"data-2 does not tell of the past: [^.]+", said), said
        assert "The history of a server begins at " in said

    play(tmp_path, story)


def test_while_nobody_can_be_asked_what_was_told_before_stays(tmp_path: Path) -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await asyncio.sleep(2)
        assert "data server data-2 joined" in await trial.words("/ui/history")
        for name in ("meta-1", "meta-2", "meta-3"):
            trial.cluster.kill(name)
        await asyncio.sleep(30)
        await trial.get("/ui/history")
        await asyncio.sleep(30)
        said = await trial.words("/ui/history")
        assert re.search(
            r"This is what was told at \d\d:\d\d:\d\d UTC. The past cannot be asked for now: no server", said
        )
        assert "data server data-2 joined" in said

    play(tmp_path, story)


def test_a_cluster_without_a_history_says_so_once() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        said = await trial.words("/ui/history")
        assert said.count("do not tell of the past") == 1, said
        for name in ("data-1", "session-2"):
            assert name in said

    play_without_history(story)


def test_the_history_is_for_operators(tmp_path: Path) -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await register(trial, "web-1", service="open.Web")
        await asyncio.sleep(2)
        paths = ("/ui/history", "/ui/slots/moves.json?slot=1", "/ui/slots/past.json", "/ui/events?page=history")
        for path in paths:
            assert (await trial.get(path, leave=2)).status == 401, path
        await trial.log_in(READER)
        for path in (*paths, "/ui/services/open.Web?at=1m", "/ui/events?page=service&name=open.Web&at=1m"):
            answer = await trial.get(path, leave=2)
            assert answer.status == 403, path
            assert b"data-1" not in answer.body
        shown = await trial.words("/ui/services/open.Web")
        assert "What changed" not in shown
        assert "As of" not in shown
        trial.cookie = ""
        await trial.log_in(OPERATOR)
        for path in (*paths, "/ui/services/open.Web?at=0"):
            assert (await trial.get(path, leave=2)).status in (200, 0), path

    play(tmp_path, story, TwoTokens())


def test_what_is_asked_of_the_servers_is_shared_and_seldom(tmp_path: Path) -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        def asked() -> int:
            return trial.gateway.faces["console"].counters()["console_past_questions"]

        await asyncio.sleep(2)
        await trial.page("/ui/history")
        before = asked()
        await asyncio.gather(*(trial.follow("/ui/history", 20) for _ in range(5)))
        assert 3 <= asked() - before <= 5
        before = asked()
        await asyncio.sleep(60)
        assert asked() == before, "nobody looks"

    play(tmp_path, story)
