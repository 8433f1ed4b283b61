"""What the console makes of answers about the past, without a cluster."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import ModelError, RequestError, Unreachable
from slotreeve.model.slots import Slot
from slotreeve_client.history import Past
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_events.schema import HISTORY_KINDS, USUAL_KINDS, HistoryNote, SlotHolders, SlotMove
from slotreeve_face_console.history_filter import filter_of, moment_of
from slotreeve_face_console.past_rows import (
    EventRow,
    ends_text,
    merged_tables,
    page_of_events,
    service_ends,
    told_events,
    untold,
)
from slotreeve_face_console.readings import MOST_KEPT, SharedReadings
from slotreeve_face_console.slot_past import slot_past
from slotreeve_face_console.slot_states import ServerNumbers
from slotreeve_protocol.history_messages import HistoryEvent, RecordedChange, ServiceChange

NOW_MS = int(datetime(2026, 11, 26, 14, 30, tzinfo=UTC).timestamp() * 1000)

TIMES = st.integers(0, 30).map(lambda tenths: 100 * tenths)
"""Milliseconds."""


def told_of(server: str, *times: int) -> list[tuple[str, HistoryEvent]]:
    notes = [
        HistoryNote(1, f"{server}/{place}", at_ms, server, "alarm", reason=f"at {at_ms}")
        for place, at_ms in enumerate(times, 1)
    ]
    return [(server, HistoryEvent(place, msgspec.json.encode(note))) for place, note in enumerate(notes, 1)][::-1]


@given(
    histories=st.dictionaries(st.sampled_from("abc"), st.lists(TIMES, max_size=25).map(sorted), max_size=3),
    most=st.integers(1, 8),
    size=st.integers(1, 8),
    sought=st.sampled_from(["", "at 1", "AT 2", "nothing"]),
)
def test_the_pages_together_tell_every_event_once_and_in_order(
    histories: dict[str, list[int]], most: int, size: int, sought: str
) -> None:
    """A twin of the servers: each tells its newest events before a time, ``most`` and those of the same moment."""
    until = 1 << 62
    seen: list[EventRow] = []
    for _ in range(200):
        events, more = [], False
        for server, times in histories.items():
            known = [pair for pair in told_of(server, *times) if msgspec.json.decode(pair[1].event)["at_ms"] < until]
            events += known[:most]
            more |= len(known) > most
        page = page_of_events(told_events(Past(events=events, more=more), most), sought, size)
        seen += page.rows
        if page.older_ms is None:
            break
        assert page.older_ms < until
        until = page.older_ms
    expected = [at for times in histories.values() for at in times if sought.lower() in f"at {at}"]
    if all(times.count(at) <= most for times in histories.values() for at in times):
        assert [row.at_ms for row in seen] == sorted(expected, reverse=True)


def test_what_cannot_be_read_is_left_out() -> None:
    past = Past(events=[*told_of("a", 1), ("a", HistoryEvent(2, b"{}")), ("a", HistoryEvent(3, b"\xff"))])
    assert [row.at_ms for row in page_of_events(told_events(past, 10), "", 10).rows] == [1]


def change(register_id: str, at_ms: int, reason: str = "", ends: int = 0, is_gone: bool = False) -> RecordedChange:
    return RecordedChange(register_id, at_ms, is_gone, 1, "session-1@1", "", (b"x",), reason, ends)


def test_services_that_lost_instances_come_with_the_most_frequent_reason() -> None:
    rows = [
        ("data-1", ServiceChange("a", 5, 1, True, [change("1", 5, "lost", 3, True), change("2", 4, "left", 1, True)])),
        ("data-1", ServiceChange("a", 3, 1, True, [change("1", 3, "lost", 1), change("3", 2)])),
        ("data-2", ServiceChange("b", 9, 1, False, [change("4", 9, is_gone=True)])),
        ("data-2", ServiceChange("c", 9, 1, True, [change("5", 9)])),
    ]
    first, second = service_ends(Past(changes=rows))
    assert ends_text(first, 1) == "2 instances ended, the last at 00:00:00 UTC: most often lost. It has 1 now."
    assert ends_text(second, 0) == "1 instance ended at 00:00:00 UTC: the reason is not known. It has none now."
    assert ends_text(second, None).endswith("not known.")


def test_what_is_missing_is_said_once() -> None:
    past = Past(begins_ms=5_000, lost={"data-1": 3}, silent={"a": "no.", "b": "no", "meta server at x:1": "yes"})
    assert untold(past, 4_000) == [
        "a, b do not tell of the past: no.",
        "Meta server at x:1 does not tell of the past: yes.",
        "The history of a server begins at 1970-01-01 00:00:05 UTC; what was before is not in it.",
        "data-1 could not write 3 events since its start.",
    ]
    assert untold(Past(begins_ms=5_000), 5_000) == []


def test_a_query_chooses_kinds_text_span_and_time() -> None:
    assert filter_of({}).kinds == USUAL_KINDS
    chosen = filter_of({"kind": ["alarm", "started"], "q": [" x&y "], "span": ["6h"], "before": ["7"]})
    assert tuple(chosen) == (("started", "alarm"), "x&y", "6h", 7)
    assert chosen.query(9) == "span=6h&q=x%26y&before=9&kind=started&kind=alarm"
    assert filter_of({"kind": list(HISTORY_KINDS)}).kinds == tuple(HISTORY_KINDS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("10", "14:20:00.000"), ("10 min", "14:20:00.000"), ("1.5 minutes ago", "14:28:30.000")),
        *(
            ("14:05:30", "14:05:30.000"),
            ("14:05:30 UTC", "14:05:30.000"),
            ("2h", "12:30:00.000"),
            ("0", "14:30:00.000"),
        ),
        *(("2026-11-26T01:02:03.004+01:00", "00:02:03.004"), ("2026-11-26 14:00:00 UTC", "14:00:00.000")),
    ],
)
def test_a_time_is_minutes_ago_or_as_everywhere(text: str, expected: str) -> None:
    moment = moment_of(text, NOW_MS)
    assert moment == f"2026-11-26T{expected}+00:00"
    assert moment_of(moment, NOW_MS + 5_000) == moment


def test_a_time_that_is_none_or_has_not_come_is_refused() -> None:
    with pytest.raises(ModelError, match="at 'soon' is no time"):
        moment_of("soon", NOW_MS)
    with pytest.raises(RequestError, match="has not come yet"):
        moment_of("2026-11-27", NOW_MS)


def table(at_ms: int, epoch: int, **slots: str) -> HistoryNote:
    holders = [SlotHolders(int(slot[1:]), names[0], epoch, tuple(names[1:])) for slot, names in slots.items()]
    return HistoryNote(1, f"m/{epoch}", at_ms, "meta-1", "table", epoch=epoch, changed=holders)


def test_commits_that_follow_each_other_are_told_as_one() -> None:
    def commit(at_ms: int, epoch: int, node: str = "meta-1", *reasons: str) -> HistoryNote:
        moves = [SlotMove(slot, "leader", "a", "b", reason) for slot, reason in enumerate(reasons)]
        return HistoryNote(1, f"{node}/{epoch}", at_ms, node, "table", epoch=epoch, moves=moves, reason="a swap")

    events = [
        *(commit(900_000, 6, "meta-2", "left"), commit(500_000, 5), commit(62_000, 4, "meta-1", "left", "even")),
        *(commit(61_000, 3, "meta-1", "left"), commit(1_000, 2, "meta-1", "thin")),
    ]
    assert [(row.key, row.at_ms, row.text) for row in merged_tables(events, ())] == [
        ("meta-2/6", 900_000, "meta-2 committed table 6: 1 move: left."),
        ("meta-1/5", 500_000, "meta-1 committed table 5: a swap."),
        ("meta-1/2", 62_000, "meta-1 committed 3 tables, 2 to 4: 2 moves: left; 1 move: thin; 1 move: even."),
    ]
    left = EventRow("m/1", 60_500, "meta-1", "node_left", "a left")
    assert [row.key for row in merged_tables(events, [left])] == ["meta-2/6", "meta-1/5", "meta-1/3", "meta-1/2"]


def test_the_table_of_a_time_is_made_of_the_commits_before_and_after() -> None:
    now = [Slot(0, "a", 3, ("b",)), Slot(1, "b", 1, ("c",)), Slot(2, "c", 1, ("a",)), Slot(3, None, 1, ())]
    numbers = ServerNumbers()
    for name in "abc":
        numbers.of(name)
    events = [table(30, 3, s0="ab"), table(20, 2, s0="ba", s2="ca"), table(10, 1, s0="ca", s1="bc")]
    past = slot_past(events, now, 15, 40, numbers)
    assert past.cells == ["2,0", "1,2", "?", "-1"], "slot 2 changed later, and what it was before is not known"
    assert [(step.at_ms, step.epoch, step.cells) for step in past.steps] == [
        (20, 2, {"0": "1,0", "2": "2,0"}),
        (30, 3, {"0": "0,1"}),
    ]
    assert slot_past(events, now, 35, 40, numbers).steps == []


def test_all_who_look_share_a_question_which_is_not_asked_again_soon() -> None:
    async def main(rng: random.Random) -> None:
        clock = VirtualClock()
        readings: SharedReadings[int] = SharedReadings(clock)
        answers: list[int | str] = [1, "gone", 2]

        async def ask() -> int:
            await asyncio.sleep(0.5)
            answer = answers.pop(0)
            if isinstance(answer, str):
                raise Unreachable(answer)
            return answer

        found = await asyncio.gather(*(readings.read("a", ask, 5) for _ in range(3)))
        assert [(each.value, each.trouble) for each in found] == [(1, "")] * 3
        await asyncio.sleep(4)
        assert (await readings.read("a", ask, 5)).value == 1
        assert readings.asked == 1
        await asyncio.sleep(2)
        began = clock.now()
        assert (await readings.read("a", ask, 5)).value == 1
        assert clock.now() - began < 0.1, "what is hardly old is shown, and asked for again beside"
        await asyncio.sleep(1)
        old = await readings.read("a", ask, 5)
        assert (old.value, old.trouble) == (1, "gone")
        await asyncio.sleep(15)
        assert (await readings.read("a", ask, 5)).value == 2
        assert readings.asked == 3

    run(main, seed=1)


def test_questions_that_nobody_asks_again_are_forgotten_and_slow_ones_are_not_waited_for() -> None:
    async def main(rng: random.Random) -> None:
        clock = VirtualClock()
        readings: SharedReadings[int] = SharedReadings(clock)

        async def quick() -> int:
            return 1

        async def slow() -> int:
            await asyncio.sleep(1_000)
            return 1

        for number in range(2 * MOST_KEPT):
            await readings.read(number, quick, 5)
        assert len(readings._readings) == MOST_KEPT
        began = clock.now()
        assert (await readings.read("slow", slow, 5)).value is None
        assert clock.now() - began == pytest.approx(5)
        await readings.stop()

    run(main, seed=1)
