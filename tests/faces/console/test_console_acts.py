"""What operators do in the console: preview, question, result, undo; and who may not."""

from __future__ import annotations

import asyncio
import html
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve_client.administration import get_configs
from slotreeve_face_console.act_forms import act_of, packed, unpacked
from slotreeve_gateway.acts import Act
from slotreeve_gateway.acts.kinds import ClientOff, DeleteValue, StopPush, WriteValue
from slotreeve_protocol.instance import Instance
from slotreeve_protocol.orders import ORDERS_KEY, Orders
from slotreeve_protocol.overrides import Override
from slotreeve_simulator.simulated_gateway import GatewayAnswer

from tests.faces.console.console_on_trial import FORM, OPERATOR, PAGES, READER, ConsoleOnTrial, TwoTokens, play, words

SERVICE, CLIENT, EVIL = "com.example.Web", "shop", "<script>alert('\"&1)</script>\n"
ACTS: tuple[dict[str, str], ...] = (
    {"act": "drain", "server": "data-2"},
    {"act": "ban", "server": "session-1"},
    {"act": "ban", "server": EVIL},
    {"act": "unban", "server": "data-9"},
    {"act": "stop-push"},
    {"act": "stop-push", "except_for": "10.0.0.7, -x"},
    {"act": "client-off", "client": CLIENT},
    {"act": "client-on", "client": EVIL},
    {"act": "delete", "key": "limits.rate"},
    {"act": "delete", "key": "raw"},
    {"act": "write", "key": "limits.rate", "value": "a\r\nb"},
    {"act": "write", "key": EVIL, "value": EVIL},
    {"act": "write", "key": "empty", "value": ""},
    {"act": "override", "asked": "1", "service": SERVICE, "id": "web-1", "weight": "7", "enabled": "false"},
    {"act": "override", "asked": "1", "service": SERVICE, "id": "web-2", "drain": "true", "note": EVIL},
    {"act": "clear-override", "service": SERVICE, "id": "web-1"},
    {"act": "freeze"},
    {"act": "set", "name": "data.brake_share", "value": "0.3"},
    {"act": "set", "name": "log.level", "value": "debug"},
)


def named(fields: Mapping[str, str]) -> str:
    return " ".join(fields.values())[:30].strip()


async def prepared(trial: ConsoleOnTrial) -> None:
    """What acts replace and take back."""
    registry = trial.gateway.registry
    await registry.register(SERVICE, Instance("10.0.0.1", 80, id="web-1", weight=5), 600)
    await registry.override(SERVICE, "web-1", Override(weight=3, note="slow"))
    await trial.gateway.put_config("limits.rate", b"-100")
    await trial.gateway.put_config("raw", b"\xff\x00")
    for order in ({"act": "ban", "server": "data-9"}, {"act": "client-off", "client": EVIL}):
        await done(trial, await shown(trial, order))


async def state(trial: ConsoleOnTrial) -> Mapping[str, object]:
    """All values that an act may change: the orders and the overrides are among them."""
    entries = await get_configs(*trial.gateway._servers.asked)
    return {entry.key: Orders.decode(entry.value) if entry.key == ORDERS_KEY else entry.value for entry in entries}


async def shown(trial: ConsoleOnTrial, fields: Mapping[str, str]) -> str:
    """The page that says what an act would do."""
    if fields["act"] == "write":
        page = await seen(trial, f"/ui/act?{urlencode({'act': 'write', 'key': fields['key']})}")
        answer = await sent(trial, {**hidden(page), "value": fields["value"]})
        return (await keep(trial, answer)).body.decode()
    return await seen(trial, f"/ui/act?{urlencode(fields)}")


async def seen(trial: ConsoleOnTrial, path: str) -> str:
    answer = await keep(trial, await trial.get(path))
    assert answer.status == 200, words(answer.body.decode())
    return answer.body.decode()


async def keep(trial: ConsoleOnTrial, answer: GatewayAnswer) -> GatewayAnswer:
    """As a browser: keep the cookie."""
    if "set-cookie" in answer.headers:
        made = answer.headers["set-cookie"].partition(";")[0]
        trial.cookie = "; ".join(filter(None, [trial.cookie, made]))
    return answer


def hidden(page: str) -> dict[str, str]:
    """The hidden fields of the form on a page."""
    found = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', page)
    return {name: html.unescape(value) for name, value in found}


async def sent(
    trial: ConsoleOnTrial, fields: Mapping[str, str], headers: Mapping[str, str] | None = None
) -> GatewayAnswer:
    """The answer to a form."""
    cookie = {"Cookie": trial.cookie} if trial.cookie else {}
    body = urlencode(fields).encode()
    return await trial.gateway.ask("POST", "/ui/act", body, {**FORM, **cookie, **(headers or {})})


async def done(trial: ConsoleOnTrial, page: str) -> str:
    """The page that comes of it where the button of a preview is pressed."""
    answer = await sent(trial, hidden(page))
    assert answer.status == 200, words(answer.body.decode())
    return answer.body.decode()


@pytest.mark.parametrize("fields", ACTS, ids=named)
def test_an_act_is_previewed_asked_for_once_done_and_undone(fields: dict[str, str]) -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await prepared(trial)
        before = await state(trial)
        page = await shown(trial, fields)
        assert "What this does" in page
        assert hidden(page)["step"] == "do"
        assert await state(trial) == before, "a preview changes nothing"
        result = await done(trial, page)
        assert re.search(r">\s*Done\s*<", result)
        changed = await state(trial)
        assert changed != before
        assert "Nothing changes" in words(await shown(trial, fields))
        undo = await done(trial, result)
        assert await state(trial) == changed, "the undo is previewed, too"
        assert re.search(r">\s*Done\s*<", await done(trial, undo))
        assert await state(trial) == before
        for shown_page in (page, result, undo):
            assert "<script>alert" not in shown_page

    play(story)


def test_a_drain_counts_what_moves_and_the_page_of_servers_says_that_it_is_banned() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        page = await trial.page("/ui/servers")
        assert 'href="/ui/act?act=drain&amp;server=data-2"' in page
        led, followed = re.findall(r"<b>(\d+)</b> slots (?:led|followed)", page[page.index('data-key="data-2"') :])[:2]
        text = await shown(trial, {"act": "drain", "server": "data-2"})
        said = f"Draining data-2 moves {led} leaders and {followed} followers of slots to 2 other data servers."
        assert said in words(text)
        assert "slotreeve drain --no-wait data-2" in words(text)
        await done(trial, text)
        await asyncio.sleep(60)
        page = await trial.page("/ui/servers")
        row = page[page.index('data-key="data-2"') :].partition("</tr>")[0]
        assert "<b>0</b> slots led" in row
        assert "Unban" in row
        assert "Drain" not in row
        orders = (await trial.page("/ui/")).partition('data-live="orders"')[2]
        assert "data-2 is banned." in orders
        assert 'href="/ui/act?act=unban&amp;server=data-2"' in orders

    play(story)


def test_the_leader_resigns_to_whom_the_election_chooses_and_a_page_that_is_sent_again_does_nothing() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        page = await trial.page("/ui/election")
        leader = hidden(page)["leader"]
        preview = await shown(trial, {"act": "resign", "leader": leader})
        assert f"{leader} gives up the lead" in words(preview)
        assert "no act undoes this" in words(preview)
        await done(trial, preview)
        await trial.cluster.ready()
        again = words(await done(trial, preview))
        assert f"leads now, and {leader} was to resign." in again
        assert (await trial.get("/ui/act?act=resign&to=meta-9")).status == 400

    play(story)


def test_who_acts_is_logged_here_and_told_by_the_history(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await trial.log_in(OPERATOR)
        with caplog.at_level(logging.INFO):
            await done(trial, await shown(trial, {"act": "ban", "server": f"data-3{EVIL}"}))
        [mine] = [r.getMessage() for r in caplog.records if r.name == "slotreeve.gateway.acts"]
        assert mine.startswith("token operator at 10.7.7.7 bans data-3<script>")
        assert "\n" not in mine
        await asyncio.sleep(2)
        assert "token operator at 10.7.7.7 (by gateway-1)" in await trial.words("/ui/history?kind=configured")

    play(story, TwoTokens(), settings={"history.directory": str(tmp_path)})


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "127.0.0.1:7740", "Origin": "http://127.0.0.1:7740"}, 200),
        ({"Host": "127.0.0.1:7740", "Origin": "http://127.0.0.1:7741"}, 403),
        ({"Host": "127.0.0.1:7740", "Origin": "https://evil.example.net"}, 403),
        ({"Host": "127.0.0.1:7740", "Origin": "null"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example.net", "Origin": "http://evil.example.net"}, 403),
        ({"Content-Type": "application/json"}, 400),
        ({"Content-Type": "text/plain"}, 400),
    ],
    ids=str,
)
def test_a_form_of_another_origin_does_nothing(headers: dict[str, str], status: int) -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        page = await shown(trial, {"act": "ban", "server": "data-2"})
        before = await state(trial)
        answer = await sent(trial, hidden(page), headers)
        assert answer.status == status, words(answer.body.decode())
        assert (await state(trial) == before) == (status != 200)

    play(story)


def test_a_form_without_what_this_browser_was_given_does_nothing() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        for access in ("without a cookie", "with a wrong field", "of another browser"):
            trial.cookie = ""
            fields = hidden(await shown(trial, {"act": "ban", "server": "data-2"}))
            before = await state(trial)
            if access == "without a cookie":
                trial.cookie = ""
            elif access == "with a wrong field":
                fields["form"] = "x" * 64
            else:
                trial.cookie = f"slotreeve_console_form={'A' * 43}"
            answer = await sent(trial, fields)
            assert answer.status == 403, access
            assert await state(trial) == before, access

    play(story)


def test_a_form_is_good_for_the_session_that_it_was_made_for_only() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await trial.log_in(OPERATOR)
        fields = hidden(await shown(trial, {"act": "ban", "server": "data-2"}))
        form_cookie = next(each for each in trial.cookie.split("; ") if each.startswith("slotreeve_console_form="))
        trial.cookie = f"slotreeve_console=ended; {form_cookie}"
        answer = await sent(trial, fields)
        assert answer.status == 401
        assert "The login has ended. Nothing was done." in words(answer.body.decode())
        assert hidden(answer.body.decode())["next"] == "/ui/"
        trial.cookie = ""
        await trial.log_in(OPERATOR)
        trial.cookie = f"{trial.cookie}; {form_cookie}"
        assert (await sent(trial, fields)).status == 403, "it is another session"

    play(story, TwoTokens())


def test_nothing_is_done_by_following_a_link() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await prepared(trial)
        page = await shown(trial, {"act": "ban", "server": "data-2"})
        before = await state(trial)
        for method in ("GET", "HEAD"):
            query = urlencode({**hidden(page), "step": "do"})
            await trial.gateway.ask(method, f"/ui/act?{query}", headers={"Cookie": trial.cookie})
            assert await state(trial) == before
        assert (await trial.gateway.ask("PUT", "/ui/act")).status == 405

    play(story)


def test_without_the_right_no_page_has_an_act_and_none_is_taken() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await trial.gateway.registry.register("open.Web", Instance("10.0.0.1", 80, id="web-1"), 600)
        await asyncio.sleep(2)
        await trial.log_in(OPERATOR)
        page = await shown(trial, {"act": "ban", "server": "data-2"})
        fields = hidden(page)
        await trial.log_in(READER)
        for path in ("/ui/services", "/ui/services/open.Web"):
            assert "/ui/act" not in await trial.page(path)
        before = await state(trial)
        assert (await sent(trial, fields)).status == 403
        for each in ACTS:
            assert (await trial.get(f"/ui/act?{urlencode(each)}")).status == 403
        trial.cookie = ""
        assert (await sent(trial, fields)).status == 401
        assert await state(trial) == before

    play(story, TwoTokens())


def test_a_console_that_only_shows_has_no_acts_at_all() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await trial.gateway.registry.register(SERVICE, Instance("10.0.0.1", 80, id="web-1"), 600)
        client = trial.cluster.client()
        await client.subscribe(SERVICE, lambda _: None).ready()
        await trial.gateway.put_config("limits", b"1")
        for path in (*PAGES, f"/ui/services/{SERVICE}"):
            page = await trial.page(path)
            assert "/ui/act" not in page, path
            assert "they change nothing" in page
        assert (await trial.get("/ui/act?act=ban&server=data-2")).status == 404
        assert (await trial.post("/ui/act", act="ban", server="data-2", step="do")).status == 404

    play(story, options={"read_only": True})


def test_each_page_leads_to_the_acts_on_what_it_shows() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await prepared(trial)
        client = trial.cluster.client()
        await client.subscribe(SERVICE, lambda _: None).ready()
        for act in ({"act": "freeze"}, {"act": "set", "name": "data.brake_share", "value": "0.3"}):
            await done(trial, await shown(trial, act))
        await asyncio.sleep(2)
        for path, links in (
            ("/ui/", ("act=client-on&", "act=unban&", 'value="stop-push"', 'value="client-off"')),
            ("/ui/", ("No registration ends unless", "act=thaw", 'value="freeze"')),
            ("/ui/configuration", ("data.brake_share is 0.3.", "act=unset&amp;name=data.brake_share")),
            ("/ui/configuration", ('value="set"', "data.brake_share: 0 to 1")),
            ("/ui/servers", ("act=drain&amp;server=session-1", "act=ban&amp;server=data-1")),
            ("/ui/election", ('value="resign"',)),
            ("/ui/configuration", ("act=write&amp;key=limits.rate", "act=delete&amp;key=raw", 'value="write"')),
            (f"/ui/services/{SERVICE}", ("act=override&", f"act=client-off&amp;client={client.client_id}")),
        ):
            page = await trial.page(path)
            for link in links:
                assert link in page, (path, link)
        assert "key=slotreeve." not in await trial.page("/ui/configuration")

    play(story)


def test_a_value_that_may_be_secret_stands_on_no_page_but_in_what_is_being_written() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await trial.gateway.put_config("db.password", b"hunter2")
        form = await seen(trial, "/ui/act?act=write&key=db.password")
        assert "hunter2" not in form
        answer = await sent(trial, {**hidden(form), "value": "hunter3"})
        assert "hunter3" not in words(answer.body.decode())
        result = await done(trial, answer.body.decode())
        assert "may be a secret: no undo" in words(result)
        assert "packed" not in result
        assert (await state(trial))["db.password"] == b"hunter3"

    play(story)


def test_a_write_is_refused_where_somebody_else_has_written_since_the_preview() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await prepared(trial)
        for fields in ({"act": "write", "key": "limits.rate", "value": "1"}, {"act": "delete", "key": "limits.rate"}):
            page = await shown(trial, fields)
            await trial.gateway.put_config("limits.rate", fields["act"].encode())
            answer = await sent(trial, hidden(page))
            assert answer.status == 409
            assert "Somebody else has written meanwhile." in words(answer.body.decode())
            assert (await state(trial))["limits.rate"] == fields["act"].encode()

    play(story)


def test_an_act_that_no_meta_server_takes_is_not_said_to_be_done_and_is_not_sent_again() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        page = await shown(trial, {"act": "ban", "server": "data-2"})
        for name in ("meta-1", "meta-2", "meta-3"):
            trial.cluster.kill(name)
        answer = await sent(trial, hidden(page))
        text = answer.body.decode()
        assert answer.status == 503
        assert "Whether it was done is not known" in words(text)
        assert "http-equiv" not in text, "it does not load itself again"
        again = await trial.get("/ui/act?act=ban&server=data-2")
        assert (again.status, b"http-equiv" in again.body) == (503, True)

    play(story)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "act=nothing",
        "act=ban",
        "act=ban&server=%20",
        f"act=ban&server={'x' * 256}",
        "act=drain&server=data-9",
        "act=override&asked=1&service=a&id=b",
        "act=override&asked=1&service=a&id=b&weight=70000",
        "act=override&asked=1&service=a&id=b&weight=x",
        "act=override&service=%23%40%23&id=b",
        "act=write&key=",
        "act=write&key=slotreeve.tokens",
        "act=delete&key=slotreeve.intent",
        "act=stop-push&x=1",
        "act=set&name=data.brake_share&value=2",
        "act=set&name=data.nothing&value=2",
        "act=set&value=2",
        "packed=%ff",
        "packed=e30",
    ],
)
def test_what_is_no_act_is_refused_with_the_reason(query: str) -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        answer = await trial.get(f"/ui/act?{query}")
        assert answer.status in (400, 403, 404), answer
        assert b'role="alert"' in answer.body

    play(story)


TEXTS = st.text(max_size=8)
KINDS = st.sampled_from(["ban", "drain", "client-off", "stop-push", "write", "delete", "override", "resign", "x"])
FIELDS = st.dictionaries(
    st.sampled_from(
        ["server", "client", "key", "value", "service", "id", "weight", "to", "packed", "expected_version"]
    ),
    TEXTS,
    max_size=4,
)


@settings(derandomize=True, max_examples=10)
@given(st.lists(st.tuples(KINDS, FIELDS, st.sampled_from(["preview", "do", ""])), min_size=5, max_size=20))
def test_whatever_is_sent_is_answered_below_500(requests: list[tuple[str, dict[str, str], str]]) -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        form = hidden(await shown(trial, {"act": "ban", "server": "data-2"}))["form"]
        for kind, fields, step in requests:
            answer = await sent(trial, {"act": kind, "step": step, "form": form, **fields})
            assert answer.status < 500, (kind, fields, answer)
            path = f"/ui/act?{urlencode({'act': kind, **fields})}"
            assert (await trial.get(path)).status < 500, path

    play(story)


@pytest.mark.parametrize(
    "act",
    [StopPush(("a b", "\r\n", EVIL)), ClientOff(" x "), WriteValue("k", b"\xff\r\n", 3), DeleteValue("k")],
    ids=lambda act: type(act).__name__,
)
def test_an_act_is_the_same_after_it_was_in_a_form(act: Act) -> None:
    assert unpacked(packed(act)) == act
    assert re.fullmatch(r"[A-Za-z0-9_-]+", packed(act))


def test_text_of_a_form_is_written_with_the_line_ends_of_unix() -> None:
    assert act_of({"act": ["write"], "key": ["k"], "value": ["a\r\nb"]}) == WriteValue("k", b"a\nb")
