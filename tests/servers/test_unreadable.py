"""For how long slots could not be read, against a twin that looks at each moment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from slotreeve.model.nodes import Role
from slotreeve_protocol.delay_messages import GetSlotReads, SlotReads
from slotreeve_servers.data.slots.unreadable import DAY_SECONDS, HOUR_SECONDS, MOST_KEPT, UnreadableSlots

from tests.servers.recording_outbox import RecordingOutbox, a_peer

PEER = a_peer("tool", Role.TOOL)
STEP = 600
"""Seconds of one step; times that lie at one moment are seen by the twin as they are."""


def reads(slots: UnreadableSlots) -> dict[int, SlotReads]:
    return {one.slot: one for one in slots.answer(PEER, GetSlotReads()).slots}


@given(st.lists(st.tuples(st.sampled_from(["begin", "end", "leave", "rest"]), st.integers(0, 2)), max_size=200))
def test_the_sums_are_those_of_a_twin_that_notes_each_moment(steps: list[tuple[str, int]]) -> None:
    outbox = RecordingOutbox()
    slots = UnreadableSlots(outbox, "data-1", None)
    unreadable: set[int] = set()
    moments: dict[int, list[float]] = {0: [], 1: [], 2: []}
    for what, slot in steps:
        match what:
            case "begin":
                slots.begins(slot, outbox.now(), "it moved")
                unreadable.add(slot)
            case "end":
                slots.ends(slot)
                unreadable.discard(slot)
            case "leave":
                slots.keep({n: None for n in (0, 1, 2) if n != slot})
                unreadable.discard(slot)
        for each in unreadable:
            moments[each].append(outbox.now())
        outbox.advance(STEP)
    now, found = outbox.now(), reads(slots)
    for slot, at in moments.items():
        one = found.get(slot, SlotReads(slot, 0.0, 0.0, 0.0, 0))
        assert one.hour_seconds == STEP * sum(moment >= now - HOUR_SECONDS for moment in at)
        assert one.day_seconds == STEP * sum(moment >= now - DAY_SECONDS for moment in at)
        assert (one.open_seconds > 0) is (slot in unreadable)
    assert slots.open == len(unreadable)


def test_many_short_times_of_one_slot_take_bounded_memory_and_keep_their_sum() -> None:
    outbox = RecordingOutbox()
    slots = UnreadableSlots(outbox, "data-1", None)
    for _ in range(3 * MOST_KEPT):
        slots.begins(0, outbox.now(), "it moved")
        outbox.advance(1.0)
        slots.ends(0)
    assert reads(slots)[0].day_seconds == 3 * MOST_KEPT
    assert reads(slots)[0].ended == MOST_KEPT
    assert slots.times.total_seconds == 3 * MOST_KEPT


def test_slots_are_told_page_by_page() -> None:
    outbox = RecordingOutbox()
    slots = UnreadableSlots(outbox, "data-1", None)
    for slot in range(5):
        slots.begins(slot, outbox.now(), "it moved")
    outbox.advance(1.0)
    first = slots.answer(PEER, GetSlotReads(most=3))
    rest = slots.answer(PEER, GetSlotReads(after=first.slots[-1].slot, most=3))
    assert ([one.slot for one in first.slots], first.more) == ([0, 1, 2], True)
    assert ([one.slot for one in rest.slots], rest.more) == ([3, 4], False)
    assert rest.slots[0].why == "it moved"
