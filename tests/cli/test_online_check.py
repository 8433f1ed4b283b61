"""``slotreeve config check --online``: what a meta server would find, good or bad, one row each."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotreeve.errors import ConfigError
from slotreeve_cli.main import command_line
from slotreeve_harness.free_ports import free_ports
from slotreeve_machines.storage import DirectoryStorage
from typer.testing import CliRunner

runner = CliRunner()


ME = ("--set", "node.name=meta-1")


@pytest.fixture
def taken() -> Iterator[list[socket.socket]]:
    """Listeners at the addresses of three meta servers. Those of their elections are two ports above, and free."""
    listeners = [socket.create_server(("127.0.0.1", port)) for port in free_ports(3, random.Random())]
    yield listeners
    for listener in listeners:
        listener.close()


def addresses(listeners: list[socket.socket]) -> list[str]:
    return ["{}:{}".format(*listener.getsockname()) for listener in listeners]


def checked(metas: list[str], directory: Path, exit_code: int, *more: str) -> dict[str, dict[str, str]]:
    flags = ["--set", f"election.fle.data_dir={directory}/{{node}}"]
    flags += [part for number, each in enumerate(metas, 1) for part in ("--set", f"cluster.meta.meta-{number}={each}")]
    result = runner.invoke(
        command_line("config"), ["config", "check", "--online", *flags, *more, "-o", "json"], catch_exceptions=False
    )
    assert result.exit_code == exit_code, result.output
    return {row["what"]: row for row in json.loads(result.stdout)}


def test_a_machine_that_fits_is_good_and_servers_that_do_not_run_yet_may_come_later(
    taken: list[socket.socket], tmp_path: Path
) -> None:
    metas = addresses(taken)
    taken[0].close()
    taken[2].close()
    rows = checked(metas, tmp_path, 0, *ME)
    assert {what: row["result"] for what, row in rows.items()} == {
        "port for requests": "good",
        "port for election": "good",
        "store of the election": "good",
        "meta server meta-2": "good",
        "meta server meta-3": "later",
    }
    assert "a durable write takes" in rows["store of the election"]["found"]


def test_a_port_that_is_taken_fails(taken: list[socket.socket], tmp_path: Path) -> None:
    rows = checked(addresses(taken), tmp_path, 1, *ME)
    assert rows["port for requests"]["result"] == "failed"
    assert rows["port for requests"]["where"] == addresses(taken)[0]


def test_a_directory_that_another_process_holds_fails(taken: list[socket.socket], tmp_path: Path) -> None:
    held = DirectoryStorage.open(tmp_path / "meta-1")
    try:
        rows = checked(addresses(taken), tmp_path, 1, *ME)
    finally:
        held.close()
    assert rows["store of the election"]["result"] == "failed"
    assert "locked by another process" in rows["store of the election"]["found"]


def test_who_the_machine_is_must_be_said(taken: list[socket.socket], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"node\.name: '' is no meta server of cluster\.meta"):
        checked(addresses(taken), tmp_path, 2)


def test_a_port_that_there_is_not_is_refused_by_its_key(taken: list[socket.socket], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cluster\.meta\.meta-2: '127\.0\.0\.1:65534' leaves no port"):
        checked([addresses(taken)[0], "127.0.0.1:65534"], tmp_path, 2, *ME)


def test_what_is_no_meta_server_is_told_to_leave_the_trial_out(taken: list[socket.socket], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--online tries what a meta server needs"):
        checked(addresses(taken), tmp_path, 2, "--set", "node.name=data-1")
