"""Instances of a registry that runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from slotreeve_harness.processes import DevServer


@pytest.fixture(scope="module")
def dev() -> Iterator[DevServer]:
    with DevServer() as server:
        yield server


def command(dev: DevServer, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "slotreeve_cli", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "SLOTREEVE_SESSION": dev.session_address},
    )


@pytest.mark.processes
def test_an_instance_is_published_got_and_watched(dev: DevServer) -> None:
    options = ("--scheme", "http", "--weight", "50", "--tag", "blue", "--meta", "version=1.2", "--zone", "east")
    with command(
        dev, "publish", "cli.Typed", "--address", "[::1]:80", *options, "--health", "warning", "--note", "slow"
    ) as it:
        assert it.stdout is not None
        assert it.stdout.readline().startswith("published cli.Typed")
        got, _ = command(dev, "get", "cli.Typed", "-o", "json").communicate(timeout=300)
        seen, _ = command(dev, "subscribe", "cli.Typed", "--updates", "1", "-o", "json").communicate(timeout=300)
        line, _ = command(dev, "subscribe", "cli.Typed", "--updates", "1").communicate(timeout=300)
        it.terminate()
        it.communicate(timeout=300)
    [row] = json.loads(got)
    assert row == json.loads(seen)["instances"][0]
    assert row["instance"] == {
        "address": "::1",
        "port": 80,
        "scheme": "http",
        "weight": 50,
        "zone": "east",
        "tags": ["blue"],
        "metadata": {"version": "1.2"},
        "health": "warning",
        "health_note": "slow",
        "enabled": True,
        "id": "[::1]:80",
    }
    assert "http://[::1]:80  weight 50  health warning: slow  enabled yes  tags blue" in line


@pytest.mark.processes
def test_a_wrong_field_of_an_instance_is_one_line_on_standard_error(dev: DevServer) -> None:
    refused = command(dev, "publish", "cli.Typed", "--address", "10.0.0.256:80")
    _, error = refused.communicate(timeout=300)
    assert refused.returncode == 2
    assert error.startswith("slotreeve: error SR120: address is '10.0.0.256'; expected an IPv4 address")
    assert error.count("\n") == 1
