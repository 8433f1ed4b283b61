"""The history of a running server: it costs the server nothing, whatever the disk, the askers and the log do."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TypeVar

import pytest
from pydantic import ValidationError
from slotreeve.errors import NotThere
from slotreeve.model.nodes import Node, Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_conformance import virtual_time
from slotreeve_events.changed_services import HeldRecords
from slotreeve_events.disk_jobs import Work, Worked
from slotreeve_events.history import MOST_LAPSES, MOST_QUESTIONS, ServerHistory
from slotreeve_events.history_files import HistoryFiles
from slotreeve_events.schema import MOST_LETTERS, HistoryNote
from slotreeve_events.settings import HistorySettings
from slotreeve_machines.beside import InTurn
from slotreeve_protocol.history_messages import KnownState
from slotreeve_protocol.slot_messages import SlotWrite

from tests.events.history_server import FAR, A

T = TypeVar("T")
RULES = HistorySettings(changes_per_second=10)
log = logging.getLogger("slotreeve.test")


class Disk:
    """Runs the work of a history, unless it hangs, or no thread can be started."""

    def __init__(self, clock: virtual_time.VirtualClock) -> None:
        self._beside = InTurn(clock)
        self.hangs = self.has_no_threads = False

    def run(self, work: Work, worked: Worked) -> None:
        if self.has_no_threads:
            asyncio.get_running_loop().call_soon(worked, None, RuntimeError("can't start new thread"))
        elif not self.hangs:
            self._beside.run(work, worked)


class Watched:
    """A history, with the server around it."""

    def __init__(self, directory: Path) -> None:
        self.clock = virtual_time.VirtualClock()
        self.disk = Disk(self.clock)
        self.files = HistoryFiles(directory, RULES, self.clock.wall_ms())
        node = Node("data-1", Role.DATA, "127.0.0.1:1", "data-1@1")
        self.history = ServerHistory(self.files, node, self.clock, self.disk.run, RULES)
        self.services: dict[str, dict[str, Publisher]] = {}
        self.history.start()

    def put(self, *register_ids: str) -> None:
        for register_id in register_ids:
            record = Publisher(register_id, A, 1, 1, "s", "", (b"x",))
            self.history.writing(HeldRecords(self.services, 1), SlotWrite(1, 1, [record], [], []))
            self.services.setdefault(A, {})[register_id] = record

    async def asked(self, question: Callable[[HistoryFiles], T]) -> T:
        answer = asyncio.get_running_loop().create_future()
        self.history.ask(question, lambda reply, error: answer.set_result((reply, error)))
        reply, error = await answer
        assert error is None
        return reply  # type: ignore[no-any-return]

    async def events(self) -> list[bytes]:
        found = await self.asked(lambda f: f.events(0, FAR, (), 0, 1000, newest_first=False)[0])
        return [event.body for event in found]


def play(tmp_path: Path, scenario: Callable[[Watched], Coroutine[object, object, None]]) -> None:
    async def main(_rng: random.Random) -> None:
        it = Watched(tmp_path)
        await scenario(it)
        await it.history.close()

    virtual_time.run(main)


def test_a_stop_does_not_wait_for_a_disk_that_hangs(tmp_path: Path) -> None:
    async def scenario(it: Watched) -> None:
        it.disk.hangs = True
        it.put("a")
        await asyncio.sleep(1)
        async with asyncio.timeout(60):
            await it.history.close()

    play(tmp_path, scenario)


def test_a_stop_within_a_gap_ends_and_writes_it(tmp_path: Path) -> None:
    async def scenario(it: Watched) -> None:
        it.put(*(f"r{number}" for number in range(500)))
        await it.history.close()
        files = HistoryFiles(tmp_path, RULES, it.clock.wall_ms())
        assert [e.kind for e in files.events(0, FAR, (), 0, 10, newest_first=False)[0]] == ["gap"]
        files.close()

    play(tmp_path, scenario)


def test_a_history_that_was_never_started_gives_its_directory_back(tmp_path: Path) -> None:
    async def scenario(it: Watched) -> None:
        directory = tmp_path / "other"
        node = Node("data-1", Role.DATA, "127.0.0.1:1", "data-1@1")
        files = HistoryFiles(directory, RULES, it.clock.wall_ms())
        await ServerHistory(files, node, it.clock, it.disk.run, RULES).close()
        HistoryFiles(directory, RULES, it.clock.wall_ms()).close()

    play(tmp_path, scenario)


def test_questions_to_a_disk_that_hangs_are_refused_and_not_gathered(tmp_path: Path) -> None:
    async def scenario(it: Watched) -> None:
        it.disk.hangs = True
        refused = 0
        for _ in range(1000):
            try:
                it.history.ask(lambda files: files.begins_ms, lambda reply, error: None)
            except NotThere:
                refused += 1
        assert refused == 1000 - MOST_QUESTIONS

    play(tmp_path, scenario)


def test_a_question_is_answered_with_all_that_happened_before_it(tmp_path: Path) -> None:
    async def scenario(it: Watched) -> None:
        names = [f"r{number}" for number in range(49)]
        it.put(*names)
        found = await it.asked(lambda files: files.state(A, FAR))
        assert (found.known, len(found.records)) == (KnownState.EXACTLY, 49)

    play(tmp_path, scenario)


def test_a_gap_does_not_end_because_somebody_asks_often(tmp_path: Path) -> None:
    async def scenario(it: Watched) -> None:
        for number in range(200):
            it.put(*(f"r{number}-{n}" for n in range(60)))
            await it.events()
            await asyncio.sleep(0.01)
        await asyncio.sleep(5)
        assert sum(b"gap" in body for body in await it.events()) == 1

    play(tmp_path, scenario)


def test_where_no_thread_can_be_started_a_part_is_lost_and_the_rest_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(it: Watched) -> None:
        it.put("a")
        await asyncio.sleep(2)
        it.disk.has_no_threads = True
        it.put("b")
        await asyncio.sleep(2)
        then = it.clock.wall_ms()
        it.disk.has_no_threads = False
        await asyncio.sleep(2)
        it.put("c")
        found = await it.asked(lambda files: files.state(A, then + 1000))
        assert (found.known, {r.register_id for r in found.records}) == (KnownState.EXACTLY, {"a", "b"})
        assert (await it.asked(lambda files: files.state(A, then - 1000))).known is not KnownState.EXACTLY
        assert caplog.text.count("is lost") == 1

    play(tmp_path, scenario)


def test_lines_of_the_log_may_be_very_long_wrong_or_no_utf_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    # The test runner could not hand these lines on.
    monkeypatch.setattr(logging.getLogger("slotreeve"), "propagate", False)

    async def scenario(it: Watched) -> None:
        log.warning("%d", "x")
        log.error("x" * 10_000_000)
        log.error("no UTF-8: \udc80")
        first, second = (await it.events())[-2:]
        assert MOST_LETTERS < len(first) < MOST_LETTERS + 200
        assert b"no UTF-8: \\\\udc80" in second

    play(tmp_path, scenario)


def test_texts_of_others_may_be_very_long(tmp_path: Path) -> None:
    async def scenario(it: Watched) -> None:
        event = it.history.note("client_left", "x" * 30_000_000)
        event.member = event.address = event.author = "y" * 1_000_000
        (body,) = await it.events()
        assert len(body) < 5 * MOST_LETTERS

    play(tmp_path, scenario)


def test_the_holders_of_all_slots_are_not_written_again_and_again(tmp_path: Path) -> None:
    async def scenario(it: Watched) -> None:
        table = SlotTable(1, tuple(Slot(number, "data-1", 1, ()) for number in range(1000)))
        for _ in range(3):
            it.history.slotreeve_table_published(table, [], "a test")
        sizes = [len(body) for body in await it.events()]
        assert [size < 1000 for size in sizes] == [False, True, True], "the first one of a file has all"

    play(tmp_path, scenario)


@pytest.mark.parametrize("key", ["keep_seconds", "flush_seconds"])
def test_a_time_without_an_end_is_no_setting(key: str) -> None:
    with pytest.raises(ValidationError, match="finite"):
        HistorySettings.model_validate({key: float("inf")})


def test_an_event_that_waits_for_the_disk_is_counted_where_too_many_do(tmp_path: Path) -> None:
    async def scenario(it: Watched) -> None:
        it.disk.hangs = True
        notes: list[HistoryNote] = [it.history.note("client_left") for _ in range(50_000)]
        assert it.history.lost_in_all == 40_000
        assert notes[-1].id.endswith("/50000")

    play(tmp_path, scenario)


@pytest.mark.parametrize("others", [0, MOST_LAPSES])
def test_a_slot_that_lapsed_later_than_others_is_known_until_then(tmp_path: Path, others: int) -> None:
    """Unless very many lapses wait for the disk."""

    async def scenario(watched: Watched) -> None:
        held, record = HeldRecords(watched.services, 1, slot=1), Publisher("c-1", A, 1, 1, "s", "", (b"x",))
        watched.history.complete_of = lambda _slots: set()
        watched.history.lapse([2])
        for number in range(others):
            await asyncio.sleep(0.01)
            watched.history.lapse([10 + number])
        watched.history.writing(held, SlotWrite(1, 1, [record], [], []))
        watched.services[A] = {"c-1": record}
        await asyncio.sleep(5)
        then = watched.clock.wall_ms()
        await asyncio.sleep(5)
        watched.history.lapse([1])
        await asyncio.sleep(5)
        meanwhile = watched.clock.wall_ms()
        assert (await watched.asked(lambda f: f.state(A, then))).known is KnownState.EXACTLY
        watched.history.complete_of = set
        await asyncio.sleep(5)
        known = KnownState.AS_NOW if others else KnownState.EXACTLY
        assert (await watched.asked(lambda f: f.state(A, then))).known is known
        assert (await watched.asked(lambda f: f.state(A, meanwhile))).known is KnownState.AS_NOW

    play(tmp_path, scenario)
