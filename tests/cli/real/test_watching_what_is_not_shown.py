"""``subscribe`` and ``provide watch`` end where nothing of what they watch is shown to them, or to anybody."""

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


@pytest.mark.processes
@pytest.mark.parametrize("watched", [("subscribe", "cli.One"), ("provide", "watch", "a.key", "-o", "json")])
@pytest.mark.parametrize("is_full", [True, False])
def test_a_command_that_watches_ends_where_its_output_is_lost(
    narrow: DevServer, watched: tuple[str, ...], is_full: bool
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    output = os.open("/dev/full", os.O_WRONLY) if is_full else writing
    done = subprocess.run(
        [sys.executable, "-m", "slotreeve_cli", *watched],
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "SLOTREEVE_SESSION": narrow.session_address},
    )
    for descriptor in {output, writing}:
        os.close(descriptor)
    told = "slotreeve: the output cannot be written: No space left on device\n" if is_full else ""
    assert (done.returncode, done.stderr) == (1, told)
