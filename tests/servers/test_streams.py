"""What a slot leader stores goes to its followers."""

from __future__ import annotations

import msgspec
from slotreeve.model.nodes import Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.codec import encode_message
from slotreeve_protocol.meta_messages import GetNewerView, View
from slotreeve_protocol.slot_messages import (
    Access,
    Compared,
    Follow,
    Replicate,
    SlotDigests,
    SlotWrite,
)
from slotreeve_servers.data.slots.slots import HeldSlot
from slotreeve_servers.node.membership import NO_VIEW
from slotreeve_servers.node.records import SlotStore

from tests.servers.core_scenes import node
from tests.servers.data_scene import Scene, record
from tests.servers.recording_outbox import a_peer

FOLLOWER = a_peer("data-2", Role.DATA)


def test_a_follower_gets_what_differs_and_then_every_write() -> None:
    scene = Scene()
    scene.put(record("r1"))
    answer = scene.streams.answer(FOLLOWER, Follow([SlotDigests(0, 1, {}), SlotDigests(3, 1, {})]))
    assert isinstance(answer, Compared)
    first, other = answer.differences
    assert first.complete
    assert [r.register_id for r in first.records["s"]] == ["r1"]
    assert (other.access, other.complete) == (Access.MOVED, False)
    scene.put(record("r2"))
    scene.put(record("r3"))
    scene.outbox.end_turn()
    (replicate,) = scene.outbox.messages(Replicate, FOLLOWER)
    assert isinstance(replicate, Replicate)
    assert [r.register_id for write in replicate.batches for r in write.records] == ["r2", "r3"]
    assert scene.streams.records == 2


def test_a_leader_that_has_missed_a_table_learns_it_from_the_follower_that_it_names() -> None:
    scene = Scene()
    scene.put(record("r1"))
    newcomer = a_peer("data-3", Role.DATA)
    follow = Follow([SlotDigests(0, 1, {})])
    for _ in range(2):
        (refused,) = scene.streams.answer(newcomer, follow).differences
        assert (refused.access, refused.complete) == (Access.MOVED, False)
    (asked,) = [request.message for request in scene.outbox.requests]
    assert asked == GetNewerView(0)
    table = SlotTable(2, (Slot(0, "data-1", 1, ("data-2", "data-3")),))
    scene.outbox.answer(View(1, 2, table, [node("data-1"), node("data-2"), node("data-3")], []), kind=GetNewerView)
    (answered,) = scene.streams.answer(newcomer, follow).differences
    assert (answered.complete, [r.register_id for r in answered.records["s"]]) == (True, ["r1"])


def test_a_leader_keeps_its_copies_where_a_follower_has_a_view_that_does_not_name_it() -> None:
    scene = Scene()
    newcomer = a_peer("data-3", Role.DATA)
    scene.streams.answer(newcomer, Follow([SlotDigests(0, 1, {})]))
    table = SlotTable(2, (Slot(0, "data-3", 2, ()),))
    scene.outbox.answer(View(1, 2, table, [node("data-3")], []), kind=GetNewerView)
    assert (scene.slot.leads, set(scene.slots.held)) == (True, {0})


def test_what_is_stored_goes_to_a_follower_in_messages_of_bounded_bytes_and_in_order() -> None:
    scene = Scene()
    scene.outbox.part_bytes = 1_000
    scene.streams.answer(FOLLOWER, Follow([SlotDigests(0, 1, {})]))
    kept = [record(f"r{n}") for n in range(60)]
    gone = [record(f"q{n}").tombstone() for n in range(30)]
    purged = [("s", f"r{n}") for n in range(50)]
    scene.put(*[record(f"q{n}") for n in range(30)])
    scene.store(scene.slot, SlotWrite(0, 1, kept, gone, purged))
    scene.outbox.end_turn()
    follower = SlotStore()
    for message in scene.outbox.messages(Replicate, FOLLOWER):
        assert isinstance(message, Replicate)
        assert len(encode_message(message)) < 1_300
        for write in message.batches:
            HeldSlot(scene.slot.slot, False, follower).apply(write, 0.0)
    assert follower.services == scene.slot.store.services
    assert sorted(follower.services["s"]) == [f"r{n}" for n in range(50, 60)]


def test_what_was_stored_before_the_answer_is_sent_before_it() -> None:
    scene = Scene()
    scene.streams.answer(FOLLOWER, Follow([SlotDigests(0, 1, {})]))
    scene.put(record("r1"))
    scene.streams.answer(FOLLOWER, Follow([SlotDigests(0, 1, {})]))
    assert len(scene.outbox.messages(Replicate, FOLLOWER)) == 1


def test_tombstones_wait_while_a_connection_has_no_room_and_what_is_stored_does_not() -> None:
    scene = Scene()
    scene.outbox.part_bytes = 1_000
    ended = [record(f"q{n}") for n in range(60)]
    scene.put(*ended)
    scene.store(scene.slot, SlotWrite(0, 1, [], [one.tombstone() for one in ended], []))
    scene.outbox.crowded.add(FOLLOWER)
    scene.streams.answer(FOLLOWER, Follow([SlotDigests(0, 1, {})]))
    scene.put(record("r1"))
    scene.outbox.advance(1.0)
    assert [r.register_id for r in streamed(scene)] == ["r1"]
    scene.outbox.crowded.clear()
    scene.outbox.advance(1.0)
    assert sorted(r.register_id for r in streamed(scene)) == sorted(one.register_id for one in ended)


def test_tombstones_that_wait_for_a_follower_go_with_its_connection() -> None:
    scene = Scene()
    scene.put(record("q"))
    scene.store(scene.slot, SlotWrite(0, 1, [], [record("q").tombstone()], []))
    scene.outbox.crowded.add(FOLLOWER)
    scene.streams.answer(FOLLOWER, Follow([SlotDigests(0, 1, {})]))
    scene.outbox.end_turn()
    scene.streams.closed(FOLLOWER)
    scene.outbox.crowded.clear()
    scene.outbox.advance(1.0)
    assert streamed(scene) == []


def test_a_follower_that_lost_its_place_is_streamed_to_no_more() -> None:
    scene = Scene()
    follow = Follow([SlotDigests(0, 1, {})])
    other = a_peer("data-3", Role.DATA)
    nodes = [node("data-1"), node("data-2"), node("data-3")]
    scene.view_changed(NO_VIEW, View(1, 2, SlotTable(2, (Slot(0, "data-1", 1, ("data-2", "data-3")),)), nodes, []))
    for peer in (FOLLOWER, other):
        assert scene.streams.answer(peer, follow).differences[0].complete
    scene.view_changed(NO_VIEW, View(1, 3, SlotTable(3, (Slot(0, "data-1", 1, ("data-3",)),)), nodes, []))
    assert list(scene.slot.streams) == [other]


def test_a_holder_that_is_no_member_any_more_is_streamed_to_while_a_protected_table_names_it() -> None:
    scene = Scene()
    follow = Follow([SlotDigests(0, 1, {})])
    scene.streams.answer(FOLLOWER, follow)
    scene.view_changed(NO_VIEW, View(1, 2, SlotTable(1, (Slot(0, "data-1", 1, ("data-2",)),)), [node("data-1")], []))
    assert list(scene.slot.streams) == [FOLLOWER]
    again = a_peer("data-2", Role.DATA)
    assert scene.streams.answer(again, follow).differences[0].complete
    assert again in scene.slot.streams


def test_a_late_request_over_a_connection_that_a_follower_has_given_up_takes_nothing_from_the_newer_one() -> None:
    scene = Scene()
    follow = Follow([SlotDigests(0, 1, {})])
    assert scene.streams.opened(FOLLOWER) is None
    scene.streams.answer(FOLLOWER, follow)
    newer = a_peer("data-2", Role.DATA)
    assert scene.streams.opened(newer) is FOLLOWER
    assert scene.slot.streams == {}
    for _ in range(2):
        assert scene.streams.answer(newer, follow).differences[0].complete
        assert scene.streams.answer(FOLLOWER, follow).differences[0].access is Access.MOVED
    scene.streams.closed(FOLLOWER)
    assert list(scene.slot.streams) == [newer]
    scene.streams.closed(newer)
    last = a_peer("data-2", Role.DATA)
    assert scene.streams.opened(last) is None
    assert scene.streams.answer(last, follow).differences[0].complete


def test_a_stream_to_a_process_ends_when_another_one_of_its_name_is_a_member() -> None:
    """A connection may outlive the host at its other end by seconds."""
    scene = Scene()
    follow = Follow([SlotDigests(0, 1, {})])
    scene.streams.answer(FOLLOWER, follow)
    table = SlotTable(2, (Slot(0, "data-1", 1, (), ("data-2",)),))
    started_again = a_peer("data-2", Role.DATA, life=2)
    process = msgspec.structs.replace(node("data-2"), process_id=started_again.process_id)
    scene.view_changed(NO_VIEW, View(1, 2, table, [node("data-1"), process], []))
    assert scene.slot.streams == {}
    assert scene.streams.answer(FOLLOWER, follow).differences[0].access is Access.MOVED
    assert scene.streams.answer(started_again, follow).differences[0].complete
    assert list(scene.slot.streams) == [started_again]


def streamed(scene: Scene) -> list[Publisher]:
    """The records that were streamed to the follower since the last call."""
    found = [m for m in scene.outbox.messages(Replicate, FOLLOWER) if isinstance(m, Replicate)]
    scene.outbox.take()
    return [one for message in found for write in message.batches for one in write.records]


def test_a_stream_begins_only_once_the_table_here_names_the_follower() -> None:
    scene = Scene()
    scene.slots.apply(SlotTable(2, (Slot(0, "data-1", 1, ("data-3",)),)))
    refused = scene.streams.answer(FOLLOWER, Follow([SlotDigests(0, 1, {})])).differences[0]
    assert (refused.access, refused.complete) == (Access.MOVED, False)
    assert scene.slot.streams == {}
    scene.slots.apply(SlotTable(3, (Slot(0, "data-1", 1, ("data-2",)),)))
    assert scene.streams.answer(FOLLOWER, Follow([SlotDigests(0, 1, {})])).differences[0].complete
    assert list(scene.slot.streams) == [FOLLOWER]


def test_a_stream_ends_with_its_connection() -> None:
    scene = Scene()
    scene.streams.answer(FOLLOWER, Follow([SlotDigests(0, 1, {})]))
    scene.put(record("r1"))
    scene.streams.closed(FOLLOWER)
    scene.put(record("r2"))
    scene.outbox.end_turn()
    assert scene.outbox.messages(Replicate) == []


def test_a_stream_begins_with_the_tombstones_of_the_slot_once() -> None:
    scene = Scene()
    scene.put(record("r1"))
    scene.put(record("r1", version=2).tombstone())
    scene.outbox.end_turn()
    for _ in range(2):
        scene.streams.answer(FOLLOWER, Follow([SlotDigests(0, 1, {})]))
        scene.outbox.end_turn()
    tombstones = [tombstone for tombstone, _ in scene.slot.store.tombstones.values()]
    assert len(tombstones) == 1
    assert scene.outbox.messages(Replicate) == [Replicate([SlotWrite(0, 1, tombstones, [], [])])]


def test_a_follower_under_another_epoch_is_refused_and_not_streamed_to() -> None:
    scene = Scene()
    answer = scene.streams.answer(FOLLOWER, Follow([SlotDigests(0, 2, {})]))
    assert isinstance(answer, Compared)
    assert answer.differences[0].access is Access.MISMATCH
    assert scene.slot.streams == {}


def test_one_that_lost_its_place_while_it_still_copies_is_streamed_to_no_more() -> None:
    scene = Scene()
    scene.outbox.part_bytes = 500
    scene.put(*[record(f"r{number}", service=f"s{number}") for number in range(100)])
    assert not scene.streams.answer(FOLLOWER, Follow([SlotDigests(0, 1, {})])).differences[0].complete
    assert list(scene.slot.copying) == [FOLLOWER]
    table = SlotTable(2, (Slot(0, "data-1", 1, ()),))
    scene.view_changed(NO_VIEW, View(1, 2, table, [node("data-1"), node("data-2")], []))
    scene.outbox.take()
    scene.put(record("later"))
    scene.outbox.end_turn()
    assert scene.outbox.messages(Replicate, FOLLOWER) == []
    assert scene.slot.copying == {}


def test_after_the_end_of_an_older_connection_the_newer_one_gives_way_to_a_third() -> None:
    scene, follow = Scene(), Follow([SlotDigests(0, 1, {})])
    second, third = a_peer("data-2", Role.DATA), a_peer("data-2", Role.DATA)
    scene.streams.opened(FOLLOWER)
    assert scene.streams.opened(second) is FOLLOWER
    scene.streams.closed(FOLLOWER)
    assert scene.streams.answer(second, follow).differences[0].complete
    assert scene.streams.opened(third) is second, "the caller closes it"
    assert scene.streams.answer(third, follow).differences[0].complete
    assert scene.streams.answer(second, follow).differences[0].access is Access.MOVED
    assert list(scene.slot.streams) == [third]
