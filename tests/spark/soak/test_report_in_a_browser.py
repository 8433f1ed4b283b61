"""A report as a real browser shows it, on a light and on a dark screen."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image
from slotreeve_spark.report import charts
from slotreeve_spark.report.charts import Bar, Series
from slotreeve_spark.report.page import Page

pytestmark = pytest.mark.processes

Colour = tuple[int, int, int]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDTH, HEIGHT = 1_000, 1_400
LOOKS = charts.Palette(["even", "default", "circles"])
SCREENS = {"dark": (0, "#16181c", "#e2e2e2"), "light": (1, "#ffffff", "#1c1c1c")}
"""Chromium's number for what the user prefers, and the colours of paper and text."""


@pytest.fixture(scope="module")
def browser() -> str:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        reason = "there is no Chromium; install the package chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """Each kind of plot, with one competitor that is far beyond the others."""
    page = Page("Balancers compared")
    page.paragraph("Less is better.")
    page.table([{"competitor": "even", "verdict": "best", "mean": 10.0}])
    bars = [Bar("even", 10, 9, 11), Bar("default", 12, 10, 15), Bar("circles", 54_321, 50_000, 60_000)]
    page.figures([("moves", charts.bars(bars, "moves", LOOKS))])
    curves = [Series(name, [(0, 0), (50, most / 2), (100, most)]) for name, most in (("even", 40), ("default", 60))]
    every = [*curves, Series("circles", [(0, 0), (100, 9e4)])]
    page.figures([("moves over time", charts.lines(every, "s", "moves", True, LOOKS))])
    file = tmp_path / "report.html"
    file.write_text(page.as_html(), encoding="utf-8")
    return file


@pytest.mark.parametrize("screen", sorted(SCREENS))
def test_a_report_is_readable_on_a_light_and_on_a_dark_screen(
    browser: str, report: Path, tmp_path: Path, screen: str
) -> None:
    number, paper, ink = SCREENS[screen]
    seen = colours(screenshot(browser, report, tmp_path, number))
    assert seen.most_common(1)[0][0] == rgb(paper)
    assert seen[rgb(ink)] > 1_000, "text and axes have the colour of text"
    bars = [seen[rgb(LOOKS.colour(name))] for name in ("even", "default", "circles")]
    assert all(pixels > 2_000 for pixels in bars), "each competitor has a bar that can be seen, and a line"
    assert bars[0] < bars[1] < bars[2] < 3 * bars[0], "the far one does not press the others into a corner"


def screenshot(browser: str, page: Path, directory: Path, preferred_colours: int) -> Image.Image:
    target = directory / "screen.png"
    quiet = ("background-networking", "component-update", "sync", "quic", "gpu", "extensions")
    command = [
        *(browser, "--headless", "--no-sandbox", "--no-first-run", "--hide-scrollbars"),
        *(f"--disable-{what}" for what in quiet),
        f"--blink-settings=preferredColorScheme={preferred_colours}",
        f"--user-data-dir={directory / 'profile'}",
        f"--window-size={WIDTH},{HEIGHT}",
        f"--screenshot={target}",
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert target.exists(), done.stderr[-2_000:]
    with Image.open(target) as image:
        return image.convert("RGB")


def colours(image: Image.Image) -> Counter[Colour]:
    found = image.getcolors(WIDTH * HEIGHT)
    assert found is not None
    return Counter({colour: number for number, colour in found if isinstance(colour, tuple)})  # type: ignore[misc]


def rgb(colour: str) -> Colour:
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red, green, blue
