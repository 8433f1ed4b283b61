"""The console against strangers: tokens, sessions, what clients put into fields, the policy of content."""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from slotreeve.errors import ModelError
from slotreeve_face_console.sessions import LoginSessions
from slotreeve_gateway import Caller
from slotreeve_protocol.instance import Instance
from slotreeve_protocol.overrides import Override

from tests.faces.console.console_on_trial import OPERATOR, PAGES, READER, ConsoleOnTrial, TwoTokens, events_of, play

EVIL = "<script>alert('\"&1)</script>"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
SECRETS = ("data-1", "session-1", "10.0.0.1", "com.example", "limits")
"""Some of which every page of a logged-in operator shows."""


def test_each_answer_forbids_what_is_not_its_own() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        others = ("/ui", "/ui/nothing", "/ui/login", "/ui/slots.json", "/ui/static/live.js", "/ui/static/no.js")
        for path in (
            *PAGES,
            *others,
            "/ui/services/com.example.Web",
            "/ui/events?page=first",
            "/ui/services/%23%40%23",
        ):
            headers = (await trial.get(path, leave=1)).headers
            assert headers["content-security-policy"] == POLICY, path
            assert headers["x-content-type-options"] == "nosniff", path
            assert headers["referrer-policy"] == "same-origin", path
        for method, path in (("POST", "/ui/login"), ("POST", "/ui/logout"), ("PUT", "/ui/slots"), ("POST", "/ui/x")):
            headers = (await trial.gateway.ask(method, path)).headers
            assert headers["content-security-policy"] == POLICY, path

    play(story)


def test_no_page_has_a_script_or_a_style_in_it() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await trial.gateway.registry.register("com.example.Web", Instance("10.0.0.1", 80), 600)
        for path in (*PAGES, "/ui/services/com.example.Web", "/ui/nothing"):
            page = (await trial.get(path)).body.decode()
            assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", page, re.IGNORECASE), path
            for script in re.findall(r"<script[^>]*>[^<]*", page):
                assert re.fullmatch(r'<script( type="module")? src="/ui/static/[a-z]+\.js">', script), script
            assert "http://" not in page.replace("http://10.", "")
            assert "https://" not in page

    play(story)


def test_what_clients_say_comes_out_as_text(tmp_path: Path) -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        registry = trial.gateway.registry
        service = f"com.{EVIL}.S"
        plain = Instance("10.0.0.1", 80, id="plain")
        odd: tuple[dict[str, object], ...] = (
            {"metadata": {EVIL: EVIL}},
            {"tags": (EVIL,)},
            {"zone": EVIL},
            {"health_note": EVIL},
            {"id": EVIL},
            {"address": EVIL},
            {"scheme": EVIL},
        )
        taken = 0
        for number, fields in enumerate(odd):
            with suppress(ModelError):
                await registry.register(service, msgspec.structs.replace(plain, **{"id": f"i-{number}", **fields}), 600)
                taken += 1
        assert taken == 5, "an address and a scheme cannot hold it"
        await registry.override(service, "i-1", Override(weight=1, note=EVIL))
        client = trial.cluster.client(name=EVIL, zone=EVIL)
        client.subscribe(service, lambda subscription: None)
        client.publish(service, EVIL.encode())
        await client.flush()
        logging.getLogger("slotreeve.test").warning("ALARM %s", EVIL)
        await trial.gateway.put_config("limits", EVIL.encode())
        await trial.gateway.put_config(f"limits.{EVIL}", b"1")
        await asyncio.sleep(2)
        link = re.search(r'href="(/ui/services/com[^"]+)"', await trial.page("/ui/services"))
        assert link is not None
        paths = (*PAGES, link[1], f"{link[1]}?at=0", "/ui/services?q=%3Cscript%3E", "/ui/<script>")
        history = ("/ui/history?kind=client_joined", "/ui/history?q=%3Cscript%3E", f"/ui/history?span={EVIL}")
        for path in (*paths, *history, f"{link[1]}?at={EVIL}", "/ui/history?kind=alarm", f"/ui/login?next={EVIL}"):
            answer = await trial.get(path)
            assert b"<script>" not in answer.body, path
            assert b"alert('" not in answer.body, path
        events = await trial.get(f"/ui/events?page=service&name={link[1].rpartition('/')[2]}", leave=3)
        [event] = events_of(events.body.decode())
        assert len(event["providers"]["set"]) == 6
        for region in event.values():
            assert not any("<script>" in piece for piece in region["set"].values())
        page = await trial.page(link[1])
        assert page.count("&lt;script&gt;") >= 8
        timeline = page[page.index('data-live="timeline"') :]
        assert timeline.count("&lt;script&gt;") >= 2, "an id and a payload"
        assert "from &lt;script&gt;" in await trial.page("/ui/history?kind=client_joined")
        assert "ALARM &lt;script&gt;" in await trial.page("/ui/history?kind=alarm")
        assert "&lt;script&gt;" in await trial.page("/ui/history?kind=configured")
        await registry.deregister(service, "i-1")
        await asyncio.sleep(6)
        first = await trial.page("/ui/")
        assert "<script>" not in first
        assert "1 instance ended" in first
        assert "&lt;script&gt;" in first

    play(story, settings={"history.directory": str(tmp_path)})


def test_without_a_token_there_is_the_login_and_nothing_else() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await trial.gateway.registry.register("com.example.Web", Instance("10.0.0.1", 80), 600)
        for cookie in ("", "slotreeve_console=wrong", "slotreeve_console", 'slotreeve_console="\\', ";;=;"):
            trial.cookie = cookie
            for path in (*PAGES, "/ui/services/com.example.Web", "/ui/slots.json", "/ui/events?page=first"):
                answer = await trial.get(path)
                assert answer.status == 401, (cookie, path)
                assert b'<form method="post" action="/ui/login"' in answer.body
                for secret in SECRETS:
                    assert secret.encode() not in answer.body.replace(path.encode(), b""), (path, secret)
        assert trial.readings == 0, "nobody asked for what he may see"

    play(story, TwoTokens())


def test_a_wrong_token_leads_to_the_login_again() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        for token in ("wrong", "", " ", "x" * 9_000):
            answer = await trial.log_in(token)
            assert answer.status == 401, token
            assert "set-cookie" not in answer.headers
            assert b'name="token"' in answer.body
        assert (await trial.gateway.ask("POST", "/ui/login", b"\xff", {"Content-Type": "text/plain"})).status == 400
        assert (await trial.post("/ui/login", token="x" * 20_000)).status == 413

    play(story, TwoTokens())


def test_whoever_logs_in_sees_the_page_that_he_asked_for_until_he_logs_out() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        asked = await trial.get("/ui/slots?x=1")
        assert b'name="next" value="/ui/slots?x=1"' in asked.body
        assert b'role="alert">' not in asked.body, "nothing is wrong yet"
        wrong = await trial.log_in("wrong", next="/ui/slots?x=1")
        assert b'name="next" value="/ui/slots?x=1"' in wrong.body
        assert b"The token is unknown or revoked." in wrong.body
        answer = await trial.log_in(OPERATOR, next="/ui/slots?x=1")
        assert (answer.status, answer.headers["location"]) == (303, "/ui/slots?x=1")
        cookie = answer.headers["set-cookie"]
        for part in ("HttpOnly", "SameSite=Strict", "Path=/ui", "Max-Age=28800"):
            assert part in cookie
        assert "Secure" not in cookie
        assert OPERATOR not in cookie
        for path in PAGES:
            page = await trial.page(path)
            assert 'action="/ui/logout"' in page
            assert OPERATOR not in page
        out = await trial.post("/ui/logout")
        assert (out.status, out.headers["location"]) == (303, "/ui/login")
        assert "Max-Age=0" in out.headers["set-cookie"]
        again = await trial.get("/ui/")
        assert again.status == 401, "the session is gone, even for who has kept its cookie"
        assert b"The login has ended." in again.body

    play(story, TwoTokens())


@pytest.mark.parametrize(
    "place", ["https://evil.example/", "//evil.example", "/ui/\\evil", "/v1/services", "/ui/logout", "", "/ui/\nx"]
)
def test_the_login_leads_to_pages_of_the_console_only(place: str) -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        assert (await trial.log_in(OPERATOR, next=place)).headers["location"] == "/ui/"

    play(story, TwoTokens())


def test_forms_of_other_sites_neither_log_in_nor_out() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        """A browser sends no cookie of the console with them."""
        for form in ("", "x" * 43):
            answer = await trial.post("/ui/login", token=OPERATOR, form=form)
            assert answer.status == 403
            assert "slotreeve_console=" not in answer.headers["set-cookie"]
        await trial.log_in(OPERATOR)
        out = await trial.post("/ui/logout", {"Cookie": ""})
        assert "set-cookie" not in out.headers, "the browser keeps its session"
        assert (await trial.get("/ui/")).status == 200

    play(story, TwoTokens())


def test_two_tabs_with_the_login_both_work() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        first = await trial.get("/ui/")
        trial.cookie = first.headers["set-cookie"].partition(";")[0]
        second = await trial.get("/ui/slots")
        assert "set-cookie" not in second.headers
        [one, other] = [re.findall('name="form" value="([^"]*)"', page.body.decode()) for page in (first, second)]
        assert one == other

    play(story, TwoTokens())


def test_a_session_ends_with_its_hours_and_with_its_token() -> None:
    access = TwoTokens()

    async def story(trial: ConsoleOnTrial) -> None:
        await trial.log_in(OPERATOR)
        assert (await trial.get("/ui/")).status == 200
        access.revoked.add(OPERATOR)
        assert (await trial.get("/ui/")).status == 401
        access.revoked.clear()
        assert (await trial.get("/ui/")).status == 200
        await asyncio.sleep(30)
        assert (await trial.get("/ui/")).status == 401

    play(story, access, {"session_hours": 0.008})


def test_an_open_page_follows_nothing_any_more_once_its_token_is_revoked() -> None:
    access = TwoTokens()

    async def story(trial: ConsoleOnTrial) -> None:
        await trial.log_in(OPERATOR)
        following = asyncio.create_task(trial.follow("/ui/servers", 120))
        await asyncio.sleep(5)
        access.revoked.add(OPERATOR)
        trial.cluster.kill("data-1")
        await asyncio.sleep(20)
        assert following.done()
        assert "silent" not in await following

    play(story, access)


def test_the_oldest_of_too_many_sessions_ends() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await trial.log_in(OPERATOR)
        first = trial.cookie
        for _ in range(3):
            trial.cookie = ""
            await trial.log_in(OPERATOR)
        trial.cookie = first
        assert (await trial.get("/ui/")).status == 401
        assert trial.gateway.faces["console"].counters()["console_sessions"] == 3

    play(story, TwoTokens(), {"most_sessions": 3})


def test_who_may_read_some_services_sees_these_and_no_server() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        for service in ("open.Web", "closed.Web"):
            await trial.gateway.registry.register(service, Instance("10.0.0.1", 80), 600)
        await asyncio.sleep(2)
        await trial.log_in(READER)
        listed = await trial.page("/ui/services")
        assert "open.Web" in listed
        assert "closed.Web" not in listed
        assert "leads in term" not in listed
        shown = await trial.words("/ui/services/open.Web")
        assert "10.0.0.1:80" in shown
        assert "Subscribers are shown to callers with the right operate:*" in shown
        for path in ("/ui/", "/ui/servers", "/ui/services/closed.Web", "/ui/events?page=service&name=closed.Web"):
            answer = await trial.get(path)
            assert answer.status == 403, path
            assert b"10.0.0.1" not in answer.body
        events = await trial.get("/ui/events?page=services", leave=3)
        assert b"open.Web" in events.body
        assert b"closed.Web" not in events.body

    play(story, TwoTokens())


def test_what_everybody_may_read_is_shown_without_a_login_and_the_rest_asks_for_one() -> None:
    class Anonymous(TwoTokens):
        def caller(self, token: str | None) -> Caller:
            return super().caller(READER if token is None else token)

    async def story(trial: ConsoleOnTrial) -> None:
        await trial.gateway.registry.register("open.Web", Instance("10.0.0.1", 80), 600)
        await asyncio.sleep(2)
        page = await trial.page("/ui/services")
        assert "open.Web" in page
        assert '<a href="/ui/login">Log in</a>' in page
        assert '<a href="/ui/servers"' not in page
        assert (await trial.get("/ui/login")).status == 200
        answer = await trial.log_in(READER)
        assert answer.headers["location"] == "/ui/services", "the first page is not for readers"

    play(story, Anonymous())


def test_with_tls_the_cookie_goes_over_tls_only() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        sessions = LoginSessions(trial.gateway.clock, 1, 10)
        cookie = sessions.begin("a token", "somebody", is_secure=True)
        assert cookie.endswith("; HttpOnly; SameSite=Strict; Secure")
        assert "a token" not in cookie
        for other in ("other=1", "visited", 'json={"a": "b c"}', "version=2", "na\xefve=1", "a b=c"):
            for cookies in (f"{other}; {cookie.partition(';')[0]}", f"{cookie.partition(';')[0]}; {other}"):
                assert sessions.token(cookies) == "a token", other

    play(story)


def test_too_many_logins_of_one_token_end_the_oldest_of_that_token_and_of_nobody_else() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        sessions = LoginSessions(trial.gateway.clock, 1, 10)
        operator = sessions.begin("operator", "o", is_secure=False).partition(";")[0]
        readers = [sessions.begin(f"reader {n}", "r", is_secure=False).partition(";")[0] for n in range(100)]
        assert sessions.count == 10
        assert sessions.token(operator) == "operator"
        assert [sessions.token(cookie) for cookie in readers] == [None] * 91 + [
            f"reader {number}" for number in range(91, 100)
        ]

    play(story)


def test_a_header_opens_the_pages_too_for_programs() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        assert (await trial.get("/ui/slots.json", {"Authorization": f"Bearer {OPERATOR}"})).status == 200
        assert (await trial.get("/ui/slots.json", {"Authorization": "Bearer wrong"})).status == 401

    play(story, TwoTokens())


def test_a_gateway_that_asks_for_no_tokens_shows_no_login() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        assert "Log " not in await trial.words("/ui/")
        assert (await trial.get("/ui/login")).headers["location"] == "/ui/"
        answer = await trial.post("/ui/login", token="x")
        assert (answer.status, answer.headers["location"]) == (303, "/ui/")
        assert "set-cookie" not in answer.headers

    play(story)


def test_a_page_whose_name_stands_for_this_machine_sees_nothing_without_a_token() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        for path in (*PAGES, "/ui/slots.json", "/ui/events?page=first", "/ui/services/com.example.Web"):
            for host, status in (("evil.example.net:7740", 403), ("127.0.0.1.evil.net", 403), ("127.0.0.1:7740", 200)):
                answer = await trial.gateway.ask("GET", path, headers={"Host": host}, leave=1)
                assert answer.status == status, (path, host, answer.status)
                if status == 403:
                    assert not any(secret in answer.body.decode() for secret in SECRETS), (path, host)

    play(story)
