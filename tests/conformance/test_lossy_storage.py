"""A disk in memory keeps what was synced, and only parts of what was being written."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from slotreeve.errors import StorageError
from slotreeve_conformance.lossy_storage import SECTOR, LossyStorage

OLD, NEW = b"o" * 700, b"n" * 2_000
SEEDS = range(60)


def after_a_crash(seed: int, power_lost: bool, job: Callable[[LossyStorage], None]) -> LossyStorage:
    """A storage with the files ``log`` and ``epochs``, whose process or machine died while the job was under way."""
    storage = LossyStorage("disk", random.Random(seed))
    storage.append("log", OLD)
    storage.replace("epochs", OLD)
    storage.under_way = lambda: job(storage)
    storage.crash(power_lost)
    return storage


@pytest.mark.parametrize("power_lost", [False, True])
def test_what_was_written_before_stays(power_lost: bool) -> None:
    for seed in SEEDS:
        storage = after_a_crash(seed, power_lost, lambda storage: storage.append("other", NEW))
        assert (storage.read("log"), storage.read("epochs")) == (OLD, OLD)


def test_an_append_that_the_process_did_not_survive_leaves_its_beginning() -> None:
    logs = {after_a_crash(seed, False, lambda storage: storage.append("log", NEW)).read("log") for seed in SEEDS}
    assert all(log is not None and (OLD + NEW).startswith(log) and log.startswith(OLD) for log in logs)
    assert len(logs) > 10
    assert OLD + NEW in logs


def test_an_append_that_the_machine_did_not_survive_may_have_holes() -> None:
    logs = [after_a_crash(seed, True, lambda storage: storage.append("log", NEW)).read("log") for seed in SEEDS]
    assert all(log is not None and log.startswith(OLD) for log in logs)
    holes = [log for log in logs if log is not None and b"\0n" in log]
    assert holes
    for log in holes:
        zeros = [place for place in range(len(OLD), len(log)) if log[place] == 0]
        assert {place % SECTOR for place in zeros if log[place - 1] != 0} <= {0, len(OLD) % SECTOR}


def test_a_file_that_is_replaced_or_removed_is_the_old_or_the_new_one() -> None:
    def job(storage: LossyStorage) -> None:
        storage.replace("epochs", NEW)
        storage.remove("log")

    for power_lost in (False, True):
        crashed = [after_a_crash(seed, power_lost, job) for seed in SEEDS]
        found = {(storage.read("epochs"), storage.read("log")) for storage in crashed}
        assert found == {(OLD, OLD), (NEW, OLD), (NEW, None)}


def test_of_a_file_that_was_replaced_unsynced_the_old_one_may_come_back_until_the_directory_is_synced() -> None:
    came_back = 0
    for seed in SEEDS:
        storage = after_a_crash(seed, False, lambda storage: storage.replace("epochs", NEW))
        seen = storage.read("epochs")
        if seed % 2:
            storage.remove("other")
        storage.crash(power_lost=True)
        came_back += storage.read("epochs") != seen
        if seed % 2 or seen == OLD:
            assert storage.read("epochs") == seen
    assert came_back > 0


def test_what_only_the_memory_of_the_machine_has_is_lost_with_it_unless_it_is_synced() -> None:
    lost = kept = 0
    for seed in SEEDS:
        storage = after_a_crash(seed, False, lambda storage: storage.append("log", NEW))
        log = storage.read("log")
        assert log is not None
        if seed % 2:
            storage.replace("log", log)
        storage.crash(power_lost=True)
        if seed % 2:
            kept += storage.read("log") == log
        else:
            lost += storage.read("log") != log
    assert kept == len(SEEDS) / 2
    assert lost > 0


def test_a_full_disk_keeps_the_beginning_of_an_append_that_it_refuses() -> None:
    logs = set()
    for seed in SEEDS:
        storage = LossyStorage("disk", random.Random(seed))
        storage.append("log", OLD)
        storage.failure = "No space left on device"
        with pytest.raises(StorageError, match="No space left"):
            storage.append("log", NEW)
        with pytest.raises(StorageError, match="No space left"):
            storage.replace("log", NEW)
        logs.add(storage.read("log"))
    assert len(logs) > 10
    assert all(log is not None and (OLD + NEW).startswith(log) for log in logs)
