"""The parts of a data server's core, each alone: orphans, session servers, interests, changes, streams, departures."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from slotreeve.errors import ConnectionLost, RequestTimeout
from slotreeve.model.nodes import Node, Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.codec import encode_message
from slotreeve_protocol.datum_copy import DatumCopy, Fit
from slotreeve_protocol.general_messages import Done
from slotreeve_protocol.slot_messages import (
    Access,
    Changed,
    Compared,
    Deliver,
    Follow,
    Known,
    Replicate,
    SlotDigests,
    SlotInterest,
    SlotWrite,
)
from slotreeve_servers.data.changes import Changes
from slotreeve_servers.data.departures import AGAIN_SECONDS, GATHER_SECONDS, Departures
from slotreeve_servers.data.gone_sessions import GoneSessions
from slotreeve_servers.data.held_back import LostRecord
from slotreeve_servers.data.interest import SessionInterests
from slotreeve_servers.data.sessions import SessionServers
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.data.slots import HeldSlot, HeldSlots
from slotreeve_servers.data.streams import Streams
from slotreeve_servers.node.records import SlotStore

from tests.servers.recording_outbox import RecordingOutbox, a_peer

SESSION_1, SESSION_2 = a_peer("session-1", Role.SESSION), a_peer("session-2", Role.SESSION)
FOLLOWER = a_peer("data-2", Role.DATA)


def record(register_id: str, version: int = 1, session: str = "session-1@1", service: str = "s") -> Publisher:
    return Publisher(register_id, service, version, 1, session, "", (b"x",))


class Scene:
    """One data server that leads slot 0 and serves it."""

    def __init__(self, sessions: SessionServers | None = None) -> None:
        self.outbox = RecordingOutbox()
        self.slots = HeldSlots("data-1")
        self.slots.apply(SlotTable(1, (Slot(0, "data-1", 1, ("data-2",)),)))
        self.slot.serve()
        self.changes = Changes(self.outbox)
        self.streams = Streams(self.outbox, self.slots)
        self.interests = SessionInterests(self.slots, self.changes)
        self.sessions = sessions or SessionServers()
        self.departures = Departures(self.outbox, self.slots, self, self.sessions, DataSettings())

    @property
    def slot(self) -> HeldSlot:
        return self.slots.held[0]

    def store(self, slot: HeldSlot, write: SlotWrite) -> None:
        """As the core does."""
        touched = slot.apply(write, self.outbox.now())
        self.streams.send(slot, write)
        self.changes.changed(slot, touched)

    def put(self, *records: Publisher) -> None:
        self.store(self.slot, SlotWrite(0, 1, list(records), [], []))

    def changed(self) -> list[tuple[str, int, list[str], list[str]]]:
        self.outbox.end_turn()
        found = []
        for effect in self.outbox.take("sent"):
            if isinstance(effect.what, Changed):
                for change in effect.what.changes:
                    names = [r.register_id for r in change.changed]
                    found.append((str(effect.peer), change.from_version, names, change.removed))
        return found


# --- session processes that are gone ---------------------------------------------------------------------------------


def linked(*processes: str) -> Callable[[str], bool]:
    return lambda process_id: process_id in processes


def test_a_session_process_is_gone_once_it_is_neither_a_member_nor_linked() -> None:
    gone = GoneSessions()
    gone.view_changed({"a", "b"}, {"b"})
    assert gone.look(linked("a"), 1.0) == ([], [])
    assert gone.since("a") is None
    assert gone.look(linked(), 2.0) == (["a"], [])
    assert gone.look(linked(), 3.0) == ([], [])
    assert gone.since("a") == 2.0


def test_a_session_process_that_is_linked_or_a_member_again_is_not_gone() -> None:
    gone = GoneSessions()
    gone.suspect(["a", "b"])
    assert gone.look(linked(), 1.0) == (["a", "b"], [])
    assert gone.look(linked("a"), 2.0) == ([], ["a"])
    assert gone.view_changed(set(), {"b"}) == ["b"]
    assert gone.look(linked(), 3.0) == (["a"], [])


def test_a_process_that_has_been_gone_for_long_is_forgotten() -> None:
    gone = GoneSessions()
    gone.suspect(["a"])
    gone.look(linked(), 1.0)
    gone.forget(1.0)
    assert gone.since("a") == 1.0
    gone.forget(1.1)
    assert gone.since("a") is None


# --- session servers -------------------------------------------------------------------------------------------------


def test_connected_processes_are_members_or_strangers() -> None:
    sessions = SessionServers()
    sessions.view_changed(
        [Node("session-1", Role.SESSION, "x:1", "session-1@1"), Node("s3", Role.SESSION, "x:2", "s3@1")]
    )
    sessions.opened(SESSION_1)
    sessions.opened(SESSION_2)
    assert sessions.connected_strangers() == {"session-2@1": SESSION_2}
    assert sessions.connected_members() == {"session-1@1": SESSION_1, "s3@1": None}
    sessions.closed(SESSION_2)
    assert sessions.connected_strangers() == {}
    assert sessions.is_member("s3@1")
    assert not sessions.is_member("session-2@1")


def test_the_newest_connection_of_a_process_counts() -> None:
    sessions = SessionServers()
    sessions.view_changed([Node("session-1", Role.SESSION, "x:1", "session-1@1")])
    newer = a_peer("session-1", Role.SESSION)
    sessions.opened(SESSION_1)
    sessions.opened(newer)
    assert sessions.connected_members() == {"session-1@1": newer}
    sessions.closed(SESSION_1)
    assert sessions.connected_members() == {"session-1@1": newer}


# --- interests and changes -------------------------------------------------------------------------------------------


def test_an_interest_in_a_compared_slot_is_answered_with_the_whole_service_and_then_with_deltas() -> None:
    scene = Scene()
    scene.put(record("r1"))
    scene.slot.compared.add(SESSION_1.process_id)
    answer = scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known("s", 0, 0)], []))
    assert answer.access is Access.ACCEPT
    assert scene.changed() == [("session-1", 0, ["r1"], [])]
    before = scene.slot.tracked["s"].version
    scene.put(record("r2"))
    scene.store(scene.slot, SlotWrite(0, 1, [], [], [("s", "r1")]))
    assert scene.changed() == [("session-1", before, ["r2"], ["r1"])]


def test_a_session_server_that_knows_the_content_gets_only_its_version() -> None:
    scene = Scene()
    scene.put(record("r1"))
    scene.slot.compared.add(SESSION_1.process_id)
    scene.slot.track("s")
    digest = scene.slot.hashed("s").digest
    scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known("s", 5, digest)], []))
    assert scene.changed() == [("session-1", 5, [], [])]
    version = scene.slot.tracked["s"].version
    scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known("s", version, digest)], []))
    assert scene.changed() == []


def test_an_interest_waits_until_its_session_server_was_compared_with() -> None:
    scene = Scene()
    scene.put(record("r1"))
    scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known("s", 0, 0)], []))
    scene.put(record("r2"))
    assert scene.changed() == []
    scene.interests.announce(scene.slot, {SESSION_1.process_id})
    assert scene.changed() == [("session-1", 0, ["r1", "r2"], [])]


def test_ended_interests_are_forgotten() -> None:
    scene = Scene()
    scene.slot.compared |= {SESSION_1.process_id, SESSION_2.process_id}
    for peer in (SESSION_1, SESSION_2):
        scene.interests.declare(peer, SlotInterest(0, 1, [Known("s", 0, 0)], []))
    scene.changed()
    scene.interests.declare(SESSION_1, SlotInterest(0, 1, [], ["s"]))
    scene.put(record("r1"))
    assert [to for to, *_ in scene.changed()] == ["session-2"]
    scene.interests.closed(SESSION_2)
    assert scene.slot.tracked == {}


def test_an_interest_under_another_epoch_or_in_another_servers_slot_is_refused() -> None:
    scene = Scene()
    assert scene.interests.declare(SESSION_1, SlotInterest(0, 2, [Known("s", 0, 0)], [])).access is Access.MISMATCH
    assert scene.interests.declare(SESSION_1, SlotInterest(7, 1, [Known("s", 0, 0)], [])).access is Access.MOVED
    assert scene.slot.tracked == {}


def test_changes_are_cut_into_messages_of_bounded_bytes() -> None:
    scene = Scene()
    scene.outbox.part_bytes = 2_000
    scene.slot.compared.add(SESSION_1.process_id)
    for number in range(5):
        scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known(f"s{number}", 0, 0)], []))
    scene.changed()
    scene.put(*[record(f"r0-{i}", service="s0") for i in range(100)])
    for number in range(1, 5):
        scene.put(record(f"r{number}", service=f"s{number}"))
    scene.outbox.end_turn()
    messages = [effect.what for effect in scene.outbox.take("sent") if isinstance(effect.what, Changed)]
    assert all(len(encode_message(message)) < 2_500 for message in messages)
    copies = {f"s{number}": DatumCopy() for number in range(5)}
    for change in [change for message in messages for change in message.changes]:
        copy = copies[change.data_info_id]
        copy.version = max(copy.version, change.from_version)
        if change.more:
            copy.gather(change)
        else:
            assert copy.apply(change) is not None
    assert [len(copy.records) for copy in copies.values()] == [100, 1, 1, 1, 1]
    assert len(messages) > 3
    assert scene.changes.sent == 1 + len(messages)


@pytest.mark.parametrize(("services", "records"), [(300, 1), (40, 30)], ids=["small services", "large services"])
def test_very_many_whole_services_do_not_fill_the_queue_of_a_session_server(
    monkeypatch: pytest.MonkeyPatch, services: int, records: int
) -> None:
    monkeypatch.setattr("slotreeve_servers.data.changes.WHOLE_BYTES", 1_000)
    monkeypatch.setattr("slotreeve_servers.data.changes.MOST_TRANSFERS", 3)
    scene = Scene()
    scene.outbox.part_bytes = 1_000
    scene.slot.compared.add(SESSION_1.process_id)
    names = [f"s{number}" for number in range(services)]
    scene.put(*[record(f"{name}-{n}", service=name) for name in names for n in range(records)])
    scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known(name, 0, 0) for name in names], []))
    copies = {name: DatumCopy() for name in names}
    for round_ in range(1_000):
        scene.outbox.end_turn()
        changed = names[round_ % services]
        scene.put(record(f"{changed}-new{round_}", service=changed))
        scene.outbox.end_turn()
        sent = [effect.what for effect in scene.outbox.take("sent", "asked") if isinstance(effect.what, Changed)]
        assert sum(len(encode_message(message)) for message in sent) < 9_000
        for change in [change for message in sent for change in message.changes]:
            copy = copies[change.data_info_id]
            fit = copy.fit(change)
            assert fit is not Fit.GAP
            if fit is Fit.PART:
                copy.gather(change)
            elif fit is Fit.NEXT:
                assert copy.apply(change) is not None
        if not scene.outbox.requests:
            break
        request = scene.outbox.requests.pop(0)
        request.answered(Done(), None)
    assert not scene.outbox.requests
    assert all(copy.records == scene.slot.store.services[name] for name, copy in copies.items())


class Receiver:
    """A session server that applies what the leader sends, and answers each part when the test says so."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.copy, self.gaps = scene, DatumCopy(), 0

    def take(self) -> None:
        """Apply all that was sent, in order."""
        for effect in self.scene.outbox.take("sent", "asked"):
            assert isinstance(effect.what, Changed)
            for change in effect.what.changes:
                fit = self.copy.fit(change)
                if fit is Fit.PART:
                    self.copy.gather(change)
                elif fit is Fit.NEXT:
                    self.copy.apply(change)
                elif fit is Fit.GAP:
                    self.gaps += 1

    def holds_all(self) -> bool:
        return self.copy.records == self.scene.slot.store.services["s"]


def large_service(scene: Scene) -> None:
    """A service of about ten parts, with an interest in it."""
    scene.outbox.part_bytes = 1_000
    scene.slot.compared.add(SESSION_1.process_id)
    scene.put(*[record(f"r{i}") for i in range(130)])
    scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known("s", 0, 0)], []))


def test_a_large_service_goes_to_a_session_server_part_by_part_and_its_changes_at_once() -> None:
    scene = Scene()
    receiver = Receiver(scene)
    large_service(scene)
    rounds = 0
    while scene.outbox.requests:
        (request,) = scene.outbox.requests
        assert len(encode_message(request.message)) < 1_500
        receiver.take()
        scene.put(record(f"new{rounds}"), record(f"r{rounds}", 2).tombstone())
        scene.outbox.end_turn()
        receiver.take()
        scene.outbox.answer(Done())
        rounds += 1
    receiver.take()
    assert rounds > 5
    assert receiver.holds_all()
    assert receiver.gaps == 0


def test_a_session_server_that_declares_again_while_the_parts_arrive_gets_them_once() -> None:
    scene = Scene()
    receiver = Receiver(scene)
    large_service(scene)
    receiver.take()
    scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known("s", 0, 0)], []))
    scene.outbox.end_turn()
    assert len(scene.outbox.requests) == 1
    while scene.outbox.requests:
        scene.outbox.answer(Done())
    receiver.take()
    assert receiver.holds_all()
    scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known("s", 0, 0)], []))
    assert len(scene.outbox.requests) == 1


def test_a_part_that_is_not_answered_or_not_taken_is_not_the_end() -> None:
    scene = Scene()
    receiver = Receiver(scene)
    large_service(scene)
    scene.outbox.answer(None, RequestTimeout("late"))
    scene.outbox.unreachable.add(SESSION_1)
    scene.outbox.answer(Done())
    assert scene.outbox.requests == []
    scene.outbox.unreachable.clear()
    scene.outbox.advance(1.0)
    while scene.outbox.requests:
        scene.outbox.answer(Done())
    receiver.take()
    assert receiver.holds_all()


def test_the_parts_end_with_the_connection() -> None:
    scene = Scene()
    large_service(scene)
    scene.changes.forget(SESSION_1)
    scene.outbox.answer(None, ConnectionLost("gone"))
    scene.outbox.advance(10.0)
    assert scene.outbox.requests == []


def test_nothing_is_announced_to_a_session_server_whose_connection_has_ended() -> None:
    scene = Scene()
    scene.slot.compared.add(SESSION_1.process_id)
    scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known("s", 0, 0)], []))
    scene.changes.forget(SESSION_1)
    assert scene.changed() == []


# --- streams ---------------------------------------------------------------------------------------------------------


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


# --- departures ------------------------------------------------------------------------------------------------------


def departing(connected: bool = True, says_so: bool = True, sessions: SessionServers | None = None) -> Scene:
    scene = Scene(sessions)
    members = [Node(p.node, Role.SESSION, "x:1", p.process_id) for p in (SESSION_1, SESSION_2)]
    scene.sessions.view_changed(members)
    if connected:
        scene.sessions.opened(SESSION_1)
        scene.sessions.opened(SESSION_2)
    scene.put(record("r1"))
    if says_so:
        scene.departures.said(scene.slot, [record("r1").tombstone()])
    else:
        scene.departures.lost([LostRecord(scene.slot, record("r1"), leaves_tombstone=True)])
        scene.outbox.end_turn()
    return scene


def test_a_departed_registration_is_removed_once_every_session_server_has_answered() -> None:
    scene = departing()
    assert scene.slot.departing == 1
    scene.outbox.advance(GATHER_SECONDS)
    assert [r.peer for r in scene.outbox.requests] == [SESSION_1, SESSION_2]
    assert scene.outbox.requests[0].message == Deliver([0])
    scene.outbox.answer(Done())
    assert "s" in scene.slot.store.services
    scene.outbox.answer(Done())
    assert "s" not in scene.slot.store.services
    assert scene.slot.departing == 0


def test_a_registration_that_was_replayed_meanwhile_stays() -> None:
    scene = departing()
    scene.outbox.advance(GATHER_SECONDS)
    scene.put(Publisher("r1", "s", 1, 2, "session-2@1", "", (b"x",)))
    scene.outbox.answer(Done())
    scene.outbox.answer(Done())
    assert "s" in scene.slot.store.services


def test_a_registration_that_arrived_with_the_last_answer_is_read_before_the_round_ends() -> None:
    scene = departing()
    scene.outbox.advance(GATHER_SECONDS)
    scene.outbox.answer(Done())
    was_there: list[bool] = []

    def read_the_rest() -> None:
        was_there.append("s" in scene.slot.store.services)
        scene.put(Publisher("r1", "s", 1, 2, "session-2@1", "", (b"x",)))

    scene.outbox.at_turns_end(read_the_rest)
    scene.outbox.answer(Done())
    assert was_there == [True]
    assert "s" in scene.slot.store.services


def test_a_session_server_that_does_not_answer_is_asked_again_and_not_for_ever() -> None:
    scene = departing()
    scene.outbox.advance(GATHER_SECONDS)
    scene.outbox.answer(Done())
    scene.outbox.answer(None, TimeoutError())
    scene.outbox.advance(AGAIN_SECONDS)
    assert [r.peer for r in scene.outbox.requests] == [SESSION_2]
    assert "s" in scene.slot.store.services
    scene.outbox.advance(3.0)
    assert "s" not in scene.slot.store.services


def test_where_a_session_server_did_not_answer_a_lost_client_has_the_grace_once_more() -> None:
    scene = departing(says_so=False)
    scene.outbox.advance(GATHER_SECONDS)
    scene.outbox.answer(Done())
    scene.sessions.view_changed([Node(SESSION_1.node, Role.SESSION, "x:1", SESSION_1.process_id)])
    scene.sessions.closed(SESSION_2)
    scene.outbox.advance(AGAIN_SECONDS)
    for _ in range(11):
        assert "s" in scene.slot.store.services
        scene.outbox.advance(0.25)
        scene.departures.look()
    scene.outbox.advance(0.25)
    scene.departures.look()
    scene.outbox.advance(GATHER_SECONDS)
    scene.outbox.answer(None, TimeoutError())
    scene.outbox.answer(Done())
    assert "s" not in scene.slot.store.services


def test_a_former_member_that_is_still_connected_is_asked_too_and_a_stranger_is_not() -> None:
    scene = departing(says_so=False)
    scene.sessions.opened(a_peer("stranger", Role.SESSION))
    scene.sessions.view_changed([Node(SESSION_1.node, Role.SESSION, "x:1", SESSION_1.process_id)])
    scene.outbox.advance(GATHER_SECONDS)
    assert [request.peer for request in scene.outbox.requests] == [SESSION_1, SESSION_2]
    scene.outbox.answer(Done())
    assert "s" in scene.slot.store.services
    scene.outbox.answer(Done())
    assert "s" not in scene.slot.store.services


def test_a_member_without_a_connection_is_waited_for_until_it_leaves_the_view() -> None:
    scene = departing(connected=False)
    scene.outbox.advance(1.0)
    assert "s" in scene.slot.store.services
    scene.sessions.view_changed([])
    scene.outbox.advance(AGAIN_SECONDS)
    assert "s" not in scene.slot.store.services


def old_view(scene: Scene) -> None:
    """The meta leader has confirmed nothing for longer than the view counts as current."""
    scene.sessions.confirmed_at = scene.outbox.now() - 2.0


def test_lost_registrations_stay_until_the_view_is_current_and_a_new_member_has_answered_too() -> None:
    scene = departing(says_so=False, sessions=SessionServers(current_seconds=1.5))
    old_view(scene)
    scene.outbox.advance(GATHER_SECONDS)
    scene.outbox.answer(Done())
    scene.outbox.answer(Done())
    scene.outbox.advance(AGAIN_SECONDS)
    assert "s" in scene.slot.store.services
    joined = a_peer("session-3", Role.SESSION)
    members = [Node(p.node, Role.SESSION, "x:1", p.process_id) for p in (SESSION_1, SESSION_2, joined)]
    scene.sessions.view_changed(members)
    scene.sessions.confirmed_at = scene.outbox.now()
    scene.sessions.opened(joined)
    scene.outbox.advance(AGAIN_SECONDS)
    assert "s" in scene.slot.store.services
    assert [request.peer for request in scene.outbox.requests] == [joined]
    scene.outbox.answer(Done())
    assert "s" not in scene.slot.store.services


def test_lost_registrations_are_removed_by_an_old_view_after_the_grace() -> None:
    scene = departing(says_so=False, sessions=SessionServers(current_seconds=1.5))
    old_view(scene)
    scene.outbox.advance(GATHER_SECONDS)
    scene.outbox.answer(Done())
    scene.outbox.answer(Done())
    scene.outbox.advance(2.9)
    assert "s" in scene.slot.store.services
    scene.outbox.advance(0.2)
    assert "s" not in scene.slot.store.services


def test_what_clients_withdrew_does_not_wait_for_a_current_view() -> None:
    scene = departing(sessions=SessionServers(current_seconds=1.5))
    old_view(scene)
    scene.outbox.advance(GATHER_SECONDS)
    scene.outbox.answer(Done())
    scene.outbox.answer(Done())
    assert "s" not in scene.slot.store.services


def test_departures_that_come_during_a_round_get_their_own_round() -> None:
    scene = departing()
    scene.outbox.advance(GATHER_SECONDS)
    scene.put(record("r2"))
    scene.departures.lost([LostRecord(scene.slot, record("r2"), leaves_tombstone=False)])
    scene.outbox.answer(Done())
    scene.outbox.answer(Done())
    assert list(scene.slot.store.services["s"]) == ["r2"]
    assert len(scene.outbox.requests) == 2
    scene.outbox.answer(Done())
    scene.outbox.answer(Done())
    assert "s" not in scene.slot.store.services


def test_a_lost_client_that_sends_everything_again_while_its_slot_moves_keeps_its_registrations() -> None:
    scene = Scene()
    scene.sessions.opened(SESSION_1)
    scene.put(record("r1"), record("r2"))
    scene.slot.serving = False
    scene.departures.lost([LostRecord(scene.slot, record(r), leaves_tombstone=False) for r in ("r1", "r2")])
    scene.outbox.end_turn()
    scene.put(Publisher("r1", "s", 1, 2, "session-2@1", "", (b"x",)))
    scene.outbox.advance(GATHER_SECONDS)
    assert list(scene.slot.store.services["s"]) == ["r1"]


def test_departures_from_a_slot_that_has_moved_are_dropped() -> None:
    scene = departing()
    former = scene.slot
    scene.slots.apply(SlotTable(2, (Slot(0, "data-2", 2, ()),)))
    scene.outbox.advance(GATHER_SECONDS)
    scene.outbox.answer(Done())
    scene.outbox.answer(Done())
    assert list(former.store.services) == ["s"]
