"""``slotreeve snapshot`` on a development server: saved, changed, compared, restored; and what it refuses."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotreeve_harness.processes import DevServer

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def dev() -> Iterator[DevServer]:
    with DevServer() as server:
        yield server


class Commands:
    """Runs commands against the server. ``said``: what the last one wrote to its standard error."""

    def __init__(self, dev: DevServer) -> None:
        self._environment = {**os.environ, "SLOTREEVE_META": dev.meta_address}
        self.said = ""

    def __call__(self, *arguments: str, exit_code: int = 0, given: str = "") -> str:
        command = [sys.executable, "-m", "slotreeve_cli", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=self._environment, input=given)
        assert done.returncode == exit_code, done.stderr
        self.said = done.stderr
        return done.stderr if exit_code else done.stdout


@pytest.fixture
def commands(dev: DevServer) -> Commands:
    commands = Commands(dev)
    for row in json.loads(commands("provide", "get", "-o", "json")):
        commands("provide", "put", row["key"], "--delete")
    return commands


def values(commands: Commands) -> dict[str, str]:
    return {row["key"]: row["value"] for row in json.loads(commands("provide", "get", "-o", "json"))}


def test_what_was_changed_added_and_deleted_since_is_restored(commands: Commands, tmp_path: Path) -> None:
    file = str(tmp_path / "before.json")
    for key in ("kept", "changed", "deleted"):
        commands("provide", "put", key, "before")
    assert f"{file}: 3 keys of cluster slotreeve" in commands("snapshot", "save", file)
    commands("provide", "put", "changed", "after")
    commands("provide", "put", "deleted", "--delete")
    commands("provide", "put", "new", "after")
    shown = {
        row["key"]: row["change"]
        for row in json.loads(commands("snapshot", "restore", file, "--dry-run", "-o", "json"))
    }
    assert shown == {"kept": "keep", "changed": "replace", "deleted": "add", "new": "extra"}
    assert values(commands) == {"kept": "before", "changed": "after", "new": "after"}
    commands("snapshot", "restore", file, "--yes")
    assert "left as they are, because the snapshot lacks them: new" in commands.said
    assert values(commands) == {"kept": "before", "changed": "before", "deleted": "before", "new": "after"}
    commands("snapshot", "restore", file, "--yes")
    assert "the snapshot lacks them: new" in commands.said, "also where there is nothing to write"
    commands("snapshot", "restore", file, "--yes", "--delete-extra")
    assert values(commands) == {"kept": "before", "changed": "before", "deleted": "before"}


def test_a_snapshot_is_shown_and_can_be_printed(commands: Commands, tmp_path: Path) -> None:
    commands("provide", "put", "limits.rate", "100")
    file = tmp_path / "printed.json"
    file.write_text(commands("snapshot", "save", "-"))
    shown = json.loads(commands("snapshot", "inspect", str(file), "-o", "json"))
    assert [(entry["key"], entry["value"]) for entry in shown["entries"]] == [("limits.rate", "100")]
    assert shown["cluster"] == "slotreeve"
    assert len(shown["servers"]) == 2
    assert "limits.rate" in commands("snapshot", "inspect", str(file))


def test_a_snapshot_may_come_from_the_standard_input_where_nobody_can_be_asked(commands: Commands) -> None:
    commands("provide", "put", "k", "before")
    printed = commands("snapshot", "save", "-")
    commands("provide", "put", "k", "after")
    assert "expected --yes" in commands("snapshot", "restore", "-", given=printed, exit_code=2)
    assert "replace" in commands("snapshot", "restore", "-", "--dry-run", given=printed)
    assert values(commands) == {"k": "after"}
    assert "before" in commands("snapshot", "inspect", "-", given=printed)
    commands("snapshot", "restore", "-", "--yes", given=printed)
    assert values(commands) == {"k": "before"}


def test_nothing_is_restored_without_a_yes(commands: Commands, tmp_path: Path) -> None:
    file = str(tmp_path / "before.json")
    commands("provide", "put", "k", "before")
    commands("snapshot", "save", file)
    commands("provide", "put", "k", "after")
    commands("snapshot", "restore", file, exit_code=1)
    assert values(commands) == {"k": "after"}


def test_files_and_clusters_that_do_not_fit_are_refused_by_name(commands: Commands, tmp_path: Path) -> None:
    file = tmp_path / "before.json"
    commands("provide", "put", "k", "before")
    commands("snapshot", "save", str(file))
    assert "--force replaces it" in commands("snapshot", "save", str(file), exit_code=2)
    file.chmod(0o644)
    commands("snapshot", "save", str(file), "--force")
    assert file.stat().st_mode & 0o777 == 0o600, "hashes of tokens are in it"
    assert "cannot be read" in commands("snapshot", "inspect", str(tmp_path / "none.json"), exit_code=2)
    other = tmp_path / "other.json"
    other.write_text(file.read_text().replace('"k"', '"l"'))
    assert "its digest does not fit" in commands("snapshot", "restore", str(other), "--yes", exit_code=2)
    refused = commands("snapshot", "restore", str(file), "--yes", "--cluster", "elsewhere", exit_code=2)
    assert "it is of the cluster 'slotreeve', not 'elsewhere'" in refused


@pytest.mark.parametrize("options", [(), ("--force",)])
def test_a_disk_that_is_full_leaves_nothing_of_a_snapshot_behind(
    dev: DevServer, commands: Commands, tmp_path: Path, options: tuple[str, ...]
) -> None:
    commands("provide", "put", "key", "x" * 2_000)
    file = tmp_path / "night.json"
    done = subprocess.run(
        [sys.executable, "-m", "slotreeve_cli", "snapshot", "save", str(file), *options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SLOTREEVE_META": dev.meta_address, "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000)),
    )
    assert (done.returncode, f"{file}: cannot be written: File too large" in done.stderr) == (2, True), done.stderr
    assert list(tmp_path.iterdir()) == []
    commands("snapshot", "save", str(file))
