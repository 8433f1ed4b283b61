"""What each page of the console shows, on a simulated cluster."""

from __future__ import annotations

import asyncio
import json
import re
from itertools import pairwise

import pytest
from slotreeve_client.administration import change_tokens, put_config
from slotreeve_protocol.instance import Health, Instance
from slotreeve_protocol.overrides import Override
from slotreeve_protocol.tokens import Token, hash_of
from slotreeve_simulator.simulated_gateway import GatewayAnswer
from slotreeve_transport_memory.transport import MemoryTransport

from tests.faces.console.console_on_trial import PAGES, ConsoleOnTrial, play, words

WEB = "com.example.Web"


async def register(trial: ConsoleOnTrial, *ids: str, service: str = WEB) -> None:
    for number, name in enumerate(ids):
        await trial.gateway.registry.register(service, Instance(f"10.0.0.{number + 1}", 80, id=name), 600)


def test_each_page_is_there_and_leads_to_all_others() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        for path in PAGES:
            page = await trial.page(path)
            for other in PAGES:
                assert f'<a href="{other}"' in page, (path, other)
            assert f'<a href="{path}" aria-current="page">' in page
            assert words(page).count("The cluster is well") == 1
            assert re.search("meta-. leads in term 1", words(page)), path

    play(story)


@pytest.mark.parametrize("path", [*PAGES, f"/ui/services/{WEB}", "/ui/nothing", "/ui/login?next=/ui/"])
def test_a_page_has_landmarks_and_its_headings_are_in_order(path: str) -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        page = (await trial.get(path)).body.decode() or (await trial.page("/ui/"))
        for tag in ("<main ", "<header>", "<footer>", '<html lang="en">', "<title>", 'class="skip" href="#main"'):
            assert page.count(tag) == 1, tag
        levels = [int(level) for level in re.findall(r"<h(\d)", page)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after <= before + 1 for before, after in pairwise(levels)), levels
        assert page.count("<table") == page.count("<caption>")
        for cell in re.findall(r"<th[ >][^>]*", page):
            assert "scope=" in cell, cell
        for field in re.findall(r'<input id="([^"]+)"', page):
            assert f'<label for="{field}"' in page
        ids = re.findall(r' id="([^"]+)"', page)
        assert len(ids) == len(set(ids))

    play(story)


def test_the_first_page_says_who_left_and_why_and_which_service_lost_instances() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await register(trial, "web-1", "web-2")
        await asyncio.sleep(2)
        await trial.page("/ui/")
        await trial.gateway.registry.deregister(WEB, "web-2")
        trial.cluster.kill("data-1")
        await asyncio.sleep(8)
        said = await trial.words("/ui/")
        assert f"{WEB} has 1 instance since" in said
        assert "; it had 2 at" in said
        assert re.search(r"\d\d:\d\d:\d\d UTC data server data-1 left: .+?\.", said)
        assert re.search(r"\d slots that data-1 led went to data-2, data-3 \(slot table \d+\)", said)
        assert "1 problem What is wrong" in said

    play(story)


def test_a_service_that_has_its_instances_back_lost_none() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await register(trial, "web-1", "web-2")
        await asyncio.sleep(2)
        await trial.page("/ui/")
        await trial.gateway.registry.deregister(WEB, "web-2")
        await asyncio.sleep(3)
        assert f"{WEB} has 1 instance" in await trial.words("/ui/")
        await register(trial, "web-2")
        await asyncio.sleep(3)
        assert "No service lost an instance" in await trial.words("/ui/")

    play(story)


def test_a_leader_that_is_gone_is_told_with_the_last_state_and_its_age() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await trial.page("/ui/servers")
        for name in ("meta-1", "meta-2", "meta-3"):
            trial.cluster.kill(name)
        await asyncio.sleep(30)
        await trial.get("/ui/servers")
        await asyncio.sleep(30)
        for path in ("/ui/servers", "/ui/", "/ui/slots", "/ui/election"):
            said = await trial.words(path)
            assert "Not current The servers cannot be asked since" in said, path
            assert re.search(r"This is the state of \d\d:\d\d:\d\d UTC , (6\d s|\d+ min) ago", said), said
        assert "data-1 well" in await trial.words("/ui/servers")

    play(story)


def test_while_no_meta_server_leads_the_pages_say_so_and_why() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        leader = trial.cluster.leader
        assert leader is not None
        await trial.page("/ui/election")
        others = [name for name in ("meta-1", "meta-2", "meta-3") if name != leader]
        trial.cluster.kill(leader)
        trial.cluster.kill(others[0])
        await asyncio.sleep(20)
        said = await trial.words("/ui/election")
        assert "No meta server leads" in said
        assert f"{others[1]} knows no leader" in said
        assert f"{leader} at " in said
        assert "does not answer" in said
        assert f"{leader} does not lead the meta servers any more" in await trial.words("/ui/")
        assert "unknown: no meta server leads" in await trial.words("/ui/servers")

    play(story)


def test_the_election_page_tells_each_change_of_the_leader_and_why() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        leader = trial.cluster.leader
        assert leader is not None
        said = await trial.words("/ui/election")
        assert f"Leader {leader} Term 1 Election fle" in said
        assert "Every meta server knows the same leader." in said
        trial.cluster.kill(leader)
        await trial.cluster.until(lambda: trial.cluster.leader not in (None, leader), "another leads")
        await asyncio.sleep(5)
        now, said = trial.cluster.leader, await trial.words("/ui/election")
        assert re.search(rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC {now} 2 \S.+ {now}", said), said
        assert f"{now} leads the meta servers in term 2; {leader} led before." in await trial.words("/ui/")

    play(story)


def test_a_gateway_that_never_saw_the_cluster_says_what_is_missing() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        for name in list(trial.cluster.servers):
            trial.cluster.kill(name)
        for path in ("/ui/", "/ui/slots"):
            answer = await trial.get(path)
            assert answer.status == 503
            said = words(answer.body.decode())
            assert "the state of the cluster is not known: no server answers" in said
            assert "tries again by itself" in said
            assert b'http-equiv="refresh"' in answer.body

    play(story)


def test_every_server_has_its_state_its_zone_and_its_load() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await register(trial, "web-1")
        said = await trial.words("/ui/servers")
        for name in trial.cluster.names:
            assert name in said
        assert said.count(" well before ") == 5
        assert "slots led" in said
        assert "1 registration 1 lease" in said
        trial.cluster.kill("data-2")
        await asyncio.sleep(2)
        await trial.page("/ui/servers")
        await asyncio.sleep(8)
        assert "data-2" not in await trial.words("/ui/servers")

    play(story)


def test_the_slot_map_comes_in_a_compact_form_with_a_tag() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        answer = await trial.get("/ui/slots.json")
        shown = json.loads(answer.body)
        assert shown["names"] == ["data-1", "data-2", "data-3"]
        assert shown["followers"] == 1
        assert len(shown["cells"]) == 16
        assert all(re.fullmatch(r"[012],[012]", cell) for cell in shown["cells"])
        again = await trial.get("/ui/slots.json", {"If-None-Match": answer.headers["etag"]})
        assert (again.status, again.body) == (304, b"")
        trial.cluster.kill("data-2")
        await asyncio.sleep(10)
        later = await trial.get("/ui/slots.json", {"If-None-Match": answer.headers["etag"]})
        cells = json.loads(later.body)["cells"]
        assert all("1" not in cell for cell in cells), "data-2 has no place, and the numbers of the others stay"
        said = await trial.words("/ui/slots")
        assert "16 have a leader that serves and all followers" in said

    play(story)


def test_slots_that_lack_copies_or_a_leader_are_counted() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        trial.cluster.kill("data-1")
        trial.cluster.kill("data-2")
        await asyncio.sleep(10)
        said = await trial.words("/ui/slots")
        assert "16 lack a follower" in said
        assert "Slots without all copies 16 2 copies wanted, 1 data server" in await trial.words("/ui/")
        trial.cluster.kill("data-3")
        await asyncio.sleep(10)
        await trial.page("/ui/slots")
        await asyncio.sleep(2)
        said = await trial.words("/ui/slots")
        assert "16 have no leader, or one that is gone" in said, said
        assert "Slots not serving 16 of 16" in await trial.words("/ui/")

    play(story)


def test_services_are_found_by_a_part_of_their_name_page_by_page() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        names = [f"com.example.Shop{number:03}" for number in range(230)]
        await trial.gateway.registry.register_many([(name, Instance("10.0.0.1", 80, id="a"), 600) for name in names])
        await register(trial, "web-1")
        await asyncio.sleep(2)
        said = await trial.words("/ui/services")
        assert "1 to 100 of 231" in said
        assert "Next page" in said
        last = await trial.words("/ui/services?q=shop&number=3")
        assert "201 to 230 of 230" in last
        assert names[-1] in last
        assert names[0] not in last
        assert "Previous page" in last
        assert WEB not in last
        assert "201 to 230 of 230" in await trial.words("/ui/services?q=SHOP&number=99")
        assert "No service has this in its name." in await trial.words("/ui/services?q=nothing")
        assert (await trial.get("/ui/services?number=x")).status == 400

    play(story)


def test_a_service_shows_each_field_of_its_instances_the_override_and_its_subscribers() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        registry = trial.gateway.registry
        one = Instance(
            *("10.1.2.3", 8443, "https", 70, "east", ("blue", "fast"), {"version": "2.1"}),
            *(Health.WARNING, "disk nearly full", True, "web-1"),
        )
        await registry.register(WEB, one, 600)
        await registry.override(WEB, "web-1", Override(weight=5, note="a test at noon"))
        client = trial.cluster.client()
        client.subscribe(WEB, lambda subscription: None)
        client.publish(WEB, b"bytes of its own")
        await client.flush()
        await asyncio.sleep(1)
        said = await trial.words(f"/ui/services/{WEB}")
        for text in ("https:// 10.1.2.3:8443", "east", "blue fast", "version 2.1", "warning disk nearly full"):
            assert text.replace(":// ", "://") in said, text
        assert "weight 5 a test at noon its provider says weight 70" in said
        assert "bytes of its own" in said
        assert "2 subscribers" in said, "the client, and the gateway itself"
        assert said.count(" current ") == 2
        assert "client-1" in said

    play(story)


def test_a_service_of_another_group_has_its_own_page() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        name = "a/b c#@#tenant#@#blue"
        await register(trial, "one", service=name)
        await asyncio.sleep(2)
        listed = await trial.page("/ui/services")
        link = "/ui/services/a%2Fb%20c%23%40%23tenant%23%40%23blue"
        assert f'href="{link}"' in listed
        assert "10.0.0.1:80" in await trial.words(link)
        assert (await trial.get("/ui/services/a%23%40%23b")).status == 400

    play(story)


def test_the_configuration_shows_values_but_no_secret_and_no_hash() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        leader = trial.cluster.leader
        assert leader is not None
        metas = [trial.cluster.address(leader)]
        transport = MemoryTransport(trial.gateway.clock, "an operator", trial.cluster.network)
        token = Token("greeter", hash_of("x").hex(), ("read:com.example.*",))
        await change_tokens(transport, "slotreeve", metas, lambda tokens: tokens.issued("0123456789abcdef", token))
        for key, value in (("limits.checkout", b'{"rps": 200}'), ("db.password", b"hunter2"), ("blob", b"\xff\xfe")):
            await put_config(transport, "slotreeve", metas, key, value)
        page = await trial.page("/ui/configuration")
        said = words(page)
        assert '{"rps": 200}' in said
        assert "greeter: read:com.example.*" in said
        assert "The value is no text." in said
        assert "it may be a secret" in said
        assert "hunter2" not in page
        assert token.secret_hash not in page

    play(story)


def test_what_is_no_page_is_answered_with_a_page_that_says_so() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        def said(answer: GatewayAnswer) -> str:
            return words(answer.body.decode())

        missing = await trial.get("/ui/nothing/here")
        assert missing.status == 404
        assert "There is no page '/ui/nothing/here'" in said(missing)
        wrong = await trial.gateway.ask("DELETE", "/ui/slots")
        assert (wrong.status, wrong.headers["allow"]) == (405, "GET, HEAD")
        assert "This page takes GET, HEAD, not DELETE." in said(wrong)
        assert (await trial.get("/ui")).headers["location"] == "/ui/"
        head = await trial.gateway.ask("HEAD", "/ui/slots")
        assert head.status == 200
        assert (await trial.get("/ui/events?page=nothing")).status == 404
        assert (await trial.get("/ui/static/nothing.js")).status == 404
        assert (await trial.get("/ui/static/../face.py")).status == 404

    play(story)


def test_files_have_a_tag_and_are_sent_once() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        for name, kind in (("console.css", "text/css"), ("live.js", "text/javascript"), ("icon.svg", "image/svg+xml")):
            answer = await trial.get(f"/ui/static/{name}")
            assert answer.headers["content-type"].startswith(kind)
            assert answer.headers["cache-control"] == "no-cache"
            again = await trial.get(f"/ui/static/{name}", {"If-None-Match": answer.headers["etag"]})
            assert (again.status, again.body) == (304, b"")

    play(story)
