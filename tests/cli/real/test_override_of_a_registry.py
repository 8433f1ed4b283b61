"""Overrides of a registry that runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from slotreeve_client import Instance, connect_blocking
from slotreeve_harness.free_ports import free_address
from slotreeve_harness.processes import DevServer

SOON = 10.0


@pytest.fixture(scope="module")
def dev() -> Iterator[DevServer]:
    with DevServer() as server:
        yield server


class Commands:
    """Runs commands against the server."""

    def __init__(self, dev: DevServer) -> None:
        self.environment = {**os.environ, "SLOTREEVE_META": dev.meta_address, "SLOTREEVE_SESSION": dev.session_address}

    def __call__(self, *arguments: str, exit_code: int = 0) -> str:
        command = [sys.executable, "-m", "slotreeve_cli", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=self.environment, timeout=300)
        assert done.returncode == exit_code, done.stderr
        return done.stderr if exit_code in (2, 4) else done.stdout


@pytest.mark.processes
def test_an_override_is_set_seen_listed_and_cleared(dev: DevServer) -> None:
    run = Commands(dev)
    with connect_blocking(dev.session_address) as client:
        client.register("cli.O", Instance("10.0.0.1", 80)).acknowledged(SOON)
        run("override", "set", "cli.O", "10.0.0.1:80", "--drain", "--note", "new disk")
        run("override", "set", "cli.O", "10.0.0.1:80", "--disabled")
        run("override", "set", "cli.P", "gone:1", "--weight", "5")
        [seen] = json.loads(run("get", "cli.O", "-o", "json"))
        assert [seen[key]["weight"] for key in ("instance", "said")] == [0, 100]
        assert [seen[key]["enabled"] for key in ("instance", "said")] == [False, True]
        rows = json.loads(run("override", "list", "-o", "json"))
        group = "#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"
        of_o = {"service": "cli.O" + group, "id": "10.0.0.1:80", "weight": None, "enabled": False, "drain": True}
        of_p = {"service": "cli.P" + group, "id": "gone:1", "weight": 5, "enabled": None, "drain": False}
        assert rows == [of_o | {"note": "new disk", "registered": True}, of_p | {"note": "", "registered": False}]
        assert json.loads(run("override", "list", "cli.P", "-o", "json")) == rows[1:]
        nowhere = ("--session", free_address())
        unknown = json.loads(run("override", "list", *nowhere, "-o", "json"))
        assert [row["registered"] for row in unknown] == [None, None]
        assert "nothing was cleared" in run("override", "prune", *nowhere, exit_code=4)
        for more in (("--dry-run",), ()):
            assert json.loads(run("override", "prune", *more, "-o", "json")) == rows[1:]
        assert "every override is of a registered instance" in run("override", "prune")
        assert json.loads(run("override", "list", "-o", "json")) == rows[:1]
    run("override", "clear", "cli.O", "10.0.0.1:80")
    run("override", "clear", "cli.P", "gone:1", exit_code=3)
    assert "nothing is overridden" in run("override", "list")


@pytest.mark.processes
def test_a_wrong_override_is_one_line_on_standard_error(dev: DevServer) -> None:
    run = Commands(dev)
    wrong = run("override", "set", "cli.O", "a:1", "--weight", "70000", exit_code=2)
    assert wrong == "slotreeve: error SR120: override: weight is 70000; expected 0 to 65535\n"
    empty = run("override", "set", "cli.O", "a:1", "--no-drain", exit_code=2)
    assert "it changes nothing; expected a weight, enabled or drain, or clear it" in empty
