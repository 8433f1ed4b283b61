"""Somebody meets an incident and acts, with mouse and keyboard, with scripts and without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from slotreeve.model.nodes import Role
from slotreeve_protocol.instance import Instance

from tests.faces.console.chromium import Chromium
from tests.faces.console.in_a_browser import SERVICE, SLOTS, Setting, pictures, play, says, until

pytestmark = pytest.mark.processes

MAP = "document.getElementById('map').toDataURL()"


def row(server: str, rest: str) -> str:
    return f'[data-key="{server}"] {rest}'


def test_a_server_dies_is_found_is_drained_and_comes_back(browser: Chromium, tmp_path: Path, shots: Path) -> None:
    async def story(setting: Setting) -> None:
        await setting.client.register("com.example.New", Instance("10.0.0.7", 80)).acknowledged()
        browser.open(f"{setting.url}services")
        await until(browser, says("com.example.New"))

        browser.open(f"{setting.url}slots")
        whole = "document.querySelector('[data-key=whole] .number').innerText"
        await until(browser, f"{whole} === '{SLOTS}'", 60)
        before = browser.evaluate(MAP)
        victim = setting.cluster.of(Role.DATA)[2]
        victim.kill()
        leads = f"document.querySelector('[data-live=legend] [data-key={victim.name}] .number')?.innerText"
        await until(browser, f"({leads} ?? '0') === '0'", 60)
        await until(browser, f"{whole} === '{SLOTS}'", 60)
        assert browser.evaluate(MAP) != before
        browser.open(setting.url)
        await until(browser, says(f"data server {victim.name} left: connection lost"))
        browser.open(f"{setting.url}slots")
        await until(browser, "document.getElementById('map').dataset.drawn > 0")
        for _ in range(40):
            browser.click("#earlier")
            await until(browser, says("As of ", "#when-text"))
            if browser.evaluate(MAP) == before:
                break
        else:
            pytest.fail("no commit has the map from before the death")
        victim.start()

        browser.open(f"{setting.url}servers")
        await until(browser, says("The cluster is well", ".status"), 60)
        await until(browser, f"document.querySelector({json.dumps(row('data-2', '.acts a'))}) !== null")
        browser.click(row("data-2", ".acts a"))
        await until(browser, says("Drain data-2?", "h1"))
        await until(browser, "/Draining data-2 moves \\d+ leaders and \\d+ followers/.test(document.body.innerText)")
        pictures(browser, shots, "console-act")
        browser.click("button.takes")
        await until(browser, says("Done", "h2"))
        pictures(browser, shots, "act-done")
        browser.open(f"{setting.url}servers")
        await until(browser, says("0 slots led", row("data-2", ".loads")), 60)

        browser.open(setting.url)
        await until(browser, says("data-2 is banned.", "[data-live=orders]"))
        browser.click("[data-live=orders] a.act")
        await until(browser, says("Take back the ban of data-2?", "h1"))
        browser.click("button.gives")
        await until(browser, says("Done", "h2"))
        browser.open(f"{setting.url}servers")
        await until(
            browser, f"Number(document.querySelector({json.dumps(row('data-2', '.load b'))}).innerText) > 9", 60
        )
        browser.open(f"{setting.url}history?kind=configured")
        await until(browser, says("anonymous at 127.0.0.1 (by gateway-1)"))
        assert browser.complaints() == []

    play(story, tmp_path / "cluster")


def test_acts_need_neither_a_script_nor_a_mouse(browser: Chromium, tmp_path: Path) -> None:
    async def story(setting: Setting) -> None:
        browser.open(f"{setting.url}configuration")
        await until(browser, says("The cluster is well", ".status"), 60)
        browser.tell("Emulation.setScriptExecutionDisabled", value=True)

        async def press_at(selector: str) -> None:
            for _ in range(60):
                browser.press("Tab")
                if browser.evaluate(f"document.activeElement.matches({json.dumps(selector)})"):
                    browser.press("Enter")
                    return
            pytest.fail(f"the keyboard does not reach {selector}")

        browser.open(f"{setting.url}configuration")
        await press_at("details:has(#key) summary")
        browser.press("Tab")
        browser.write("limits.rate")
        browser.press("Enter")
        await until(browser, says("Write limits.rate", "h1"))
        browser.evaluate("document.getElementById('value').focus()")
        browser.write("200")
        await press_at("button[type=submit]")
        await until(browser, says("Writing limits.rate makes version 1, which has 3 bytes."))
        await press_at("button.gives")
        await until(browser, says("Done", "h2"))
        await press_at("form.act button")
        await until(browser, says("Remove limits.rate?", "h1"))
        await press_at("button.takes")
        await until(browser, says("Done", "h2"))
        browser.open(f"{setting.url}services/{SERVICE}")
        await press_at(".acts a")
        await until(browser, says("Override 10.0.0.1:8080", "h1"))
        browser.evaluate("document.getElementById('weight').focus()")
        browser.write("7")
        await press_at("button[type=submit]")
        await until(browser, says("10.0.0.1:8080 has the weight 7, whatever its provider says from now on"))
        await press_at("button.takes")
        await until(browser, says("Done", "h2"))
        browser.open(f"{setting.url}services/{SERVICE}")
        await until(browser, says("its provider says weight 100"))

    play(story, tmp_path / "cluster")
