"""A history whose files are lost, damaged or too large: it tells less then, and nothing that was not so."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotreeve.model.publisher import Publisher
from slotreeve_events.changed_services import ChangedServices, Gap, HeldRecords, Lapse
from slotreeve_events.history_file import SUFFIX
from slotreeve_events.history_files import HistoryFiles
from slotreeve_events.history_store import DAMAGED
from slotreeve_events.settings import HistorySettings
from slotreeve_protocol.history_messages import KnownState

from tests.events.history_server import FAR, START, A, B, Server, event

SECOND, HOUR = 1000, 3_600_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.files.close()


def files_of(directory: Path) -> list[Path]:
    return sorted(directory.glob(f"*{SUFFIX}"))


def next_file(server: Server) -> None:
    server.files._finish()
    server.changed.begin_anew()


def places(server: Server) -> list[int]:
    return [e.place for e in server.files.events(0, FAR, (), 0, 1000, newest_first=False)[0]]


def bytes_in(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.iterdir())


# --- what is told as exact -------------------------------------------------------------------------------------------


def test_between_two_processes_of_a_server_nothing_is_told_as_exact(server: Server) -> None:
    server.put(START, "a")
    server.write(START + 100, [event(START + 100, "stopped")])
    server.restart(START + HOUR)
    assert server.files.state(A, START + 50).known is KnownState.EXACTLY
    for at in (START + HOUR // 2, START + HOUR + SECOND):
        assert server.files.state(A, at).known is KnownState.AS_NOW
    server.services[A].clear()
    server.put(START + HOUR + 5000, "b")
    server.write(START + HOUR + 5001)
    found = server.files.state(A, START + HOUR + SECOND)
    assert (found.known, list(found.records)) == (KnownState.EXACTLY, [])
    assert server.files.state(A, START + HOUR // 2).known is KnownState.BEFORE_A_CHANGE


def test_a_state_between_two_gaps_is_not_told_as_exact_by_what_came_after_the_second(server: Server) -> None:
    server.put(START, "a")
    server.put(START, "a", B)
    server.write(START + 100)
    for since, until in ((1000, 5000), (7000, 8000)):
        server.changed.begin_anew()
        server.files.write(START + until, [], [], Gap(START + since, START + until, 7))
    server.services[A]["b"] = Publisher("b", A, 1, 1, "s", "", (b"in the second gap",))
    server.put(START + 9000, "c")
    server.write(START + 9100)
    assert server.files.state(A, START + 6000).known is KnownState.BEFORE_A_CHANGE
    as_now = server.files.state(B, START + 6000)
    assert (as_now.known, as_now.since_ms) == (KnownState.AS_NOW, START + 8000)


@pytest.mark.parametrize("how", ["damaged", "removed", "bad rows", "bad names", "lacks rows"])
def test_over_a_file_that_is_lost_nothing_is_told_as_exact(server: Server, how: str) -> None:
    for part in range(3):
        server.put(START + 1000 * part, f"r{part}", (A, A, B)[part])
        server.write(START + 1000 * part + 1)
        next_file(server)
    middle = files_of(server.directory)[1]
    if how == "damaged":
        middle.write_bytes(b"no database" * 1000)
    elif how == "removed":
        middle.unlink()
    elif how == "bad names":
        middle.write_bytes(middle.read_bytes().replace(b"CREATE TABLE", b"CREATE\xff\xffABLE"))
    else:
        with sqlite3.connect(middle) as database:
            lost = "DELETE FROM states" if how == "lacks rows" else "UPDATE changes SET body = x'c1'"
            database.execute(lost)
        database.close()
    assert server.files.state(A, START + 1500).known is KnownState.AS_NOW
    assert server.files.state(A, START + 1).known is KnownState.EXACTLY
    server.write(START + 3000)
    server.restart(START + 4000)
    assert server.files.state(A, START + 1500).known is KnownState.AS_NOW


def test_a_clock_that_is_set_back_while_it_writes_hides_nothing_that_comes_later(server: Server) -> None:
    server.put(START + HOUR, "a")
    server.put(START + HOUR, "a", B)
    server.write(START + HOUR + 1)
    server.put(START, "b")
    server.write(START + 1)
    server.put(START + 5000, "c")
    server.write(START + 5001)
    found = server.files.state(A, START + 6000)
    assert (found.known, {r.register_id for r in found.records}) == (KnownState.EXACTLY, {"a", "b", "c"})
    assert server.files.state(B, START + 6000).known is not KnownState.EXACTLY


def test_a_service_that_is_too_large_for_a_file_is_not_told_and_costs_the_others_nothing(tmp_path: Path) -> None:
    server = Server(tmp_path, HistorySettings(most_bytes=1 << 20))
    for number in range(20):
        server.put(START + number, f"r{number}", content=bytes(100_000))
    server.put(START, "b", B)
    server.write(START + 1000)
    server.end(START + 2000, "r3")
    server.write(START + 2001)
    assert server.known(START + 3000, B) == server.was(START + 3000, B)
    assert server.files.state(A, START + 1500).known is KnownState.NOTHING
    assert server.files.lost == 0
    (row,), _ = server.files.changes(A, START + 1500, FAR, 10)
    assert (row.changes[0].register_id, row.changes[0].reason) == ("r3", "it ended")
    assert bytes_in(tmp_path) < 1 << 20
    server.files.close()


def test_what_a_new_leader_has_gathered_so_far_is_not_told_as_a_state(server: Server) -> None:
    gathered = HeldRecords(server.services, 2, is_complete=False)
    for number in range(3):
        record = Publisher(f"r{number}", A, 1, 1, "s", "", (b"x",))
        server.changed.comes(record, gathered, START + number)
        server.services.setdefault(A, {})[record.register_id] = record
        server.write(START + number)
    assert server.files.state(A, START + 1).known is KnownState.NOTHING
    assert server.files.state(A, START + 5000).known is KnownState.AS_NOW
    assert len(server.files.changes(A, 0, FAR, 10)[0]) == 3
    server.put(START + 9000, "new")
    server.write(START + 9001)
    found = server.files.state(A, START + 5000)
    assert (found.known, len(found.records)) == (KnownState.BEFORE_A_CHANGE, 3)
    assert server.known(START + 9500) == server.was(START + 9500)


def test_of_a_slot_that_a_server_holds_no_more_it_tells_what_was_until_then(server: Server) -> None:
    for slot, service in enumerate((A, B)):
        record = Publisher("a", service, 1, 1, "s", "", (b"x",))
        server.changed.comes(record, HeldRecords(server.services, 1, slot=slot), START)
        server.services[service] = {"a": record}
    server.write(START + 1)
    server.files.lapsing = {0: START + 1000}
    known = [server.files.state(A, START + at).known for at in (500, 1500)]
    assert known == [KnownState.EXACTLY, KnownState.NOTHING]
    assert server.files.state(B, START + 1500).known is KnownState.EXACTLY
    server.files.lapsing = {}
    server.files.write(START + 3000, [], [], None, [Lapse(START + 1000, START + 2000, frozenset({0}))])
    for until in (2000, 5000):
        assert server.files.state(B, START + 2500).known is KnownState.EXACTLY
        found = server.files.state(A, START + 2500)
        assert (found.known, found.since_ms) == (KnownState.AS_NOW, START + until)
        assert server.files.state(A, START + 500).known is KnownState.EXACTLY
        server.files.write(START + 4000, [], [event(START + 4000)])
        server.restart(START + 5000)


# --- places of events ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["nothing", "newest file", "all files"])
def test_one_who_follows_gets_the_events_after_a_restart_whatever_was_lost(server: Server, lost: str) -> None:
    server.write(START, [event(START + n) for n in range(50)])
    next_file(server)
    server.put(START + 1000, "a")
    server.write(START + 1001, [event(START + 1000)] * (lost == "newest file"))
    (last,) = places(server)[-1:]
    server.files.close()
    found = files_of(server.directory)
    for path in {"nothing": [], "newest file": found[-1:], "all files": found}[lost]:
        path.unlink()
    server.files = HistoryFiles(server.directory, server.rules, START + 60_000)
    server.files.write(START + 60_001, [], [event(START + 60_000, reason="after")])
    (new,) = server.files.events(0, FAR, (), last, 10, newest_first=False)[0]
    assert b"after" in new.body


def test_a_write_that_fails_in_the_end_does_not_keep_the_next_ones_from_being_written(server: Server) -> None:
    server.put(START, "a")
    server.write(START + 1, [event(START)])
    assert server.files._current is not None
    database = server.files._current._database
    database.execute("CREATE TABLE filler (x)")
    database.execute(
        "CREATE TRIGGER full BEFORE INSERT ON gaps BEGIN INSERT INTO filler VALUES (randomblob(1000000)); END"
    )
    database.execute("PRAGMA max_page_count = 1")  # no more than it has now
    server.files.write(START + 1000, [], [event(START + 500, reason="lost")], Gap(START + 100, START + 900, 7))
    database.execute("PRAGMA max_page_count = 100000")
    database.execute("DROP TRIGGER full")
    assert not server.files.write(START + 2000, [], [event(START + 1500, reason="kept")])
    found, _ = server.files.events(0, FAR, (), 0, 10, newest_first=False)
    assert [b"kept" in e.body for e in found] == [False, True]
    assert server.files.state(A, START + 2500).known is KnownState.AS_NOW


def test_a_text_that_is_no_utf_8_is_kept_and_costs_nothing_beside_it(server: Server) -> None:
    server.put(START, "a")
    server.write(START + 1)
    server.put(START + 1000, "b")
    server.write(START + 1001, [event(START + 1000, reason="x\udc80")])
    assert server.known(START + 1500) == server.was(START + 1500)
    (found,), _ = server.files.events(0, FAR, (), 0, 10, newest_first=False)
    assert b"x\\\\udc80" in found.body
    assert len(list(server.directory.iterdir())) == len(["the file", "-wal", "-shm", "lock"])


# --- the directory ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["50%41", "a#b?mode=rwc", "ä ö"])
def test_a_directory_may_have_any_name(tmp_path: Path, name: str) -> None:
    server = Server(tmp_path / name)
    server.put(START, "a")
    server.write(START + 1)
    next_file(server)
    assert server.files.state(A, START + 5).known is KnownState.EXACTLY
    server.files.close()


def test_files_of_other_names_are_left_alone(tmp_path: Path) -> None:
    for name in ("²", "x", "9" * 100, "-1"):
        (tmp_path / f"{name}{SUFFIX}").write_text("")
    server = Server(tmp_path)
    assert server.files.begins_ms == 0
    server.files.close()


def test_files_that_cannot_be_written_at_a_start_are_kept(server: Server) -> None:
    for part in range(3):
        server.put(START + 1000 * part, f"r{part}")
        server.write(START + 1000 * part + 1)
        next_file(server)
    server.files.close()
    newest = files_of(server.directory)[-1]
    other = sqlite3.connect(newest, isolation_level=None)
    other.execute("PRAGMA locking_mode=EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    server.files = HistoryFiles(server.directory, server.rules, START + 10_000)
    other.close()
    assert len(files_of(server.directory)) == 3
    assert not list(server.directory.glob(f"*{DAMAGED}"))
    server.put(START + 11_000, "q")
    server.write(START + 11_001)
    assert server.files.state(A, START + 500).known is KnownState.EXACTLY


def test_a_file_that_could_not_be_read_at_a_start_stays_before_the_ones_that_come_after(server: Server) -> None:
    server.put(START + 1000, "a")
    server.write(START + 1001)
    next_file(server)
    server.put(START + 2000, "b")
    server.write(START + 2001)
    server.files.close()
    newest = files_of(server.directory)[-1]
    kept = newest.rename(server.directory / "kept")
    newest.mkdir()
    server.files = HistoryFiles(server.directory, server.rules, START + 3000)
    assert not list(server.directory.glob(f"*{DAMAGED}"))
    server.changed.begin_anew()
    server.put(START + 3000, "c")
    server.write(START + 3001, [event(START + 3001)])
    server.files.close()
    newest.rmdir()
    kept.rename(newest)
    server.files = HistoryFiles(server.directory, server.rules, START + 4000)
    assert set(server.known(START + 3500)) == {"a", "b", "c"}


def test_files_that_are_removed_while_it_writes_are_said_once_and_written_anew(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    for part in range(3):
        server.put(START + 1000 * part, f"r{part}")
        server.write(START + 1000 * part + 1, [event(START)])
        if part < 2:
            next_file(server)
    shutil.rmtree(server.directory)
    for _ in range(3):
        server.files.events(0, FAR, (), 0, 10, newest_first=False)
    server.put(START + 5000, "lost")
    server.write(START + 5001)
    server.put(START + 6000, "a")
    server.write(START + 6001)
    assert len(files_of(server.directory)) == 1
    assert server.known(START + 7000) == server.was(START + 7000)
    assert server.files.state(A, START + 5500).known is not KnownState.EXACTLY
    assert len(caplog.records) <= 6, caplog.text


def test_a_disk_that_takes_no_file_is_not_littered_with_empty_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(tmp_path)
    monkeypatch.setattr("slotreeve_events.history_file._SCHEMA", "CREATE TABLE x (y); SELECT no_such_function();")
    for second in range(20):
        server.put(START + 1000 * second, "a")
        server.write(START + 1000 * second + 1)
    assert files_of(tmp_path) == []
    server.files.close()


def test_a_history_is_no_larger_than_it_may_be_with_all_that_is_beside_its_files(tmp_path: Path) -> None:
    server = Server(tmp_path, HistorySettings(most_bytes=1 << 20))
    largest = 0
    for second in range(250):
        server.put(START + 1000 * second, f"r{second % 3}", content=os.urandom(9000))
        server.write(START + 1000 * second + 1, [event(START + 1000 * second)])
        if second % 10 == 0:
            server.files.state(A, START)
            largest = max(largest, bytes_in(tmp_path))
    assert largest < 1.3 * (1 << 20)
    assert server.files.begins_ms < START + 215_000
    server.files.close()


def test_of_damaged_files_the_last_one_is_kept(server: Server) -> None:
    for part in range(5):
        server.put(START + 1000 * part, "r")
        server.write(START + 1000 * part + 1)
        path = files_of(server.directory)[-1]
        next_file(server)
        path.write_bytes(b"no database" * 1000)
        server.files.state(A, FAR)
    assert len(list(server.directory.glob(f"*{DAMAGED}"))) == 1


def test_what_is_remembered_of_gaps_does_not_grow_with_the_failures(server: Server) -> None:
    server.put(START, "a")
    server.write(START + 1)
    assert server.files._current is not None
    server.files._current._database.execute("PRAGMA query_only=1")
    for second in range(100):
        server.files.write(START + 1000 * second + 2, [], [event(START)])
    assert len(server.files._gaps) <= 2


# --- pages -----------------------------------------------------------------------------------------------------------


def test_a_page_of_changes_of_one_moment_is_bounded_by_bytes(server: Server) -> None:
    for number in range(300):
        server.put(START, "r", f"s{number}#@#i#@#g", bytes(20_000))
    server.write(START + 1)
    page, more = server.files.changes("", 0, FAR, 1000, 100_000)
    assert (len(page), more) == (300, False)
    assert sum(len(part) for row in page for change in row.changes for part in change.data) <= 100_000


def test_a_state_of_very_many_records_is_read_as_it_was(server: Server) -> None:
    server.services[A] = {f"r{n}": Publisher(f"r{n}", A, 1, 1, "s", "", (b"%d" % n,)) for n in range(1234)}
    server.put(START, "new")
    server.write(START + 1)
    assert server.known(START + 2) == server.was(START + 2)


def test_changes_of_one_service_are_taken_in_parts_that_lose_nothing(tmp_path: Path) -> None:
    changed, services = ChangedServices(), dict[str, dict[str, Publisher]]()
    for number in range(5):
        record = Publisher(f"r{number}", A, 1, 1, "s", "", (b"x",))
        changed.comes(record, HeldRecords(services, 1), START + number)
        services.setdefault(A, {})[record.register_id] = record
    files = HistoryFiles(tmp_path, HistorySettings(), START)
    sizes = []
    for part in range(3):
        rows = changed.take(2)
        sizes.append([len(row.changes) for row in rows])
        files.write(START + 100 + part, rows, [])
    assert sizes == [[2], [2], [1]]
    assert not changed
    assert len(files.state(A, FAR).records) == 5
    files.close()


def test_a_clock_that_is_wrong_for_a_moment_costs_one_part_of_the_history(tmp_path: Path) -> None:
    files = HistoryFiles(tmp_path, HistorySettings(), START)
    now = START
    for _ in range(44):
        now += HOUR // 2
        files.write(now, (), [event(now, "node_joined")])
    before = len(files_of(tmp_path))
    files.write(now + 400 * 24 * HOUR, (), [event(now, "node_left")])
    files.write(now + SECOND, (), [event(now, "node_joined")])
    assert len(files_of(tmp_path)) >= before - 1
    files.close()
    wrong = HistoryFiles(tmp_path, HistorySettings(), now + 400 * 24 * HOUR)
    wrong.close()
    assert len(files_of(tmp_path)) >= before - 2


def test_a_directory_whose_name_says_full_is_none_that_is(tmp_path: Path) -> None:
    directory = tmp_path / "fullstack"
    files = HistoryFiles(directory, HistorySettings(keep_seconds=1e6), START)
    now = START
    for _ in range(6):
        now += 40 * HOUR
        files.write(now, (), [event(now, "node_joined")])
    now += SECOND
    files.write(now, (), [event(now, "node_joined")])
    files_of(directory)[-1].unlink()
    before = len(files_of(directory))
    for _ in range(50):
        now += SECOND
        files.write(now, (), [event(now, "node_joined")])
    assert (files.lost, len(files_of(directory)) >= before) == (1, True)
    files.close()
