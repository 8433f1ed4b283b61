"""Requests wait for leaders together, and each no longer than it may."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve_servers.session.records.leader_waits import LOOK_SECONDS, LeaderWaits

from tests.servers.recording_outbox import RecordingOutbox


class Scene:
    def __init__(self) -> None:
        self.outbox, self.led = RecordingOutbox(), set[int]()
        self.gone_on, self.given_up, self.reasons = list[int](), list[int](), list[str]()
        self.waits = LeaderWaits[int](self.outbox, self.led.__contains__, self.gone_on.append, self.give_up)

    def give_up(self, request: int, refusal: str) -> None:
        self.given_up.append(request)
        self.reasons.append(refusal)

    def add(self, slot: int, request: int, seconds: float) -> None:
        self.waits.add(slot, request, self.outbox.now() + seconds)


def test_what_waits_again_is_not_forgotten_where_another_request_raises() -> None:
    outbox, tried = RecordingOutbox(), list[str]()

    def go_on(name: str) -> None:
        tried.append(name)
        if tried == ["a"]:
            waits.add(0, name, outbox.now() + 100.0)
        if tried == ["a", "b"]:
            raise ValueError(name)

    waits = LeaderWaits[str](outbox, lambda slot: True, go_on, lambda name, why: None)
    for name in "abc":
        waits.add(0, name, outbox.now() + 50.0)
    with contextlib.suppress(ValueError):
        outbox.advance(LOOK_SECONDS)
    for _ in range(5):
        outbox.advance(1.0)
    assert sorted(tried) == ["a", "a", "b", "c"]


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
        waits.add(0, request, outbox.now() + 10.0)

    waits = LeaderWaits[int](outbox, lambda _slot: True, refused, lambda request, _refusal: tried.append(request))
    waits.add(0, 7, outbox.now() + 10.0)
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

    waits = LeaderWaits[int](outbox, lambda _slot: True, fails, lambda request, _refusal: gone_on.append(request))
    for number in range(5):
        waits.add(0, number, outbox.now() + 10.0 + number)
    with pytest.raises(RuntimeError, match="a defect"):
        outbox.advance(LOOK_SECONDS)
    outbox.advance(LOOK_SECONDS)
    assert gone_on == [0, 2, 3, 4]


def test_a_leader_that_has_refused_is_tried_with_one_at_each_look_until_it_serves_that_one() -> None:
    outbox, tried, given_up = RecordingOutbox(), list[int](), list[tuple[int, str]]()
    is_ready = False

    def ask(request: int) -> None:
        tried.append(request)
        if is_ready:
            waits.served(0)
        else:
            waits.add(0, request, deadlines[request], "not yet")

    waits = LeaderWaits[int](outbox, lambda _slot: True, ask, lambda *given: given_up.append(given))
    deadlines = {number: outbox.now() + (0.5 if number < 3 else 10.0) for number in range(1_000)}
    for number in deadlines:
        waits.add(0, number, deadlines[number], "not yet")
    for _ in range(50):
        outbox.advance(LOOK_SECONDS)
        outbox.end_turn()
    assert 25 <= len(tried) <= 50, "one a look, not all"
    assert sorted(given_up) == [(0, "not yet"), (1, "not yet"), (2, "not yet")]
    tried.clear()
    is_ready = True
    outbox.advance(2 * LOOK_SECONDS)
    outbox.end_turn()
    assert sorted(tried) == [*range(3, 1_000)]


def test_a_slot_whose_leader_has_gone_forgets_that_it_was_refused() -> None:
    scene = Scene()
    scene.waits.add(1, 7, scene.outbox.now() + 0.1, "not yet")
    scene.outbox.advance(1.0)
    assert (scene.given_up, scene.reasons) == ([7], [""])


def test_what_comes_too_late_to_wait_is_given_up_at_once() -> None:
    scene = Scene()
    scene.waits.add(1, 7, scene.outbox.now(), "refused")
    assert (scene.given_up, scene.reasons, scene.outbox._timers) == ([7], ["refused"], [])
