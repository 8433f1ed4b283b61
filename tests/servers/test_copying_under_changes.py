"""A follower copies a slot while it changes: leader and follower with an ordered connection between them, on which what
is sent stays for as long as it likes."""

from __future__ import annotations

import random
from collections import Counter, deque

import pytest
from msgspec import structs
from slotreeve.model.nodes import Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve.ports import Message
from slotreeve_protocol.slot_messages import Compared, Follow, Replicate, SlotWrite
from slotreeve_servers.data.replication.following import FollowedLeaders
from slotreeve_servers.data.slots.slots import HeldSlots
from slotreeve_servers.node.newer_view import NewerView

from tests.servers.data_scene import Scene
from tests.servers.recording_outbox import RecordingOutbox, a_peer, deliver

LEADER, FOLLOWER = a_peer("data-1", Role.DATA), a_peer("data-2", Role.DATA)
ANSWER_BYTES = 4_000
"""An answer has room for some fifteen records."""


class CopyScene:
    """Leader and follower of one slot. ``is_old``: the leader is one of release 0.1."""

    def __init__(self, seed: int, is_old: bool = False) -> None:
        self.rng = random.Random(seed)
        self.is_old = is_old
        self.leader = Scene()
        self.leader.outbox.part_bytes = ANSWER_BYTES
        self.outbox = RecordingOutbox(part_bytes=ANSWER_BYTES)
        self.slots = HeldSlots("data-2", ANSWER_BYTES)
        self.slots.apply(SlotTable(1, (Slot(0, "data-1", 1, ("data-2",)),)))
        self.following = FollowedLeaders(
            self.outbox, self.slots, lambda: None, Counter(), NewerView(self.outbox, self.leader.membership)
        )
        self.on_the_way: deque[Message] = deque()
        self.version = 1

    @property
    def is_synced(self) -> bool:
        return self.slots.held[0].synced

    def record(self, service: str, number: int) -> Publisher:
        self.version += 1
        return Publisher(f"{service}-{number}", service, self.version, 1, "session-1@1", "", (b"x" * 100,))

    def change(self, service: str, numbers: int) -> None:
        """Something happens to one registration of a service."""
        record = self.record(service, self.rng.randrange(numbers))
        live = self.leader.slot.store.services.get(service, {}).get(record.register_id)
        what = self.rng.random()
        if live is None or what < 0.7:
            write = SlotWrite(0, 1, [record], [], [])
        elif what < 0.8:
            write = SlotWrite(0, 1, [structs.replace(record, data=None)], [], [])
        elif what < 0.9:
            write = SlotWrite(0, 1, [], [live.tombstone()], [])
        else:
            write = SlotWrite(0, 1, [], [], [(service, record.register_id)])
        self.leader.store(self.leader.slot, write)

    def send(self) -> None:
        """The leader's turn ends, so that its stream goes out."""
        self.leader.outbox.end_turn()
        for effect in self.leader.outbox.take("sent"):
            if isinstance(effect.what, Replicate):
                self.on_the_way.append(effect.what)

    def answer(self) -> None:
        """The follower's question arrives at the leader. Nothing is stored between its answer and its stream."""
        asked = self.outbox.requests[0].message
        assert isinstance(asked, Follow)
        if self.is_old and FOLLOWER not in self.leader.slot.streams:
            self.leader.slot.copying[FOLLOWER] = asked.slots[0].since  # it takes the question as it is
        answer = self.leader.streams.answer(FOLLOWER, asked)
        for effect in self.leader.outbox.take("sent"):
            if isinstance(effect.what, Replicate):
                self.on_the_way.append(effect.what)
        if self.is_old:
            self.leader.slot.copying.clear()
            answer = Compared([structs.replace(each, is_streamed=False) for each in answer.differences])
        self.on_the_way.append(answer)
        self.send()

    def arrive(self) -> None:
        """The next message reaches the follower."""
        message = self.on_the_way.popleft()
        if isinstance(message, Compared):
            self.outbox.answer(message)
        else:
            deliver(self.outbox, self.following.handlers, LEADER, message)

    @property
    def is_asked(self) -> bool:
        return bool(self.outbox.requests) and not any(isinstance(each, Compared) for each in self.on_the_way)


def fill(scene: CopyScene, services: dict[str, int]) -> None:
    records = [scene.record(name, number) for name, numbers in services.items() for number in range(numbers)]
    scene.leader.store(scene.leader.slot, SlotWrite(0, 1, records, [], []))


def check_same(scene: CopyScene) -> None:
    ours, theirs = scene.leader.slot.store, scene.slots.held[0].store
    assert theirs.services == ours.services
    assert {key: value[0] for key, value in theirs.tombstones.items()}.items() >= {
        key: value[0] for key, value in ours.tombstones.items()
    }.items()


@pytest.mark.parametrize("services", [{"large": 1_500}, {f"s{number}": 40 for number in range(30)}])
def test_a_follower_gets_in_sync_while_more_changes_between_its_questions_than_an_answer_holds(
    services: dict[str, int],
) -> None:
    scene, questions = CopyScene(1), 0
    fill(scene, services)
    scene.following.opened(LEADER)
    while not scene.is_synced:
        questions += 1
        assert questions < 1_000
        for _ in range(50):
            name = scene.rng.choice(list(services))
            scene.change(name, services[name])
        scene.send()
        scene.answer()
        while scene.on_the_way:
            scene.arrive()
    check_same(scene)


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_who_has_had_a_complete_answer_has_what_the_leader_has_in_whatever_order_things_happen(
    seed: int, is_old: bool
) -> None:
    scene = CopyScene(seed, is_old)
    services = {
        "large": scene.rng.choice([30, 1_100]),
        **{f"s{number}": scene.rng.randrange(1, 30) for number in range(9)},
    }
    names = list(services)
    fill(scene, services)
    # The follower had a copy once: it lacks some, has others that are gone, and some that are older.
    scene.version = -5_000
    stale = [scene.record(name, scene.rng.randrange(2 * services[name])) for name in names for _ in range(10)]
    scene.version = 5_000
    for record in stale:
        scene.slots.held[0].store.put(record, 0.0)
    scene.following.opened(LEADER)
    likely = scene.rng.choice([0.1, 0.5, 0.9])
    for _ in range(20_000):
        if scene.is_synced and scene.rng.random() < 0.01:
            break
        what = scene.rng.random()
        if what < likely and not (is_old and scene.version > 5_300):
            name = scene.rng.choice(names)
            scene.change(name, services[name])
        elif what < likely + 0.03:
            scene.send()
        elif scene.is_asked and scene.rng.random() < 0.3:
            scene.answer()
        elif scene.on_the_way:
            scene.arrive()
        if scene.is_synced and scene.rng.random() < 0.02:
            scene.following.compare([0])
    assert scene.is_synced
    for _ in range(3):
        scene.send()
        while scene.on_the_way:
            scene.arrive()
        if scene.is_asked:
            scene.answer()
    check_same(scene)


def with_a_first_answer() -> tuple[CopyScene, Follow]:
    """A follower that has had the first of several answers, and its next question."""
    scene = CopyScene(1)
    fill(scene, {f"s{number}": 40 for number in range(30)})
    scene.following.opened(LEADER)
    scene.answer()
    while scene.on_the_way:
        scene.arrive()
    asked = scene.outbox.requests[0].message
    assert isinstance(asked, Follow)
    return scene, asked


def test_a_question_that_goes_on_after_the_stream_has_ended_is_answered_from_the_start() -> None:
    scene, asked = with_a_first_answer()
    assert asked.slots[0].after.data_info_id
    scene.leader.slot.copying.clear()
    scene.change("s0", 1)  # the follower has copied this service, and does not get the change
    scene.send()
    while not scene.is_synced:
        scene.answer()
        while scene.on_the_way:
            scene.arrive()
    check_same(scene)


def test_a_slot_for_which_an_answer_has_no_room_goes_on_later_from_where_it_was() -> None:
    scene, asked = with_a_first_answer()
    scene.leader.outbox.part_bytes = 0
    answer = scene.leader.streams.answer(FOLLOWER, asked)
    (difference,) = answer.differences
    assert (difference.complete, difference.records, difference.is_streamed) == (False, {}, True)
    assert difference.upto == asked.slots[0].after
    assert difference.upto.data_info_id
