"""A browser, and where its screenshots go."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faces.console.chromium import Chromium, find_chromium


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
