"""The console as a person has it: real processes, a real browser, servers that are killed while a page is open."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

import pytest
from PIL import Image
from slotreeve.model.nodes import Role
from slotreeve_client import Client
from slotreeve_client.administration import change_tokens
from slotreeve_client.tools import open_client, open_transport
from slotreeve_harness.processes import ClusterSize, LocalCluster
from slotreeve_protocol.instance import Instance
from slotreeve_protocol.tokens import Token, new_token

from tests.faces.console.chromium import Chromium, find_chromium

pytestmark = pytest.mark.processes

SERVICE = "com.example.Greeter"
SLOTS = 256
PAGES = ("", "services", f"services/{SERVICE}", "servers", "slots", "history", "election", "configuration")
GROUNDS = {"light": (0xF4, 0xF6, 0xF9), "dark": (0x11, 0x15, 0x1B)}
CONTRASTS = """(() => {
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const part = (value) => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const ground = (element) => {
    for (; element; element = element.parentElement) {
      const found = numbers(getComputedStyle(element).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const says = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!says || !element.checkVisibility() || element.closest("noscript")) continue;
    const [one, other] = [light(numbers(getComputedStyle(element).color)), light(ground(element))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) found.push([contrast, element.tagName, element.textContent.trim().slice(0, 40)]);
  }
  return found;
})()"""
"""Texts with less contrast than WCAG AA asks for."""


@pytest.fixture(scope="module")
def chromium() -> str:
    found = find_chromium()
    if found is None:
        reason = "there is no Chromium; install the package chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture
def browser(chromium: str, tmp_path: Path) -> Iterator[Chromium]:
    with Chromium(chromium, tmp_path / "profile") as started:
        yield started


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    """Where screenshots go: the folder that ``SLOTREEVE_SCREENSHOTS`` names, or one of this test."""
    folder = Path(os.environ.get("SLOTREEVE_SCREENSHOTS", tmp_path / "screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Setting:
    """A running cluster with its console, and a client that has registered an instance."""

    def __init__(self, cluster: LocalCluster, client: Client) -> None:
        self.cluster, self.client = cluster, client

    @property
    def url(self) -> str:
        return f"http://{self.cluster.gateway_addresses[0]}/ui/"


@asynccontextmanager
async def running(directory: Path, settings: Mapping[str, object]) -> AsyncIterator[Setting]:
    size = ClusterSize(meta=3, data=3, session=2, gateway=1)
    transport = open_transport()
    try:
        with LocalCluster(directory, size, {"cluster.slots": SLOTS, **settings}) as cluster:
            await cluster.ready(transport, 60)
            async with open_client(cluster.session_addresses, cluster.name) as client:
                await client.register(SERVICE, Instance("10.0.0.1", 8080, tags=("blue",))).acknowledged()
                yield Setting(cluster, client)
    finally:
        await transport.close()


def play(
    story: Callable[[Setting], Awaitable[None]], directory: Path, settings: Mapping[str, object] = MappingProxyType({})
) -> None:
    async def scene() -> None:
        async with asyncio.timeout(110), running(directory, settings) as setting:
            await story(setting)

    asyncio.run(scene())


async def until(browser: Chromium, script: str, seconds: float = 30) -> None:
    """Wait until an expression is true in the page. The client of this process goes on meanwhile."""
    await asyncio.to_thread(browser.until, script, seconds)


def says(text: str, where: str = "main") -> str:
    return f"document.querySelector({json.dumps(where)})?.innerText.includes({json.dumps(text)})"


def test_an_open_page_shows_a_service_that_appears_and_a_server_that_is_killed(
    browser: Chromium, tmp_path: Path, shots: Path
) -> None:
    async def story(setting: Setting) -> None:
        browser.open(f"{setting.url}services")
        await until(browser, says(SERVICE))
        await setting.client.register("com.example.Late", Instance("10.0.0.2", 80)).acknowledged()
        await until(browser, says("com.example.Late"))
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
        browser.screenshot(shots / "slots-after-a-kill.png")
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
        browser.screenshot(shots / "slots-before-a-kill.png")
        browser.evaluate("document.getElementById('when').value = 0")
        browser.evaluate("document.getElementById('when').dispatchEvent(new Event('input'))")
        await until(browser, f"document.getElementById('map').toDataURL() === {json.dumps(after)}")
        assert browser.text("#former") == ""

        browser.open(setting.url)
        await until(browser, says(f"data server {victim.name} left: "))
        browser.screenshot(shots / "first-after-a-kill.png")
        browser.open(f"{setting.url}services/{SERVICE}?at=0")
        await until(browser, says("The instances as"))
        browser.screenshot(shots / "service-at-a-time.png")
        browser.open(f"{setting.url}history")
        await until(browser, says(f"data server {victim.name} left: "))
        await until(browser, says("committed table"))
        browser.screenshot(shots / "history-after-a-kill.png")
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
        assert browser.complaints() == []

    play(story, tmp_path / "cluster")


def test_each_page_is_readable_on_a_light_and_on_a_dark_screen(browser: Chromium, tmp_path: Path, shots: Path) -> None:
    async def story(setting: Setting) -> None:
        setting.client.subscribe(SERVICE, lambda subscription: None)
        for colours, ground in GROUNDS.items():
            browser.prefer(colours)
            for page in PAGES:
                browser.open(f"{setting.url}{page}")
                await asyncio.sleep(1)
                assert browser.evaluate(CONTRASTS) == [], (page, colours)
                picture = shots / f"{page.replace('/', '-') or 'first'}-{colours}.png"
                browser.screenshot(picture)
                assert pixels(picture)[ground] > 10_000, (page, colours)
        browser.open(setting.url)
        assert browser.text("#theme") == "Theme: system"
        browser.evaluate("document.getElementById('theme').click()")
        assert browser.text("#theme") == "Theme: light"
        browser.open(f"{setting.url}servers")
        assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(244, 246, 249)"
        assert browser.complaints() == []

    play(story, tmp_path / "cluster")


def test_a_person_logs_in_and_out(browser: Chromium, tmp_path: Path, shots: Path) -> None:
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
        browser.screenshot(shots / "login-light.png")
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


def pixels(picture: Path) -> Counter[tuple[int, ...]]:
    """Number of pixels of each colour."""
    with Image.open(picture) as image:
        colours = image.convert("RGB").getcolors(1 << 24)
    assert colours is not None
    return Counter({colour: number for number, colour in colours if isinstance(colour, tuple)})
