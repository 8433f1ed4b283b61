"""The console as a person has it: real processes, a real browser, servers that are killed while a page is open."""

from __future__ import annotations

import asyncio
import json
import secrets
from pathlib import Path

import pytest
from slotreeve.model.nodes import Role
from slotreeve_client.administration import change_tokens
from slotreeve_client.tools import open_transport
from slotreeve_protocol.instance import Instance
from slotreeve_protocol.tokens import Token, new_token

from tests.faces.console.chromium import Chromium
from tests.faces.console.in_a_browser import SERVICE, SLOTS, Setting, is_drawn_whole, pictures, play, says, until

pytestmark = pytest.mark.processes


def test_an_open_page_shows_a_service_that_appears_and_a_server_that_is_killed(
    browser: Chromium, tmp_path: Path, shots: Path
) -> None:
    async def story(setting: Setting) -> None:
        browser.open(f"{setting.url}services")
        await until(browser, says(SERVICE))
        await setting.client.register("com.example.Late", Instance("10.0.0.2", 80)).acknowledged()
        await until(browser, says("com.example.Late"))
        type_late = "const q = document.getElementById('q'); q.focus(); q.value = 'late'"
        browser.evaluate(f"{type_late}; q.dispatchEvent(new Event('input')); 0")
        await until(browser, f"{says('“late” in their name')} && !({says(SERVICE)})")
        assert browser.evaluate("location.search + document.activeElement.id") == "?q=lateq"
        await setting.client.register("com.example.Later", Instance("10.0.0.4", 80)).acknowledged()
        await until(browser, says("com.example.Later"))
        browser.open(f"{setting.url}services/{SERVICE}")
        await until(browser, says("10.0.0.1:8080"))
        await setting.client.register(SERVICE, Instance("10.0.0.3", 8080)).acknowledged()
        await until(browser, says("10.0.0.3:8080"))

        browser.open(f"{setting.url}slots")
        await until(browser, "document.getElementById('map').dataset.drawn > 0")
        whole = "document.querySelector('[data-key=whole] .number').innerText"
        await until(browser, f"{whole} === '{SLOTS}'")
        victim = setting.cluster.of(Role.DATA)[1]
        leads = f"document.querySelector('[data-live=legend] [data-key={victim.name}] .number')?.innerText"
        assert int(browser.evaluate(leads)) > SLOTS // 5
        led = f"cells.findIndex((cell) => names[parseInt(cell)] === {json.dumps(victim.name)})"
        fetched = "fetch('/ui/slots.json').then((answer) => answer.json())"
        slot = browser.evaluate(f"{fetched}.then(({{ names, cells }}) => {led})")
        assert browser.text("#moves") == "No slot is chosen."
        browser.evaluate(f"document.getElementById('slot').value = {slot}")
        browser.evaluate("document.getElementById('slot').dispatchEvent(new Event('input'))")
        await until(browser, says(f"slot {slot}: ", "#moves"))
        before = browser.evaluate("document.getElementById('map').toDataURL()")
        victim.kill()
        await until(browser, says("1 problem", ".status"), 60)
        await until(browser, f"({leads} ?? '0') === '0'", 60)
        await until(browser, f"{whole} === '{SLOTS}'", 60)
        assert browser.evaluate("document.getElementById('map').toDataURL()") != before
        await until(browser, says(f"{victim.name} left", "#moves"))
        after = browser.evaluate("document.getElementById('map').toDataURL()")
        browser.evaluate("document.getElementById('when').value = -3000")
        browser.evaluate("document.getElementById('when').dispatchEvent(new Event('input'))")
        await until(browser, says("As of ", "#when-text"))
        assert "it is not known which server led it then" in browser.text("#explanation")
        for _ in range(60):
            if browser.evaluate("document.getElementById('map').toDataURL()") == before:
                break
            browser.evaluate("document.getElementById('later').click()")
            await asyncio.sleep(0.2)
        else:
            pytest.fail("no commit has the map from before the death")
        assert f"As of {browser.text('#when-text')[6:14]} UTC: Slot {slot}: {victim.name} leads it" in browser.text(
            "#explanation"
        )
        assert browser.text("#former") == f"{victim.name}, no member now"
        pictures(browser, shots, "console-slots")
        browser.evaluate("document.getElementById('when').value = 0")
        browser.evaluate("document.getElementById('when').dispatchEvent(new Event('input'))")
        await until(browser, f"document.getElementById('map').toDataURL() === {json.dumps(after)}")
        assert browser.text("#former") == ""

        browser.open(setting.url)
        await until(browser, says(f"data server {victim.name} left: "))
        pictures(browser, shots, "console-now")
        browser.open(f"{setting.url}services/{SERVICE}?at=0")
        await until(browser, says("The instances as"))
        browser.open(f"{setting.url}history")
        await until(browser, says(f"data server {victim.name} left: "))
        await until(browser, says("committed table"))
        pictures(browser, shots, "console-history")
        victim.start()
        await until(browser, says(f"data server {victim.name} joined"), 60)
        await until(browser, says("The cluster is well", ".status"), 60)
        browser.open(setting.url)
        await until(browser, says(f"{victim.name} joined"), 60)
        assert browser.complaints() == []

    play(story, tmp_path / "cluster")


def test_the_slot_map_is_walked_with_the_keyboard_and_speaks(browser: Chromium, tmp_path: Path) -> None:
    async def story(setting: Setting) -> None:
        browser.open(f"{setting.url}slots")
        await until(browser, "document.getElementById('map').dataset.drawn > 0")
        for _ in range(30):
            if browser.evaluate("document.activeElement?.id") == "map":
                break
            browser.press("Tab")
        assert browser.evaluate("document.activeElement.id") == "map"
        for key, slot in (("Home", 0), ("ArrowRight", 1), ("End", SLOTS - 1), ("ArrowLeft", SLOTS - 2)):
            browser.press(key)
            assert browser.text("#explanation").startswith(f"Slot {slot}: "), key
        assert " leads it" in browser.text("#explanation")
        assert browser.evaluate("document.getElementById('slot').value") == str(SLOTS - 2)
        assert is_drawn_whole(browser)
        assert browser.complaints() == []

    play(story, tmp_path / "cluster")


def test_the_theme_is_chosen_and_holds_on_the_next_page(browser: Chromium, tmp_path: Path) -> None:
    async def story(setting: Setting) -> None:
        ground = "getComputedStyle(document.body).backgroundColor"
        browser.prefer("dark")
        browser.open(setting.url)
        assert browser.text("#theme") == "Theme: system"
        assert browser.evaluate(ground) == "rgb(17, 21, 27)"
        browser.click("#theme")
        assert browser.text("#theme") == "Theme: light"
        browser.open(f"{setting.url}servers")
        assert browser.evaluate(ground) == "rgb(244, 246, 249)"
        assert browser.complaints() == []

    play(story, tmp_path / "cluster")


def test_a_person_logs_in_and_out(browser: Chromium, tmp_path: Path) -> None:
    async def story(setting: Setting) -> None:
        text, token_id, secret_hash = new_token(secrets.token_bytes)
        token = Token("operators", secret_hash, ("operate:*",))
        transport = open_transport()
        metas = setting.cluster.meta_addresses.values()
        await change_tokens(transport, setting.cluster.name, metas, lambda tokens: tokens.issued(token_id, token))
        await transport.close()

        def log_in(shown: str) -> None:
            browser.evaluate(f"document.getElementById('token').value = {json.dumps(shown)}")
            browser.evaluate("document.querySelector('form.login button').click()")

        browser.open(f"{setting.url}slots")  # it tries again by itself until the gateway knows the tokens
        await until(browser, "document.querySelector('h1')?.innerText === 'Log in'")
        log_in("wrong")
        await until(browser, says("The token is unknown or revoked."))
        log_in(text)
        await until(browser, "document.getElementById('map')?.dataset.drawn > 0")
        assert browser.evaluate("document.cookie") == "", "scripts do not see the session"
        assert "operators" in browser.text("header")
        browser.evaluate("document.querySelector('header form button').click()")
        await until(browser, "document.querySelector('h1')?.innerText === 'Log in'")
        browser.open(setting.url)
        assert browser.text("h1") == "Log in"

    play(story, tmp_path / "cluster", {"gateway.authentication": "tokens"})
