"""Registrations of clients that left, or were lost, end after a round among the session servers."""

from __future__ import annotations

from slotreeve.model.nodes import Node, Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.general_messages import Done
from slotreeve_protocol.slot_messages import (
    Deliver,
)
from slotreeve_servers.data.departures import AGAIN_SECONDS, GATHER_SECONDS
from slotreeve_servers.data.held_back import LostRecord
from slotreeve_servers.data.sessions import SessionServers

from tests.servers.data_scene import SESSION_1, SESSION_2, Scene, record
from tests.servers.recording_outbox import a_peer


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


def test_what_is_sent_again_during_a_round_that_is_not_complete_is_not_held() -> None:
    scene = departing(says_so=False)
    scene.outbox.advance(GATHER_SECONDS)
    scene.outbox.answer(Done())
    scene.put(Publisher("r1", "s", 1, 2, "session-2@1", "", (b"x",)))
    scene.sessions.view_changed([Node(SESSION_1.node, Role.SESSION, "x:1", SESSION_1.process_id)])
    scene.sessions.closed(SESSION_2)
    scene.outbox.advance(AGAIN_SECONDS)
    assert (scene.departures.counters()["departures_held"], scene.slot.departing) == (0, 0)


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
