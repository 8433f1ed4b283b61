"""The console of a large cluster answers soon. The bounds are wide: other work shares the machine.
``proving/benchmarks/console.py`` measures the same."""

from __future__ import annotations

import asyncio
from pathlib import Path
from statistics import median

import pytest

from tests.faces.console.chromium import Chromium
from tests.faces.console.in_a_browser import is_drawn_whole
from tests.faces.console.interactions import Interactions, large_cluster

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]

SERVICES, INSTANCES, SLOTS = 10_000, 100_000, 16_384
MOST_MILLISECONDS, MOST_FIRST, MOST_ON_THE_MAP = 1_000, 5_000, 300


def test_pages_searches_and_the_map_of_a_large_cluster_are_painted_soon(browser: Chromium, tmp_path: Path) -> None:
    async def story() -> None:
        async with large_cluster(tmp_path / "cluster", SERVICES, INSTANCES, SLOTS) as url:
            found = await Interactions(browser, url, SERVICES, SLOTS).measured(5)
            assert is_drawn_whole(browser)
            assert browser.complaints() == []
        took = {name: median(each) for name, each in found.items()}
        first = took.pop("the very first page of a gateway")
        assert first < MOST_FIRST
        assert max(took.values()) < MOST_MILLISECONDS, took
        on_the_map = {name: took[name] for name in ("hover", "arrow key", "slider step")}
        assert max(on_the_map.values()) < MOST_ON_THE_MAP, on_the_map

    asyncio.run(story())
