"""The documentation site in a real browser, from the disk: it asks no host, its search finds, nothing is too wide."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faces.console.chromium import Chromium, find_chromium

pytestmark = pytest.mark.processes

ROOT = Path(__file__).resolve().parents[3]
PAGES = ("docs/index.html", "docs/tutorial.html", "docs/settings.html", "docs/endings.html", "README.html")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site") / "site"
    command = [sys.executable, str(ROOT / "docs" / "build_site.py"), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chromium]:
    path = find_chromium()
    if path is None:
        reason = "there is no Chromium; install the package chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with Chromium(path, tmp_path / "profile") as started:
        started.tell("Network.enable")
        yield started


def asked(browser: Chromium) -> list[str]:
    """The addresses of all that the browser has loaded."""
    browser.evaluate("1")
    sent = [each for each in browser.messages if each.get("method") == "Network.requestWillBeSent"]
    return [str(each["params"]["request"]["url"]) for each in sent]


def test_pages_load_files_of_the_site_only_and_complain_of_nothing(site: Path, browser: Chromium) -> None:
    for page in PAGES:
        browser.open((site / page).as_uri())
    addresses = [address for address in asked(browser) if not address.startswith("data:")]
    assert len(addresses) > len(PAGES)
    assert [address for address in addresses if not address.startswith(site.as_uri())] == []
    assert browser.complaints() == []


def test_the_top_of_the_site_goes_to_the_first_page(site: Path, browser: Chromium) -> None:
    browser.open((site / "index.html").as_uri())
    browser.until("location.pathname.endsWith('/docs/index.html')")


def test_the_search_finds_a_page_without_a_network(site: Path, browser: Chromium) -> None:
    browser.open((site / "docs" / "index.html").as_uri())
    browser.evaluate("document.querySelector('.sidebar-search').focus()")
    browser.write("tombstone")
    browser.press("Enter")
    # Results are shown one after the other.
    links = "[...document.querySelectorAll('#search-results li a')].map((link) => link.href)"
    browser.until(f"{links}.some((link) => link.includes('/docs/words.html'))")
    assert all(address.startswith(site.as_uri()) for address in asked(browser) if not address.startswith("data:"))


@pytest.mark.parametrize(("colours", "lightness"), [("light", range(230, 256)), ("dark", range(60))])
def test_a_page_has_the_colours_that_the_user_prefers(
    site: Path, browser: Chromium, colours: str, lightness: range
) -> None:
    browser.prefer(colours)
    browser.open((site / "docs" / "index.html").as_uri())
    paper = browser.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert all(part in lightness for part in paper), paper


@pytest.mark.parametrize("width", [1280, 420])
def test_no_page_is_wider_than_its_window(site: Path, browser: Chromium, width: int) -> None:
    browser.resize(width)
    for page in PAGES:
        browser.open((site / page).as_uri())
        assert browser.evaluate("document.documentElement.scrollWidth") <= width, page
