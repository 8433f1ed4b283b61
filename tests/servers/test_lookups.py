"""Few lookups are at a leader at a time, the clients take turns, and a lookup fails before anything else does."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve.errors import ConnectionLost, RequestTimeout, SlotreeveError
from slotreeve.keys import Principal
from slotreeve.model.nodes import Role
from slotreeve.ports import Message
from slotreeve_protocol.client_messages import Datum, Get, Services
from slotreeve_protocol.general_messages import Done
from slotreeve_servers.node.deltas import PART_BYTES, size_of
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.session.records.listings import MOST_OPEN_LISTS
from slotreeve_servers.session.records.lookups import (
    FIRST_PARTS,
    MEASURED,
    MOST_OPEN,
    NAME_BYTES,
    OPEN_PARTS,
    AskedLeader,
    Lookups,
    WaitingLookup,
    bytes_of,
)

from tests.servers.push_scene import record
from tests.servers.recording_outbox import RecordingOutbox, a_peer

AT_ONCE = int(OPEN_PARTS / FIRST_PARTS)
"""Before anything is known of the answers."""
LEADER, OTHER = a_peer("data-1", Role.DATA), a_peer("data-2", Role.DATA)
A, B = a_peer("a", Role.CLIENT), a_peer("b", Role.CLIENT)


class Scene:
    """Lookups of clients. ``answers``: what each got, by its name, in the order of the answers."""

    def __init__(self) -> None:
        self.outbox = RecordingOutbox()
        self.lookups = Lookups(self.outbox)
        self.answers: dict[str, Message | Exception | None] = {}

    def ask(self, client: Peer, name: str, leader: Peer = LEADER, seconds: float = 4.0) -> None:
        def answered(reply: Message | None, error: Exception | None) -> None:
            assert name not in self.answers, "each is answered once"
            self.answers[name] = reply if error is None else error

        self.lookups.ask(leader, WaitingLookup(client, Get(name), answered, 2.0, self.outbox.now() + seconds))

    def open(self, leader: Peer = LEADER) -> list[str]:
        return [
            one.message.data_info_id
            for one in self.outbox.requests
            if one.peer is leader and isinstance(one.message, Get)
        ]


def test_so_many_are_asked_at_once_and_the_next_one_when_an_answer_comes() -> None:
    scene = Scene()
    names = [f"a{number}" for number in range(AT_ONCE + 2)]
    for name in names:
        scene.ask(A, name)
    assert scene.open() == names[:AT_ONCE]
    scene.outbox.answer(Done())
    assert scene.open() == names[1 : AT_ONCE + 1]
    assert scene.answers == {"a0": Done()}


def test_clients_take_turns_and_another_leader_is_asked_at_once() -> None:
    scene = Scene()
    for number in range(AT_ONCE + 3):
        scene.ask(A, f"a{number}")
    for number in range(2):
        scene.ask(B, f"b{number}")
    scene.ask(B, "elsewhere", OTHER)
    assert scene.open(OTHER) == ["elsewhere"]
    for _ in range(5):
        scene.outbox.answer(Done())
    assert scene.open()[-5:] == [f"a{AT_ONCE}", "b0", f"a{AT_ONCE + 1}", "b1", f"a{AT_ONCE + 2}"]


def test_the_holder_of_a_key_has_one_turn_however_often_it_has_connected_and_who_has_gone_is_not_asked_for() -> None:
    scene = Scene()
    greedy = [a_peer(f"greedy/{number}", Role.CLIENT) for number in range(100)]
    for peer in greedy:
        peer.proven = Principal("greedy", Role.CLIENT, "k" * 40)
        scene.ask(peer, peer.node)
    scene.ask(A, "a")
    scene.outbox.silence[greedy[AT_ONCE]] = math.inf
    for _ in range(3):
        scene.outbox.answer(Done())
    assert scene.open()[-3:] == ["a", f"greedy/{AT_ONCE + 1}", f"greedy/{AT_ONCE + 2}"]
    assert f"greedy/{AT_ONCE}" not in scene.open()
    assert isinstance(scene.answers[f"greedy/{AT_ONCE}"], ConnectionLost)


def test_one_whose_answer_nobody_needs_any_more_fails_without_being_asked() -> None:
    scene = Scene()
    for number in range(AT_ONCE):
        scene.ask(A, f"a{number}")
    scene.ask(B, "late", seconds=1.0)
    scene.ask(B, "patient", seconds=3.0)
    scene.outbox.time += 2.0
    scene.outbox.answer(Done())
    assert isinstance(late := scene.answers["late"], RequestTimeout)
    assert "more than it can answer" in str(late)
    assert scene.open()[-1] == "patient"
    assert scene.lookups.shed == 1


def test_lookups_at_a_leader_that_has_gone_fail_all_of_them() -> None:
    scene = Scene()
    names = [f"a{number}" for number in range(2 * AT_ONCE)]
    for name in names:
        scene.ask(A, name)
    scene.outbox.unreachable.add(LEADER)
    scene.outbox.answer(None, ConnectionLost("gone"))
    assert sorted(scene.answers) == sorted(["a0", *names[AT_ONCE:]])
    assert all(isinstance(error, ConnectionLost) for error in scene.answers.values())


def a_page(size: int, records: int = 1) -> Datum:
    """A page of about so many bytes."""
    padding = max(0, size // records - size_of(record("x-1", b"")))
    return Datum("s", 1, [record("x-1", b"x" * padding)] * records)


@pytest.mark.parametrize(
    ("size", "expected"), [(200, MOST_OPEN), (PART_BYTES // 32, MOST_OPEN), (PART_BYTES // 8, 32), (PART_BYTES, 4)]
)
def test_the_larger_its_answers_the_fewer_questions_are_at_a_leader(size: int, expected: int) -> None:
    scene = Scene()
    for number in range(1_000):
        scene.ask(A, f"a{number}")
    for number in range(20 * MEASURED):
        scene.outbox.answer(a_page(size, 1 + number % 3))
    assert expected <= len(scene.open()) <= expected + 1


def test_a_leader_is_asked_for_one_however_large_its_answers_are() -> None:
    scene = Scene()
    for number in range(100):
        scene.ask(A, f"a{number}")
    for _ in range(8 * MEASURED):
        scene.outbox.answer(a_page(50 * PART_BYTES))
    assert len(scene.open()) == 1


def test_what_failed_says_nothing_of_the_size_of_answers() -> None:
    scene = Scene()
    for number in range(1_000):
        scene.ask(A, f"a{number}")
    for _ in range(20 * MEASURED):
        scene.outbox.answer(None, RequestTimeout("2 s"))
    assert len(scene.open()) == AT_ONCE


@given(st.lists(st.integers(0, 3_000), min_size=1, max_size=60))
def test_a_few_records_tell_about_how_large_a_page_is(sizes: list[int]) -> None:
    page = Datum("s", 1, [record("x-1", b"x" * size) for size in sizes])
    exact = [size_of(record) for record in page.publishers]
    assert min(exact) * len(sizes) <= bytes_of(page) <= max(exact) * len(sizes)
    if len(sizes) < MEASURED:
        assert bytes_of(page) == pytest.approx(sum(exact))


@pytest.mark.parametrize("count", [1, 7, 8, 9, 63, 64, 1_000])
def test_a_page_of_equal_records_is_as_large_as_they_are_together(count: int) -> None:
    page = Datum("s", 1, [record("x-1", b"x" * 100)] * count)
    assert bytes_of(page) == pytest.approx(count * size_of(page.publishers[0]))


def test_one_answer_that_is_measured_counts_as_much_as_all_before_it() -> None:
    asked = AskedLeader(PART_BYTES, answer_bytes=PART_BYTES / 8)
    for _ in range(MEASURED):
        asked.open += 1
        asked.answered(1, a_page(PART_BYTES))
    assert asked.answer_bytes == pytest.approx(PART_BYTES * 9 / 16, rel=0.01)
    assert asked.open == 0


def test_none_overtakes_those_that_wait_while_they_are_gone_through_in_parts() -> None:
    scene = Scene()
    for number in range(AT_ONCE + 300):
        scene.ask(A, f"a{number:03}", seconds=1.0 if AT_ONCE <= number < AT_ONCE + 200 else 9.0)
    scene.outbox.turn_steps = 50
    scene.outbox.advance(1.5)
    scene.outbox.requests.pop(0).answered(Done(), None)
    scene.ask(A, "last", seconds=9.0)
    assert "last" not in scene.open()
    scene.outbox.end_turn()
    while scene.outbox.requests:
        scene.outbox.answer(Done())
    assert list(scene.answers)[-1] == "last"


def test_an_empty_page_a_refusal_and_a_list_have_a_size_too() -> None:
    assert bytes_of(Datum("s", 1, [])) == bytes_of(Done()) == bytes_of(None) == 0
    assert bytes_of(Services({"a": 1, "b": 2})) == 2 * NAME_BYTES


@settings(derandomize=True)
@given(st.lists(st.sampled_from(["a", "b", "other", "answer", "fail", "wait", "gone"]), max_size=80), st.integers(0, 3))
def test_each_is_answered_once_in_the_order_of_its_client_and_nothing_is_kept_at_the_end(
    steps: list[str], seconds: int
) -> None:
    scene, number = Scene(), 0
    for step in steps:
        if step in ("a", "b", "other"):
            client, leader = (B, OTHER) if step == "other" else (A if step == "a" else B, LEADER)
            scene.ask(client, f"{step}{number:03}", leader, seconds)
            number += 1
        elif step == "wait":
            scene.outbox.time += 1.0
        elif step == "gone":
            scene.outbox.unreachable ^= {LEADER}
        elif scene.outbox.requests:
            scene.outbox.answer(*((Done(), None) if step == "answer" else (None, RequestTimeout("2 s"))))
        assert len(scene.open()) <= MOST_OPEN
    while scene.outbox.requests:
        scene.outbox.answer(Done())
    scene.outbox.end_turn()
    assert len(scene.answers) == number
    assert not scene.lookups._leaders
    for client_name in ("a", "b", "other"):
        asked = (one.data_info_id for one in scene.outbox.messages(Get) if isinstance(one, Get))
        mine = [name for name in asked if name.startswith(client_name)]
        assert mine == sorted(mine)
    assert all(isinstance(answer, (Done, SlotreeveError)) for answer in scene.answers.values())


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_lookup_that_asks_again_from_its_answer_is_no_recursion(is_gone: bool) -> None:
    scene = Scene()
    if is_gone:
        scene.outbox.unreachable.add(LEADER)
    for number in range(3_000):
        scene.ask(A, f"{number}")
    while scene.outbox.requests:
        scene.outbox.answer(Done())
    assert len(scene.answers) == 3_000


@pytest.mark.parametrize("why", ["the link is gone", "nobody needs them any more"])
def test_very_many_that_cannot_be_asked_fail_in_parts(why: str) -> None:
    scene = Scene()
    for number in range(AT_ONCE + 2_000):
        scene.ask(A, f"a{number}", seconds=1.0)
    if why == "the link is gone":
        scene.outbox.unreachable.add(LEADER)
    else:
        scene.outbox.advance(1.5)
    scene.outbox.turn_steps = 100
    scene.outbox.requests[0].answered(Done(), None)
    assert len(scene.answers) <= 2, "in the turn of the answer one fails"
    scene.outbox.end_one_turn()
    assert len(scene.answers) <= 110
    scene.outbox.end_turn()
    assert len(scene.answers) == 1 + 2_000


def test_lists_are_asked_for_one_at_a_time_because_a_leader_goes_through_all_of_its_services_for_each() -> None:
    outbox, answered = RecordingOutbox(), list[str]()
    lists = Lookups(outbox, MOST_OPEN_LISTS)

    def ask(name: str) -> None:
        lists.ask(LEADER, WaitingLookup(A, Get(name), lambda *_: answered.append(name), 2.0, math.inf))

    for name in "abc":
        ask(name)
    for number in range(3):
        assert (len(outbox.requests), len(answered)) == (MOST_OPEN_LISTS, number)
        outbox.answer(Services({}))
    assert (outbox.requests, answered) == ([], ["a", "b", "c"])
