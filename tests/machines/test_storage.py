from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotreeve.errors import StorageError
from slotreeve.ports import Storage
from slotreeve_machines.storage import DirectoryStorage, MemoryStorage


@pytest.fixture(params=["directory", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DirectoryStorage | MemoryStorage]:
    opened: DirectoryStorage | MemoryStorage
    opened = DirectoryStorage.open(tmp_path / "data") if request.param == "directory" else MemoryStorage().open()
    yield opened
    opened.close()


def test_what_was_written_is_read(storage: Storage) -> None:
    assert storage.read("epochs") is None
    storage.replace("epochs", b"1")
    storage.replace("epochs", b"22")
    storage.append("log", b"a")
    storage.append("log", b"bc")
    assert storage.read("epochs") == b"22"
    assert storage.read("log") == b"abc"
    assert storage.names() == ["epochs", "log"]
    assert isinstance(storage, Storage)


def test_removing_is_idempotent_and_an_append_after_it_starts_a_new_file(storage: Storage) -> None:
    storage.append("log", b"old")
    storage.remove("log")
    storage.remove("log")
    assert storage.read("log") is None
    storage.append("log", b"new")
    assert storage.read("log") == b"new"


def test_an_append_goes_to_the_file_that_replaced_the_earlier_one(storage: Storage) -> None:
    storage.append("log", b"old")
    storage.replace("log", b"whole")
    storage.append("log", b"+")
    storage.append("other", b"x")
    storage.append("log", b"+")
    assert storage.read("log") == b"whole++"


@pytest.mark.parametrize("name", ["", "a/b", "..", "lock", "x.tmp"])
def test_a_name_that_is_not_a_plain_file_name_is_refused(storage: Storage, name: str) -> None:
    with pytest.raises(StorageError, match="not a plain file name"):
        storage.replace(name, b"")


def test_content_survives_a_new_owner(tmp_path: Path) -> None:
    first = DirectoryStorage.open(tmp_path / "data")
    first.replace("epochs", b"7")
    first.close()
    first.close()
    second = DirectoryStorage.open(tmp_path / "data")
    assert second.read("epochs") == b"7"
    second.close()


def test_a_second_owner_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    owner = DirectoryStorage.open(tmp_path)
    with pytest.raises(StorageError, match=rf"{tmp_path}: locked by another process \(process {os.getpid()}\)"):
        DirectoryStorage.open(tmp_path)
    owner.close()


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    code = (
        "import sys, time; from slotreeve_machines.storage import DirectoryStorage; "
        "s = DirectoryStorage.open(sys.argv[1]); s.replace('epochs', b'9'); print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(StorageError, match="locked by another process"):
            DirectoryStorage.open(tmp_path)
        process.kill()
    storage = DirectoryStorage.open(tmp_path)
    assert storage.read("epochs") == b"9"
    storage.close()


def test_a_missing_parent_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=rf"its parent {tmp_path / 'no'} does not exist"):
        DirectoryStorage.open(tmp_path / "no" / "data")


def test_a_file_is_not_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="is not a directory"):
        DirectoryStorage.open(tmp_path / "file")


def test_a_failed_replacement_leaves_the_old_content(tmp_path: Path) -> None:
    storage = DirectoryStorage.open(tmp_path)
    storage.replace("epochs", b"old")
    (tmp_path / "epochs.tmp").mkdir()
    with pytest.raises(StorageError, match=r"epochs: cannot be replaced: Is a directory"):
        storage.replace("epochs", b"new")
    assert storage.read("epochs") == b"old"
    storage.close()


def test_nothing_works_after_closing(tmp_path: Path) -> None:
    storage = DirectoryStorage.open(tmp_path)
    storage.close()
    with pytest.raises(StorageError, match="was closed"):
        storage.read("epochs")


def test_a_memory_storage_can_be_made_to_fail_and_survives_a_crash() -> None:
    storage = MemoryStorage("node-1").open()
    storage.replace("epochs", b"1")
    storage.failure = "No space left on device"
    with pytest.raises(StorageError, match="node-1/epochs: cannot be written: No space left on device"):
        storage.replace("epochs", b"2")
    with pytest.raises(StorageError, match="locked by another process"):
        storage.open()
    storage.crash()
    assert storage.open().read("epochs") == b"1"
