"""Work in parts: no turn is long, nobody waits for all of somebody else's work, and each step is done once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve_servers.node.paced_work import AGAIN_SECONDS, PATIENT_SECONDS, STEPS_AT_ONCE, TURN_SECONDS

from tests.servers.recording_outbox import RecordingOutbox


class Scene:
    """Works whose steps take some time each. ``log``: the steps that were done."""

    def __init__(self, step_seconds: float = 0.0) -> None:
        self.outbox, self.step_seconds, self.log = RecordingOutbox(), step_seconds, list[str]()

    def work(self, name: str, count: int, failing: int = -1) -> Iterator[None]:
        for number in range(count):
            self.outbox.time += self.step_seconds
            if number == failing:
                raise OSError("the disk is full")
            self.log.append(f"{name}{number}")
            yield

    def turn(self) -> list[str]:
        self.log.clear()
        self.outbox.end_one_turn()
        return list(self.log)


def test_work_begins_at_the_end_of_the_turn_and_a_turn_ends_with_its_time() -> None:
    scene = Scene(step_seconds=TURN_SECONDS / 2)
    scene.outbox.pace(scene.work, "a", 5)
    assert scene.log == []
    assert [scene.turn() for _ in range(4)] == [["a0", "a1"], ["a2", "a3"], ["a4"], []]
    assert not scene.outbox._turn, "nothing runs while there is no work"


def test_works_take_turns_and_some_steps_of_one_are_done_together() -> None:
    scene = Scene()
    scene.outbox.pace(scene.work, "a", 2 * STEPS_AT_ONCE)
    scene.outbox.pace(scene.work, "b", 1)
    assert scene.turn() == [
        *[f"a{number}" for number in range(STEPS_AT_ONCE)],
        "b0",
        *[f"a{number}" for number in range(STEPS_AT_ONCE, 2 * STEPS_AT_ONCE)],
    ]


def test_while_there_is_more_to_read_patient_work_gets_little_of_a_turn_and_the_other_as_much_as_before() -> None:
    scene = Scene(step_seconds=PATIENT_SECONDS)
    scene.outbox.has_unread = True
    scene.outbox.pace(scene.work, "patient", 3, is_patient=True)
    assert scene.turn() == ["patient0"]
    scene.outbox.pace(scene.work, "prompt", 20)
    assert scene.turn() == [*[f"prompt{number}" for number in range(5)], "patient1"]
    scene.outbox.has_unread = False
    assert scene.turn() == [*[f"prompt{number}" for number in range(5, 10)], "patient2"]


def test_work_that_is_asked_for_while_it_is_under_way_is_done_once_more_afterwards() -> None:
    scene = Scene()
    scene.outbox.turn_steps = 1
    scene.outbox.pace(scene.work, "a", 2)
    assert scene.turn() == ["a0"]
    for _ in range(3):
        scene.outbox.pace(scene.work, "a", 2)
    assert [step for _ in range(9) for step in scene.turn()] == ["a1", "a0", "a1"]


def test_work_that_raises_begins_anew_after_a_while_and_the_others_go_on_in_the_next_turn() -> None:
    scene, entries = Scene(), ["a", "fails", "b", "fails", "c"]

    def work() -> Iterator[None]:
        while entries:
            if (entry := entries.pop(0)) == "fails":
                raise OSError("the disk is full")
            scene.log.append(entry)
            yield

    scene.outbox.pace(work)
    scene.outbox.pace(scene.work, "other", 2)
    with pytest.raises(OSError, match="disk is full"):
        scene.turn()
    assert scene.log == ["a"]
    assert scene.turn() == ["other0", "other1"]
    assert scene.turn() == []
    with pytest.raises(OSError, match="disk is full"):
        scene.outbox.advance(AGAIN_SECONDS)
    assert scene.log == ["b"]
    scene.outbox.advance(2 * AGAIN_SECONDS)
    assert scene.log == ["b", "c"]


def test_work_that_raises_for_ever_takes_no_turn_after_turn() -> None:
    scene = Scene()
    scene.outbox.pace(scene.work, "a", 5, 0)
    failures = 0
    for _ in range(100):
        try:
            scene.outbox.advance(0.01)
        except OSError:
            failures += 1
    assert 5 < failures <= 21


@settings(derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 70), st.booleans()), max_size=8), st.integers(1, 9), st.booleans())
def test_every_step_of_every_work_is_done_once_and_in_its_order_wherever_turns_end(
    works: list[tuple[int, bool]], turn_steps: int, has_unread: bool
) -> None:
    scene = Scene()
    scene.outbox.turn_steps, scene.outbox.has_unread = turn_steps, has_unread
    for number, (count, is_patient) in enumerate(works):
        scene.outbox.pace(scene.work, f"{number}:", count, is_patient=is_patient)
    scene.outbox.end_turn()
    for number, (count, _) in enumerate(works):
        mine = [step for step in scene.log if step.startswith(f"{number}:")]
        assert mine == [f"{number}:{step}" for step in range(count)]


def test_a_work_whose_steps_take_a_whole_turn_holds_up_no_other() -> None:
    scene = Scene(step_seconds=2 * TURN_SECONDS)
    scene.outbox.pace(scene.work, "a", 100)
    scene.outbox.pace(scene.work, "b", 2)
    assert [scene.turn() for _ in range(4)] == [["a0"], ["b0"], ["a1"], ["b1"]]
