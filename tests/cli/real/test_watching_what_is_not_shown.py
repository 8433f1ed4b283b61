"""``subscribe`` and ``provide watch`` end where nothing of what they watch is shown to them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from slotreeve_harness.processes import DevServer


@pytest.fixture(scope="module")
def narrow() -> Iterator[DevServer]:
    with DevServer("--set", "session.most_subscriptions=1") as server:
        yield server


def run(dev: DevServer, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "slotreeve_cli", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "SLOTREEVE_SESSION": dev.session_address},
    )


@pytest.mark.processes
def test_a_command_that_watches_goes_on_with_what_is_shown_to_it(narrow: DevServer) -> None:
    found = run(narrow, "subscribe", "cli.One", "cli.Two", "--for", "2")
    assert found.returncode == 0, found.stderr
    assert "cli.One: 0 providers" in found.stdout
    assert "cli.Two" in found.stderr
