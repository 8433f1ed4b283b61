"""Every page of the console by the rules of WCAG 2, levels A and AA, as axe-core checks them: light and dark, wide and
narrow. It makes the pictures of the documentation, too."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from slotreeve_client.administration import put_config
from slotreeve_client.tools import open_transport
from slotreeve_protocol.instance import Instance

from tests.faces.console.chromium import Chromium
from tests.faces.console.in_a_browser import SERVICE, Setting, play, says, until
from tests.faces.programs import NODE_MODULES, skip

pytestmark = pytest.mark.processes

AXE = NODE_MODULES / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
CHECK = f"""axe.run(document, {{ runOnly: {json.dumps(RULES)} }}).then(({{ violations, passes }}) => [
  passes.length,
  violations.map((one) => [one.id, one.help, one.nodes.map((node) => [node.html.slice(0, 200), node.failureSummary])]),
])"""
PAGES = {
    "first": "",
    "services": "services",
    "service": f"services/{SERVICE}",
    "service-at-a-time": f"services/{SERVICE}?at=0",
    "servers": "servers",
    "slots": "slots",
    "history": "history",
    "election": "election",
    "configuration": "configuration",
    "act-drain": f"act?{urlencode({'act': 'drain', 'server': 'data-2'})}",
    "act-write": f"act?{urlencode({'act': 'write', 'key': 'limits.rate'})}",
    "act-override": f"act?{urlencode({'act': 'override', 'service': SERVICE, 'id': '10.0.0.1:8080'})}",
    "act-nothing": f"act?{urlencode({'act': 'unban', 'server': 'data-9'})}",
    "no-such-page": "nothing",
}


def violations(browser: Chromium) -> Any:
    """What axe finds on the page that is open; it must have looked at something."""
    if not AXE.exists():
        skip(f"there is no {AXE}: ./run test and ./run soak get it below .venv")
    browser.evaluate(f"{AXE.read_text()}; 0")
    passed, found = browser.evaluate(CHECK)
    assert passed > 5
    return found


def test_every_page_is_accessible_light_and_dark_wide_and_narrow(
    browser: Chromium, tmp_path: Path, shots: Path
) -> None:
    async def story(setting: Setting) -> None:
        setting.client.subscribe(SERVICE, lambda subscription: None)
        transport = open_transport()
        metas = setting.cluster.meta_addresses.values()
        await put_config(transport, setting.cluster.name, metas, "limits.rate", b"200")
        await put_config(transport, setting.cluster.name, metas, "db.password", b"x")
        await transport.close()
        await setting.client.register("com.example.Other", Instance("10.0.0.2", 80)).acknowledged()
        browser.open(setting.url)
        await until(browser, says("The cluster is well", ".status"), 60)
        wrong = []
        for width in (1280, 800):
            browser.resize(width)
            for colours in ("light", "dark"):
                browser.prefer(colours)
                for name, page in PAGES.items():
                    browser.open(f"{setting.url}{page}")
                    await asyncio.sleep(0.3)
                    browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
                    wrong += [(name, colours, width, found) for found in violations(browser)]
                    wide = browser.evaluate("document.documentElement.scrollWidth")
                    assert wide <= width, (name, "the page is wider than the window", wide)
                    browser.screenshot(shots / f"{name}-{colours}{'' if width == 1280 else '-narrow'}.png")
        assert wrong == []

    play(story, tmp_path / "cluster")


def test_the_login_is_accessible(browser: Chromium, tmp_path: Path, shots: Path) -> None:
    async def story(setting: Setting) -> None:
        browser.open(setting.url)
        await until(browser, "document.querySelector('h1')?.innerText === 'Log in'")
        for colours in ("light", "dark"):
            browser.prefer(colours)
            assert violations(browser) == []
            browser.screenshot(shots / f"login-{colours}.png")
        browser.evaluate("document.querySelector('label').remove()")
        assert [rule for rule, *_ in violations(browser)] == ["label"], "axe finds what is wrong"

    play(story, tmp_path / "cluster", {"gateway.authentication": "tokens"})
