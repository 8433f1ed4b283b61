"""The digest exchange, and its two sides: a leader with a session server, a follower with its leader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from slotreeve.model.nodes import Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve.ports import Message
from slotreeve_events.history import NO_REASONS
from slotreeve_protocol.slot_messages import (
    Access,
    Compare,
    Compared,
    ComparedUpTo,
    Follow,
    Replicate,
    SlotDifference,
    SlotDigests,
    SlotWrite,
)
from slotreeve_servers.data.endings.brake import Brake
from slotreeve_servers.data.endings.ending_rounds import GATHER_SECONDS
from slotreeve_servers.data.endings.endings import Endings
from slotreeve_servers.data.endings.sessions import SessionServers
from slotreeve_servers.data.replication.comparison import (
    RETRY_SECONDS,
    SLOTS_PER_REQUEST,
    DigestExchange,
    Progress,
    SessionComparison,
)
from slotreeve_servers.data.replication.following import MOST_REMEMBERED, FollowedLeaders, SlotFollowing
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.data.slots.slots import HeldSlot, HeldSlots
from slotreeve_servers.node.deltas import PART_BYTES
from slotreeve_servers.node.records import START, SlotStore

from tests.servers.recording_outbox import RecordingOutbox, a_peer
from tests.servers.world import newer_view_of, node_of

PEER = a_peer("session-1", Role.SESSION)
LEADER = a_peer("data-2", Role.DATA)


class CountingSide:
    """A side that writes down what it is given and answers as the test says."""

    def __init__(self, progress: Progress = Progress.DONE) -> None:
        self.progress, self.taken = progress, list[int]()

    def digests(self, number: int) -> SlotDigests | None:
        return None if number < 0 else SlotDigests(number, 1, {})

    def request(self, slots: list[SlotDigests]) -> Message:
        return Compare(slots)

    def take(self, asked: SlotDigests, difference: SlotDifference) -> Progress:
        self.taken.append(asked.slot)
        return self.progress


def asked(outbox: RecordingOutbox) -> list[int]:
    (request,) = outbox.requests
    assert isinstance(request.message, Compare)
    return [slot.slot for slot in request.message.slots]


def answer_all(outbox: RecordingOutbox) -> None:
    outbox.answer(Compared([SlotDifference(n, Access.ACCEPT, 1, True, {}) for n in asked(outbox)]))


def test_one_request_is_in_flight_and_carries_a_bounded_number_of_slots() -> None:
    outbox, side = RecordingOutbox(), CountingSide()
    exchange = DigestExchange(outbox, PEER, side)
    exchange.add([-1, *range(SLOTS_PER_REQUEST + 5)])
    assert asked(outbox) == list(range(SLOTS_PER_REQUEST))
    exchange.add([2, 900])
    answer_all(outbox)
    assert asked(outbox) == [*range(SLOTS_PER_REQUEST, SLOTS_PER_REQUEST + 5), 2, 900]
    answer_all(outbox)
    assert outbox.requests == []


def test_a_lost_answer_is_asked_for_again_after_a_pause() -> None:
    outbox, side = RecordingOutbox(), CountingSide()
    exchange = DigestExchange(outbox, PEER, side)
    exchange.add([4])
    outbox.answer(None, TimeoutError())
    assert outbox.requests == []
    outbox.advance(RETRY_SECONDS)
    assert asked(outbox) == [4]


def test_an_incomplete_answer_is_asked_again_at_once_and_another_table_later() -> None:
    for progress, at_once in ((Progress.AGAIN, True), (Progress.LATER, False)):
        outbox, side = RecordingOutbox(), CountingSide(progress)
        DigestExchange(outbox, PEER, side).add([4])
        answer_all(outbox)
        assert bool(outbox.requests) is at_once
        outbox.advance(RETRY_SECONDS)
        assert asked(outbox) == [4]


def test_a_repair_waits_for_the_others_and_sets_none_of_them_back() -> None:
    outbox, side = RecordingOutbox(), CountingSide(Progress.ON)
    exchange = DigestExchange(outbox, PEER, side)
    exchange.add([4])
    position = ComparedUpTo("s", 0, 0)
    exchange.repair([4, 5])
    for _ in range(3):
        assert asked(outbox) == [4]
        outbox.answer(Compared([SlotDifference(4, Access.ACCEPT, 1, False, {"s": []}, upto=position)]))
        (request,) = outbox.requests
        assert isinstance(request.message, Compare)
        assert request.message.slots[0].after == position
        exchange.repair([4, 5])
    side.progress = Progress.DONE
    answer_all(outbox)
    assert asked(outbox) == [5]
    exchange.add([6])
    answer_all(outbox)
    assert asked(outbox) == [6]


def test_slots_for_which_an_answer_had_no_room_come_first_next_time() -> None:
    outbox, side = RecordingOutbox(), CountingSide(Progress.AGAIN)
    exchange = DigestExchange(outbox, PEER, side)
    exchange.add([1])
    outbox.answer(None, TimeoutError())
    exchange.add([2, 3])
    outbox.advance(RETRY_SECONDS)
    firsts = set[int]()
    for _ in range(3):
        first, *others = asked(outbox)
        firsts.add(first)
        answers = {first: {"s": list[Publisher]()}}
        outbox.answer(
            Compared([SlotDifference(n, Access.ACCEPT, 1, False, answers.get(n, {})) for n in (first, *others)])
        )
    assert firsts == {1, 2, 3}


def test_a_peer_that_takes_nothing_is_asked_again_and_a_stopped_exchange_is_silent() -> None:
    outbox, side = RecordingOutbox(), CountingSide()
    outbox.unreachable.add(PEER)
    exchange = DigestExchange(outbox, PEER, side)
    exchange.add([4])
    outbox.unreachable.clear()
    outbox.advance(RETRY_SECONDS)
    assert asked(outbox) == [4]
    exchange.stop()
    outbox.answer(None, TimeoutError())
    outbox.advance(10 * RETRY_SECONDS)
    assert outbox.requests == []


# --- a leader with a session server ----------------------------------------------------------------------------------


class Leadership:
    def __init__(self) -> None:
        self.done: list[int] = []

    def store(self, slot: HeldSlot, write: SlotWrite, reasons: Mapping[str, str] = NO_REASONS) -> None:
        slot.apply(write, 0.0)

    def compared(self, slot: HeldSlot, process_id: str) -> None:
        self.done.append(slot.slot.id)

    def waited(self, slot: HeldSlot, waited_us: int) -> None:
        slot.born = min(slot.born, -waited_us / 1_000_000)


class LeaderScene:
    """data-1 leads slot 0; records of two session processes are in it."""

    def __init__(self, part_bytes: int = PART_BYTES) -> None:
        self.outbox = RecordingOutbox()
        self.slots = HeldSlots("data-1", part_bytes)
        self.slots.apply(SlotTable(1, (Slot(0, "data-1", 1, ()), Slot(1, "data-2", 1, ("data-1",)))))
        self.leadership, self.counters = Leadership(), Counter[str]()
        sessions = SessionServers()
        sessions.opened(PEER)
        rules = DataSettings()
        brake = Brake(rules)
        self.endings = Endings(self.outbox, self.slots, self.leadership, sessions, rules, brake)
        self.side = SessionComparison(PEER.process_id, self.slots, self.endings, self.leadership, self.counters)

    def put(self, *records: Publisher) -> None:
        for record in records:
            self.slots.held[0].store.put(record, 0.0)

    def remove_lost(self) -> None:
        """The slot serves, and the records of lost clients are removed: no session server has anything on its way."""
        self.slots.held[0].serve()
        self.endings.slot_serves(self.slots.held[0])
        self.outbox.end_turn()
        self.outbox.advance(GATHER_SECONDS)


def record(register_id: str, session: str = PEER.process_id, version: int = 1, service: str = "s") -> Publisher:
    return Publisher(register_id, service, version, 1, session, "", (b"x",))


def compare(scene: LeaderScene, truth: SlotStore, after: ComparedUpTo = START) -> tuple[Progress, ComparedUpTo]:
    """One answer of a session server that holds ``truth``."""
    asked = scene.side.digests(0)
    assert asked is not None
    found = truth.difference(structs.replace(asked, after=after), 150)
    answer = SlotDifference(0, Access.ACCEPT, 1, found.complete, found.records, found.parts, found.upto)
    return scene.side.take(asked, answer), found.upto


def test_only_led_slots_are_compared_with_session_servers() -> None:
    scene = LeaderScene()
    assert scene.side.digests(0) is not None
    assert scene.side.digests(1) is None
    assert scene.side.digests(2) is None


def test_a_comparison_makes_the_slot_equal_to_the_truth_and_leaves_other_processes_records() -> None:
    scene = LeaderScene()
    scene.put(record("old"), record("r1"), record("theirs", "session-2@1"))
    truth = SlotStore()
    truth.put(record("r1", version=2), 0.0)
    truth.put(record("new"), 0.0)
    assert compare(scene, truth)[0] is Progress.DONE
    scene.remove_lost()
    held = scene.slots.held[0].store.services["s"]
    assert {(r.register_id, r.version) for r in held.values()} == {("r1", 2), ("new", 1), ("theirs", 1)}
    assert scene.leadership.done == [0]
    assert scene.counters == {"takeover_differences": 1}


def test_what_was_unpublished_ends_with_the_answer_and_is_no_repair_where_it_has_ended_already() -> None:
    scene = LeaderScene()
    scene.put(record("r1"), record("lost"))
    asked, ended = scene.side.digests(0), [record(name, version=2).tombstone() for name in ("r1", "r2")]
    assert asked is not None
    scene.side.take(asked, SlotDifference(0, Access.ACCEPT, 1, True, {"s": ended}))
    assert list(scene.slots.held[0].store.services["s"]) == ["lost"]
    assert sorted(scene.slots.held[0].store.tombstones) == ["r1", "r2"]
    assert scene.counters == {"takeover_differences": 1}
    scene.remove_lost()
    assert scene.slots.held[0].store.services == {}
    asked = scene.side.digests(0)
    assert asked is not None
    scene.side.take(asked, SlotDifference(0, Access.ACCEPT, 1, True, {"s": ended}))
    assert scene.counters == Counter(takeover_differences=1)


def test_what_a_client_has_left_with_a_goodbye_to_an_earlier_leader_ends_by_the_first_comparison() -> None:
    scene = LeaderScene()
    scene.put(record("r1"), record("r2", version=2), record("r3"))
    asked = scene.side.digests(0)
    assert asked is not None
    left = [record(name).tombstone() for name in ("r1", "r2")]
    scene.side.take(asked, SlotDifference(0, Access.ACCEPT, 1, True, {"s": [*left, record("r3")]}))
    scene.remove_lost()
    assert list(scene.slots.held[0].store.records()) == [record("r2", version=2), record("r3")]
    assert scene.slots.held[0].store.tombstones["r1"][0] == left[0]


def test_a_leader_without_a_copy_learns_in_the_first_comparison_what_has_ended() -> None:
    scene = LeaderScene()
    first = scene.side.digests(0)
    assert first is not None
    assert first.is_first
    ended = record("r1", version=2).tombstone()
    scene.side.take(first, SlotDifference(0, Access.ACCEPT, 1, True, {}, ended=[ended]))
    scene.put(record("r1", session="session-2@1"))
    assert scene.slots.held[0].store.services == {}
    scene.slots.held[0].compared.add(PEER.process_id)
    again = scene.side.digests(0)
    assert again is not None
    assert not again.is_first


def test_an_answer_under_a_former_epoch_changes_nothing() -> None:
    scene = LeaderScene()
    scene.put(record("r1"))
    asked = scene.side.digests(0)
    assert asked is not None
    scene.slots.apply(SlotTable(2, (Slot(0, "data-1", 2, ()),)))
    assert scene.side.take(asked, SlotDifference(0, Access.ACCEPT, 1, True, {"s": []})) is Progress.DONE
    assert list(scene.slots.held[0].store.services["s"]) == ["r1"]
    assert scene.leadership.done == []


RECORDS = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.sampled_from([PEER.process_id, "session-2@1"]), st.integers(1, 3)),
    max_size=8,
)


SIZES = st.sampled_from([16, 3_200, PART_BYTES])


@given(RECORDS, RECORDS, SIZES, SIZES)
def test_whatever_differed_a_comparison_ends_with_the_newest_of_both(
    ours: list[tuple[str, str, int]], theirs: list[tuple[str, str, int]], our_parts: int, their_parts: int
) -> None:
    """The dumb twin: the session's own records as they are where not older, and all others untouched."""
    scene = LeaderScene(our_parts)
    for register_id, session, version in ours:
        scene.put(record(register_id, session, version, f"s{ord(register_id) % 2}"))
    before = {r.register_id: r for r in scene.slots.held[0].store.records()}
    truth = SlotStore(their_parts)
    for register_id, _, version in theirs:
        truth.put(record(register_id, PEER.process_id, version, f"s{ord(register_id) % 2}"), 0.0)
    progress, upto, answers = Progress.ON, START, 0
    while progress is Progress.ON:
        progress, upto = compare(scene, truth, upto)
        answers += 1
        assert answers < 50
    assert progress is Progress.DONE
    scene.remove_lost()
    expected = {k: r for k, r in before.items() if r.session != PEER.process_id}
    for r in truth.records():
        old = before.get(r.register_id)
        expected[r.register_id] = r if old is None or r.newer_than(old) else old
    assert {r.register_id: r for r in scene.slots.held[0].store.records()} == expected


# --- a follower with its leader --------------------------------------------------------------------------------------


class FollowerScene:
    """data-1 follows slots 0 and 1 at data-2, and leads slot 2. ``synced``: how often a slot came to be in sync."""

    def __init__(self) -> None:
        self.outbox, self.slots = RecordingOutbox(), HeldSlots("data-1")
        rows = (
            Slot(0, "data-2", 1, ("data-1",)),
            Slot(1, "data-2", 1, ("data-1",)),
            Slot(2, "data-1", 1, ()),
        )
        self.slots.apply(SlotTable(1, rows))
        self.synced, self.counters = 0, Counter[str]()
        newer_view = newer_view_of(self.outbox, node_of("data-1"))
        self.leaders = FollowedLeaders(self.outbox, self.slots, self.is_synced, self.counters, newer_view)

    def is_synced(self) -> None:
        self.synced += 1

    def answer(self, access: Access = Access.ACCEPT, complete: bool = True, **services: list[Publisher]) -> None:
        request = self.outbox.requests[0].message
        assert isinstance(request, Follow)
        self.outbox.answer(
            Compared(
                [SlotDifference(s.slot, access, 1, complete, services if s.slot == 0 else {}) for s in request.slots]
            )
        )


def test_a_follower_asks_its_leader_for_every_slot_and_is_in_sync_after_a_complete_answer() -> None:
    scene = FollowerScene()
    scene.slots.held[0].store.put(record("stale"), 0.0)
    scene.leaders.opened(LEADER)
    request = scene.outbox.requests[0].message
    assert isinstance(request, Follow)
    assert [slot.slot for slot in request.slots] == [0, 1]
    scene.answer(s=[record("r1")])
    assert list(scene.slots.held[0].store.services["s"]) == ["r1"]
    assert (scene.slots.held[0].synced, scene.slots.held[1].synced) == (True, True)
    assert scene.synced == 2
    assert scene.counters == {"services_copied": 1}
    scene.leaders.compare([0, 1])
    scene.answer()
    assert scene.synced == 2, "they were in sync"


def test_a_refused_follower_asks_again_later_and_an_incomplete_answer_at_once() -> None:
    scene = FollowerScene()
    scene.leaders.opened(LEADER)
    scene.answer(Access.MISMATCH, complete=False)
    assert scene.outbox.requests == []
    scene.outbox.advance(RETRY_SECONDS)
    scene.answer(complete=False)
    assert len(scene.outbox.requests) == 1
    assert not scene.slots.held[0].synced


def test_the_stream_is_applied_under_its_epoch_only_and_never_to_a_led_slot() -> None:
    scene = FollowerScene()
    scene.leaders.opened(LEADER)
    (follow,) = [request.message for request in scene.outbox.requests]
    assert isinstance(follow, Follow)
    answers = [SlotDifference(each.slot, Access.ACCEPT, each.leader_epoch, True, {}) for each in follow.slots]
    scene.outbox.answer(Compared(answers))
    take = scene.leaders.handlers.messages[Replicate]
    take(LEADER, Replicate([SlotWrite(0, 1, [record("r1")], [], [])]))
    take(LEADER, Replicate([SlotWrite(1, 9, [record("r2")], [], []), SlotWrite(2, 1, [record("r3")], [], [])]))
    assert [sorted(slot.store.services) for slot in scene.slots.held.values()] == [["s"], [], []]


def test_without_its_leader_a_follower_is_not_in_sync() -> None:
    scene = FollowerScene()
    scene.leaders.opened(LEADER)
    scene.answer()
    scene.leaders.closed(LEADER, "lost")
    assert scene.slots.unsettled() == [0, 1, 2]


def test_a_slot_that_is_followed_elsewhere_now_is_not_asked_for() -> None:
    scene = FollowerScene()
    side = SlotFollowing("data-2", scene.slots, scene.is_synced, scene.counters, scene.outbox.now)
    scene.slots.apply(SlotTable(2, (Slot(0, "data-3", 2, ("data-1",)), *[Slot(n, None, 1, ()) for n in (1, 2)])))
    assert side.digests(0) is None
    assert side.take(SlotDigests(0, 1, {}), SlotDifference(0, Access.ACCEPT, 1, True, {})) is Progress.DONE
    assert not scene.slots.held[0].synced


def test_new_slots_and_repairs_are_asked_for_at_the_connected_leaders() -> None:
    scene = FollowerScene()
    scene.leaders.opened(LEADER)
    scene.answer()
    scene.leaders.follow([scene.slots.held[1]])
    scene.answer()
    scene.leaders.compare([0])
    request = scene.outbox.requests[0].message
    assert isinstance(request, Follow)
    assert [slot.slot for slot in request.slots] == [0]


def test_of_many_leaders_that_have_gone_the_oldest_ends_are_forgotten() -> None:
    scene = FollowerScene()

    def ends(name: str) -> str:
        peer = a_peer(name, Role.DATA)
        scene.leaders.opened(peer)
        scene.outbox.advance(1.0)
        scene.leaders.closed(peer, "lost")
        return peer.process_id

    ends("twice")
    oldest = ends("oldest")
    for number in range(MOST_REMEMBERED - 2):
        ends(f"data-{number}")
    twice = ends("twice")
    ends("one more")
    assert scene.leaders.last_sign(oldest) is None
    assert scene.leaders.last_sign(twice) == scene.outbox.now() - 1.0


def test_a_slot_that_is_added_while_an_answer_is_on_the_way_does_not_go_on_after_that_answer() -> None:
    outbox, side = RecordingOutbox(), CountingSide(Progress.ON)
    exchange = DigestExchange(outbox, PEER, side)
    exchange.add([4])
    exchange.add([4])  # it has another table
    position = ComparedUpTo("s", 0, 0)
    outbox.answer(Compared([SlotDifference(4, Access.ACCEPT, 1, False, {"s": []}, upto=position)]))
    (request,) = outbox.requests
    assert isinstance(request.message, Compare)
    assert request.message.slots[0].after == START
