"""Requests wait for leaders together, and each no longer than it may."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve_servers.session.records.leader_waits import LOOK_SECONDS, LeaderWaits

from tests.servers.recording_outbox import RecordingOutbox


class Scene:
    def __init__(self) -> None:
        self.outbox, self.led = RecordingOutbox(), set[int]()
        self.gone_on, self.given_up = list[int](), list[int]()
        self.waits = LeaderWaits[int](self.outbox, self.led.__contains__, self.gone_on.append, self.given_up.append)

    def add(self, slot: int, request: int, seconds: float) -> None:
        self.waits.add(slot, request, self.outbox.now() + seconds)


def test_very_many_requests_wait_by_one_timer_and_go_on_in_parts_once_there_is_a_leader() -> None:
    scene = Scene()
    for number in range(10_000):
        scene.add(3, number, 4.0)
    assert len(scene.outbox._timers) == 1
    scene.outbox.advance(1.0)
    assert (scene.gone_on, scene.given_up, len(scene.outbox._timers)) == ([], [], 1)
    scene.led.add(3)
    steps = scene.outbox.steps
    scene.outbox.advance(LOOK_SECONDS)
    assert scene.outbox.steps - steps >= 10_000, "after each, whether the turn is over"
    scene.outbox.advance(10.0)
    assert (scene.gone_on, scene.given_up, scene.outbox._timers) == ([*range(10_000)], [], [])


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), min_size=1, max_size=20), st.integers(0, 40))
def test_each_is_given_up_at_its_time_unless_its_slot_has_a_leader_before(
    requests: list[tuple[int, int]], led_at: int
) -> None:
    scene = Scene()
    for number, (slot, looks) in enumerate(requests):
        scene.add(slot, number, looks * LOOK_SECONDS)
    for look in range(1, 50):
        if look == led_at:
            scene.led.add(1)
        scene.outbox.advance(LOOK_SECONDS)
        scene.outbox.end_turn()
        for number, (slot, looks) in enumerate(requests):
            went_on = slot == 1 and 0 < led_at <= look and looks >= led_at
            assert (number in scene.gone_on) <= (slot == 1)
            if went_on:
                assert number in scene.gone_on
            elif looks + 1 < look:
                assert number in {*scene.given_up, *scene.gone_on}
            elif looks > look:
                assert number not in scene.given_up
    assert sorted([*scene.gone_on, *scene.given_up]) == [*range(len(requests))]


def test_what_its_leader_refuses_waits_for_the_next_look_and_not_within_the_same_turn() -> None:
    outbox, tried = RecordingOutbox(), list[int]()

    def refused(request: int) -> None:
        tried.append(request)
        waits.add(0, request, 10.0)

    waits = LeaderWaits[int](outbox, lambda _slot: True, refused, tried.append)
    waits.add(0, 7, 10.0)
    outbox.advance(LOOK_SECONDS)
    outbox.end_turn()
    assert tried == [7]
    outbox.advance(LOOK_SECONDS)
    outbox.end_turn()
    assert tried == [7, 7]


def test_where_one_fails_the_others_go_on_with_the_next_look() -> None:
    outbox, gone_on = RecordingOutbox(), list[int]()

    def fails(request: int) -> None:
        if request == 1:
            raise RuntimeError("a defect")
        gone_on.append(request)

    waits = LeaderWaits[int](outbox, lambda _slot: True, fails, gone_on.append)
    for number in range(5):
        waits.add(0, number, 10.0 + number)
    with pytest.raises(RuntimeError, match="a defect"):
        outbox.advance(LOOK_SECONDS)
    outbox.advance(LOOK_SECONDS)
    assert gone_on == [0, 2, 3, 4]
