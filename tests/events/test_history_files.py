"""The files of a history: what was written is found, whatever happened to a part of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve.errors import StorageError
from slotreeve.model.publisher import Publisher
from slotreeve_events.changed_services import Gap
from slotreeve_events.history_file import SUFFIX
from slotreeve_events.history_files import HistoryFiles
from slotreeve_events.history_store import CLOCK_STEP_MS, DAMAGED, PARTS
from slotreeve_events.settings import HistorySettings
from slotreeve_protocol.history_messages import KnownState

from tests.events.history_server import FAR, START, A, B, Server, event


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.files.close()


STEP = st.tuples(
    st.sampled_from(("put", "put", "end", "write", "write", "file", "restart")),
    st.sampled_from("abc"),
    st.sampled_from((A, B)),
)


@settings(max_examples=40)
@given(st.lists(STEP, max_size=40))
def test_each_moment_that_was_written_is_known_for_each_service(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, str]]
) -> None:
    server = Server(tmp_path_factory.mktemp("history"))
    now = START
    for what, name, service in steps:
        now += 10
        if what == "put":
            server.put(now, name, service)
        elif what == "end":
            server.end(now, name, service)
        elif what == "write":
            server.write(now)
        elif what == "file":
            server.write(now)
            server.files._finish()
            server.changed.begin_anew()
        else:
            server.write(now)
            server.restart(now)
    server.write(now + 10)
    # Between two changes of one registration in one interval only the last is known.
    for at in {at for at, _, _ in server.states} & {now, now + 10} | {now + 10}:
        for service in (A, B):
            assert server.known(at, service) == server.was(at, service)
    server.files.close()


def test_every_second_is_known_where_each_was_written(server: Server) -> None:
    for second in range(200):
        server.put(START + 1000 * second, f"r{second % 7}")
        if second % 5 == 3:
            server.end(START + 1000 * second + 1, f"r{(second + 3) % 7}")
        server.write(START + 1000 * second + 500)
        if second % 60 == 50:
            server.restart(START + 1000 * second + 600)
    for second in range(200):
        for offset in (0, 1, 499, 999):
            at = START + 1000 * second + offset
            assert server.known(at) == server.was(at), f"second {second} + {offset} ms"


def test_before_the_first_change_it_is_what_it_was_then_and_an_unknown_service_is_said_to_be_so(server: Server) -> None:
    server.services[A] = {"old": Publisher("old", A, 1, 1, "s", "", (b"o",))}
    server.put(START + 5000, "new")
    server.write(START + 5500)
    found = server.files.state(A, START + 1000)
    assert (found.known, [r.register_id for r in found.records]) == (KnownState.BEFORE_A_CHANGE, ["old"])
    assert server.files.state(B, START + 9000).known is KnownState.NOTHING


def test_changes_come_newest_first_in_pages_that_lack_nothing(server: Server) -> None:
    for second in range(50):
        server.put(START + 1000 * second, "r", (A, B)[second % 2])
        server.write(START + 1000 * second + 100)
        if second == 20:
            server.files._finish()
            server.changed.begin_anew()
    seen, until = [], FAR
    while True:
        page, more = server.files.changes("", 0, until, 7)
        seen += [change.at_ms for change in page]
        if not more:
            break
        until = page[-1].at_ms
    assert seen == [START + 1000 * second for second in reversed(range(50))]
    only_a, _ = server.files.changes(A, START + 10_000, START + 20_001, 100)
    assert [change.at_ms for change in only_a] == [START + 1000 * s for s in (20, 18, 16, 14, 12, 10)]


def test_events_are_found_by_kind_and_time_in_both_directions_over_files_and_restarts(server: Server) -> None:
    for second in range(30):
        at = START + 1000 * second
        server.write(at + 1, [event(at, ("alarm", "leader")[second % 2])])
        if second in (9, 19):
            server.files._finish()
        if second == 15:
            server.restart(at + 2)
    found, more = server.files.events(0, FAR, (), 0, 100, newest_first=False)
    assert ([e.at_ms for e in found], more) == ([START + 1000 * s for s in range(30)], False)
    assert [e.place for e in found] == sorted({e.place for e in found})
    alarms, more = server.files.events(START + 10_000, FAR, ("alarm",), 0, 3, newest_first=True)
    assert ([e.at_ms for e in alarms], more) == ([START + 1000 * s for s in (28, 26, 24)], True)
    rest, more = server.files.events(START + 10_000, FAR, ("alarm",), alarms[-1].place, 100, newest_first=True)
    assert ([e.at_ms for e in rest], more) == ([START + 1000 * s for s in (22, 20, 18, 16, 14, 12, 10)], False)


def test_the_oldest_part_goes_where_the_history_is_full_and_the_rest_is_whole(tmp_path: Path) -> None:
    server = Server(tmp_path, HistorySettings(most_bytes=4 << 20))
    now = START
    for _ in range(300):
        for number in range(30):
            now += 10
            server.put(now, f"r{number}", content=bytes(1000))
        server.write(now)
    size = sum(path.stat().st_size for path in tmp_path.glob(f"*{SUFFIX}*"))
    assert size < 1.3 * (4 << 20)
    assert START < server.files.begins_ms < now
    for at in range(server.files.begins_ms + 2000, now, 10_000):
        assert server.known(at) == server.was(at)
    server.files.close()


def test_what_is_older_than_the_configured_time_goes(tmp_path: Path) -> None:
    server = Server(tmp_path, HistorySettings(keep_seconds=800))
    for second in range(0, 3000, 10):
        server.put(START + 1000 * second, "r")
        server.write(START + 1000 * second + 1)
    age = (START + 3_000_000 - server.files.begins_ms) / 1000
    assert 800 <= age <= 800 + 2 * 800 / PARTS + 10
    server.files.close()


def test_a_damaged_file_is_put_aside_and_costs_only_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = Server(tmp_path)
    for part in range(3):
        server.put(START + 1000 * part, f"r{part}")
        server.write(START + 1000 * part + 1, [event(START + 1000 * part)])
        server.files._finish()
        server.changed.begin_anew()
    middle = sorted(tmp_path.glob(f"*{SUFFIX}"))[1]
    middle.write_bytes(b"no database" * 1000)
    assert server.known(START + 2500) == server.was(START + 2500)
    assert len(server.files.events(0, FAR, (), 0, 10, newest_first=False)[0]) == 2
    assert middle.with_name(middle.name + DAMAGED).exists()
    assert "damaged" in caplog.text
    server.put(START + 9000, "r9")
    server.write(START + 9001)
    assert server.known(START + 9500) == server.was(START + 9500)
    server.files.close()


def test_a_newest_file_that_is_damaged_does_not_keep_a_server_from_starting(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.put(START, "r")
    server.write(START + 1)
    server.files.close()
    next(iter(tmp_path.glob(f"*{SUFFIX}"))).write_bytes(b"\x00" * 5000 + b"not a database")
    server.files = HistoryFiles(tmp_path, server.rules, START + 5000)
    server.changed.begin_anew()
    server.put(START + 6000, "q")
    server.write(START + 6001)
    assert server.known(START + 7000) == server.was(START + 7000)
    server.files.close()


def test_a_full_disk_costs_what_could_not_be_written_is_said_once_and_ends(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.put(START, "r")
    server.write(START + 1)
    assert server.files._current is not None
    pages = server.files._current._database.execute("PRAGMA page_count").fetchone()[0]
    server.files._current._database.execute(f"PRAGMA max_page_count={pages}")
    for second in range(1, 30):
        server.put(START + 1000 * second, f"r{second}", content=bytes(3000))
        server.write(START + 1000 * second + 1, [event(START + 1000 * second)])
    assert server.files.lost > 10
    assert caplog.text.count("cannot be written") == 1
    server.files._current._database.execute("PRAGMA max_page_count=1000000")
    server.put(START + 60_000, "after")
    server.write(START + 60_001)
    assert server.known(START + 61_000) == server.was(START + 61_000)
    assert "is written again" in caplog.text
    lost = server.files.state(A, START + 20_500)
    assert lost.known is not KnownState.EXACTLY


def test_a_state_is_never_told_as_exact_over_a_gap(server: Server) -> None:
    server.put(START, "a")
    server.put(START, "a", B)
    server.write(START + 100)
    server.services[A]["b"] = server.services[B]["b"] = Publisher("b", A, 1, 1, "s", "", (b"in the gap",))
    server.changed.begin_anew()
    server.files.write(START + 5000, [], [], Gap(START + 1000, START + 5000, 7))
    server.put(START + 8000, "c")
    server.write(START + 8100)
    assert set(server.known(START + 500)) == {"a"}
    assert server.files.state(A, START + 2000).known is KnownState.BEFORE_A_CHANGE
    after = server.files.state(A, START + 6000)
    assert (after.known, after.since_ms) == (KnownState.EXACTLY, START + 5000)
    assert {record.register_id for record in after.records} == {"a", "b"}
    as_now = server.files.state(B, START + 6000)
    assert (as_now.known, as_now.since_ms, as_now.leader_epoch) == (KnownState.AS_NOW, START + 5000, 1)
    server.restart(START + 9000)
    assert server.files.state(B, START + 6000).known is KnownState.AS_NOW


def test_a_clock_that_is_set_back_loses_nothing_that_was_written(server: Server) -> None:
    server.put(START + 100_000, "r")
    server.write(START + 100_001)
    server.put(START + 99_000, "q")
    server.write(START + 99_001)
    assert set(server.known(START + 100_100)) == {"r", "q"}
    server.restart(START + 100_001 - CLOCK_STEP_MS - 1000)
    server.put(START + 50_000, "p")
    server.write(START + 50_001)
    assert server.files.state(A, FAR).known is KnownState.EXACTLY


def test_two_processes_do_not_share_a_directory(server: Server) -> None:
    with pytest.raises(StorageError, match="in use by another process"):
        HistoryFiles(server.directory, server.rules, START)


def test_a_directory_that_cannot_be_made_is_said_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"history\.directory: .*cannot be written"):
        HistoryFiles(tmp_path / "a\0b", HistorySettings(), START)
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"history\.directory: .*file/x cannot be written"):
        HistoryFiles(tmp_path / "file" / "x", HistorySettings(), START)


def test_a_file_is_an_ordinary_database_that_others_can_read(server: Server) -> None:
    server.put(START, "r")
    server.write(START + 1, [event(START, reason="it burns")])
    server.files.close()
    (path,) = server.directory.glob(f"*{SUFFIX}")
    with sqlite3.connect(path) as database:
        (body,) = database.execute("SELECT body FROM events").fetchone()
    assert b"it burns" in body
    server.files = HistoryFiles(server.directory, server.rules, START + 10)
