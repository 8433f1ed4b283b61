"""``slotreeve election force-new-cluster``: what it shows and refuses, and a lost majority of real processes."""

from __future__ import annotations

import json
from pathlib import Path

from slotreeve.errors import ConfigError, StorageError
from slotreeve_cli.main import command_line
from slotreeve_election_fle.disk import Disk
from slotreeve_election_fle.entries import Entry
from slotreeve_election_fle.left_directory import SKIPPED_EPOCHS
from slotreeve_machines.storage import DirectoryStorage
from typer.testing import CliRunner, Result

from tests.election_fle.test_fle_left_directory import used

METAS = [part for n in (1, 2, 3) for part in ("--set", f"cluster.meta.meta-{n}=127.0.0.1:{7000 + 10 * n}")]
FLAGS = [*METAS, "--set", "election.fle.data_dir=state-{node}"]


def left(path: Path, epoch: int, writes: int) -> Path:
    """A data directory of a stopped server that was in sync with the leader of ``epoch``."""
    memory = used(epoch, epoch, [Entry(epoch << 32 | n + 1, "k", b"%d" % n, n + 1) for n in range(writes)], 0)
    storage = DirectoryStorage.open(path)
    for name, content in memory.files.items():
        storage.replace(name, content)
    storage.close()
    return path


def forced(*arguments: str | Path, answer: str = "") -> Result:
    command = ["election", "force-new-cluster", *FLAGS, *map(str, arguments)]
    return CliRunner().invoke(command_line(command[0]), command, input=answer)


def accepted(path: Path) -> int:
    storage = DirectoryStorage.open(path)
    try:
        return Disk(storage).read_ledger().accepted_epoch
    finally:
        storage.close()


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir() if file.name != "lock"}


def test_a_dry_run_shows_the_directories_and_which_one_is_most_advanced_and_writes_nothing(tmp_path: Path) -> None:
    behind, ahead = left(tmp_path / "behind", 4, 9), left(tmp_path / "ahead", 5, 1)
    before = contents(behind), contents(ahead)
    result = forced(behind, ahead, "--dry-run", "-o", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == [
        {
            "directory": str(behind),
            "chosen": False,
            "epoch": 4,
            "last zxid": "0x400000009",
            "accepted epoch": 4,
            "keys": 1,
        },
        {
            "directory": str(ahead),
            "chosen": True,
            "epoch": 5,
            "last zxid": "0x500000001",
            "accepted epoch": 5,
            "keys": 1,
        },
    ]
    assert "2 of 3 directories are left" in result.stderr
    assert (contents(behind), contents(ahead)) == before


def test_it_asks_first_and_names_what_is_given_up(tmp_path: Path) -> None:
    path = left(tmp_path / "state", 4, 3)
    before = contents(path)
    refused = forced(path, answer="n\n")
    assert refused.exit_code == 1
    assert "acknowledged after write 0x400000003 is given up" in refused.stderr
    assert contents(path) == before
    done = forced(path, answer="y\n")
    assert done.exit_code == 0
    assert f"{path} is the beginning of the new cluster" in done.stderr
    assert accepted(path) == 4 + SKIPPED_EPOCHS


def test_the_most_advanced_one_is_forced_and_the_others_stay_as_they_are(tmp_path: Path) -> None:
    behind, ahead = left(tmp_path / "behind", 4, 2), left(tmp_path / "ahead", 4, 3)
    before = contents(behind)
    assert forced(ahead, behind, "--yes").exit_code == 0
    assert contents(behind) == before
    assert accepted(ahead) == 4 + SKIPPED_EPOCHS


def test_a_damaged_directory_is_left_out_and_no_good_one_is_an_error(tmp_path: Path) -> None:
    good, damaged = left(tmp_path / "good", 4, 2), left(tmp_path / "damaged", 5, 2)
    (damaged / "epochs").write_bytes(b"nonsense")
    result = forced(damaged, good, "--yes", "-o", "json")
    assert result.exit_code == 0
    assert [(row["directory"], row["chosen"]) for row in json.loads(result.stdout)] == [(str(good), True)]
    assert f"left out: {damaged}/epochs: is damaged" in result.stderr
    alone = forced(damaged, "--yes")
    assert isinstance(alone.exception, StorageError)
    assert "epochs: is damaged" in str(alone.exception)


def test_a_directory_in_use_is_refused_and_the_message_says_what_to_do(tmp_path: Path) -> None:
    path = left(tmp_path / "state", 4, 2)
    owner = DirectoryStorage.open(path)
    result = forced(path, "--yes")
    owner.close()
    assert isinstance(result.exception, StorageError)
    assert "locked by another process" in str(result.exception)
    assert "stop its meta server" in str(result.exception)
    assert accepted(path) == 4
    missing = forced(tmp_path / "missing", "--yes")
    assert "is no directory" in str(missing.exception)
    assert not (tmp_path / "missing").exists()


def test_an_election_without_data_directories_is_refused(tmp_path: Path) -> None:
    path = left(tmp_path / "state", 4, 2)
    result = forced(
        path,
        "--yes",
        "--set",
        "election.use=postgres",
        "--set",
        "election.postgres.dsn=postgres://nobody@localhost/none",
    )
    assert isinstance(result.exception, ConfigError)
    assert "slotreeve election accept" in str(result.exception)
