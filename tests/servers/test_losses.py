"""A data server learns that clients are lost: from reports, from claims, and from session processes that are gone."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from slotreeve.model.nodes import Node, Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_events.history import NO_REASONS
from slotreeve_protocol.general_messages import Done
from slotreeve_protocol.slot_messages import Claims, Deliver, SlotWrite
from slotreeve_servers.data import departures, held_back
from slotreeve_servers.data.brake import Brake, limits_of
from slotreeve_servers.data.departures import Departures
from slotreeve_servers.data.losses import ClientLosses
from slotreeve_servers.data.sessions import LINK_SILENCE_SECONDS, SessionServers
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.data.slots import HeldSlot, HeldSlots
from slotreeve_servers.node.outbox import Peer

from tests.servers.recording_outbox import RecordingOutbox, a_peer

SESSION_1, SESSION_2 = a_peer("session-1", Role.SESSION), a_peer("session-2", Role.SESSION)


def record(client: str, session: Peer = SESSION_1) -> Publisher:
    return Publisher(f"{client}-1", "s", 1, 1, session.process_id, "", (b"x",))


class Scene:
    """data-1 serves slot 0; session-1 and session-2 are members and linked; session-1 holds the client ``a``."""

    def __init__(self) -> None:
        self.outbox, self.slots, self.sessions = RecordingOutbox(), HeldSlots("data-1"), SessionServers()
        self.slots.apply(SlotTable(1, (Slot(0, "data-1", 1, ()),)))
        self.slot.serve()
        rules = DataSettings()
        brake = Brake(limits_of(rules))
        self.departures = Departures(self.outbox, self.slots, self, self.sessions, rules, brake)
        self.losses = ClientLosses(self.outbox, self.slots, self.sessions, self.departures, rules)
        self.slot.store.put(record("a"), 0.0)
        self.view(SESSION_1, SESSION_2)
        for peer in (SESSION_1, SESSION_2):
            self.sessions.opened(peer)

    @property
    def slot(self) -> HeldSlot:
        return self.slots.held[0]

    def store(self, slot: HeldSlot, write: SlotWrite, reasons: Mapping[str, str] = NO_REASONS) -> None:
        slot.apply(write, self.outbox.now())

    def view(self, *members: Peer) -> None:
        before = set(self.sessions.members)
        self.sessions.view_changed([Node(peer.node, Role.SESSION, "x:1", peer.process_id) for peer in members])
        self.losses.view_changed(before, {peer.process_id for peer in members})

    def links_again(self, peer: Peer) -> Peer:
        """The session process of this peer makes another connection."""
        newer = Peer(peer.node, peer.role, peer.process_id)
        self.sessions.opened(newer)
        self.losses.linked(newer)
        return newer

    def live(self, seconds: float) -> list[str]:
        """Let time pass as the core does; session servers answer that they have nothing to deliver. Returns what the
        slot still has."""
        for _ in range(round(seconds / 0.25)):
            self.outbox.advance(0.25)
            self.losses.look()
            self.departures.look()
            self.outbox.advance(0.02)
            while self.outbox.requests:
                self.outbox.answer(Done())
        return sorted(self.slot.store.services.get("s", {}))


def test_a_session_process_that_left_the_view_but_is_linked_keeps_its_clients() -> None:
    scene = Scene()
    scene.view(SESSION_2)
    assert scene.live(60.0) == ["a-1"]
    scene.outbox.silence[SESSION_1] = LINK_SILENCE_SECONDS
    assert scene.live(2.5) == ["a-1"]
    assert scene.live(1.0) == []


def test_a_frozen_session_process_that_left_the_view_is_gone_although_its_connection_is_open() -> None:
    scene = Scene()
    scene.outbox.silence[SESSION_1] = LINK_SILENCE_SECONDS
    scene.view(SESSION_2)
    assert scene.live(2.5) == ["a-1"]
    assert scene.live(1.0) == []


def test_the_connections_of_a_session_process_that_is_gone_are_closed() -> None:
    scene = Scene()
    newer = Peer(SESSION_1.node, SESSION_1.role, SESSION_1.process_id)
    scene.sessions.opened(newer)
    scene.outbox.silence.update({SESSION_1: LINK_SILENCE_SECONDS, newer: LINK_SILENCE_SECONDS})
    scene.losses.look()
    assert scene.outbox.take("closed") == []
    scene.view(SESSION_2)
    assert [effect.peer for effect in scene.outbox.take("closed")] == [SESSION_1, newer]


def test_a_session_process_that_links_again_while_its_clients_are_being_removed_keeps_them() -> None:
    scene = Scene()
    scene.sessions.closed(SESSION_1)
    scene.view(SESSION_2)
    scene.outbox.advance(DataSettings().session_grace_seconds + 0.25)
    scene.departures.look()
    scene.outbox.advance(0.02)
    scene.sessions.opened(SESSION_1)
    scene.losses.linked(SESSION_1)
    (request,) = scene.outbox.requests
    assert isinstance(request.message, Deliver)
    scene.outbox.answer(Done())
    scene.outbox.end_turn()
    assert scene.live(0.5) == ["a-1"]


def test_what_is_not_removed_yet_stays_when_the_session_process_links_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departures, "REMOVED_AT_ONCE", 1)
    scene = Scene()
    scene.slot.store.put(record("b"), 0.0)
    scene.sessions.closed(SESSION_1)
    scene.view(SESSION_2)
    scene.outbox.advance(DataSettings().session_grace_seconds + 0.25)
    scene.departures.look()
    scene.outbox.advance(0.02)
    (request,) = scene.outbox.requests
    request.answered(Done(), None)
    scene.outbox.end_one_turn()
    assert len(scene.slot.store.services["s"]) == 1
    scene.sessions.opened(SESSION_1)
    scene.losses.linked(SESSION_1)
    assert len(scene.live(0.5)) == 1


def test_a_claim_keeps_the_records_of_a_client_that_its_session_server_reports_as_lost() -> None:
    scene = Scene()
    scene.losses.claimed(SESSION_2, Claims(["a"], []))
    scene.losses.reported(scene.slot, [record("a").tombstone()])
    assert scene.live(5.0) == ["a-1"]
    scene.losses.claimed(SESSION_2, Claims([], ["a"]))
    assert scene.live(0.5) == []


def test_a_claim_that_ended_while_the_link_was_down_ends_with_the_next_link() -> None:
    scene = Scene()
    scene.losses.claimed(SESSION_2, Claims(["a"], []))
    scene.losses.reported(scene.slot, [record("a").tombstone()])
    assert scene.live(5.0) == ["a-1"]
    scene.losses.claimed(scene.links_again(SESSION_2), Claims([], []))
    assert scene.live(0.5) == []


def test_a_claim_that_ends_with_its_process_is_noted_at_once() -> None:
    scene, other = Scene(), a_peer("session-3", Role.SESSION)
    scene.sessions.opened(other)
    scene.sessions.closed(SESSION_1)
    scene.view(SESSION_2, other)
    assert scene.live(0.5) == ["a-1"]
    scene.losses.claimed(SESSION_2, Claims(["a"], []))
    assert scene.live(1.0) == ["a-1"]
    scene.sessions.closed(SESSION_2)
    scene.view(other)
    # From here, not from the next look at what is due, clients that come back have their longer time.
    returning = held_back.RETURNING * DataSettings().session_grace_seconds
    assert scene.live(returning - 1.0) == ["a-1"]
    assert scene.live(2.0) == []


def test_the_claims_of_a_process_that_no_view_has_named_end_with_it() -> None:
    scene, stranger = Scene(), a_peer("session-3", Role.SESSION)
    scene.sessions.opened(stranger)
    scene.losses.claimed(stranger, Claims(["a"], []))
    scene.losses.reported(scene.slot, [record("a").tombstone()])
    assert scene.live(5.0) == ["a-1"]
    scene.sessions.closed(stranger)
    assert scene.live(2.5) == ["a-1"]
    assert scene.live(1.0) == []
    assert len(scene.departures.claims) == 0


def test_a_process_that_claims_before_the_view_names_it_is_a_member_like_another() -> None:
    scene, early = Scene(), a_peer("session-3", Role.SESSION)
    scene.sessions.opened(early)
    scene.losses.claimed(early, Claims(["a"], []))
    scene.view(SESSION_1, SESSION_2, early)
    scene.losses.reported(scene.slot, [record("a").tombstone()])
    assert (scene.live(5.0), scene.losses.gone) == (["a-1"], set())


def test_a_connection_that_brings_no_claims_ends_none() -> None:
    scene = Scene()
    scene.losses.claimed(SESSION_2, Claims(["b"], []))
    given_up = scene.links_again(SESSION_2)
    scene.losses.claimed(SESSION_2, Claims(["a"], []))
    scene.sessions.closed(given_up)
    scene.losses.reported(scene.slot, [record("a").tombstone()])
    assert scene.live(5.0) == ["a-1"]
    assert len(scene.departures.claims) == 2


def test_a_claim_that_an_older_connection_still_brings_does_not_count() -> None:
    scene = Scene()
    scene.losses.claimed(scene.links_again(SESSION_2), Claims([], []))
    scene.losses.claimed(SESSION_2, Claims(["a"], []))
    scene.losses.reported(scene.slot, [record("a").tombstone()])
    assert scene.live(5.0) == []


def test_a_client_that_was_sending_to_a_process_that_is_gone_has_the_grace() -> None:
    scene = Scene()
    scene.losses.claimed(SESSION_2, Claims(["a"], []))
    scene.losses.reported(scene.slot, [record("a").tombstone()])
    scene.sessions.closed(SESSION_2)
    scene.view(SESSION_1)
    assert scene.live(2.5) == ["a-1"]
    assert scene.live(1.0) == []
    assert len(scene.departures.claims) == 0


def test_the_claims_of_a_process_that_is_back_do_not_end_with_the_grace() -> None:
    scene = Scene()
    scene.losses.claimed(SESSION_2, Claims(["a"], []))
    scene.losses.reported(scene.slot, [record("a").tombstone()])
    scene.sessions.closed(SESSION_2)
    scene.view(SESSION_1)
    assert scene.live(1.0) == ["a-1"]
    scene.losses.claimed(scene.links_again(SESSION_2), Claims(["a"], []))
    assert scene.live(5.0) == ["a-1"]


def test_a_report_about_a_record_of_another_session_process_is_ignored() -> None:
    scene = Scene()
    scene.losses.reported(scene.slot, [record("a", SESSION_2).tombstone(), record("b").tombstone()])
    assert scene.live(5.0) == ["a-1"]


def test_time_in_which_this_server_was_frozen_is_not_held_against_clients() -> None:
    scene = Scene()
    scene.sessions.closed(SESSION_1)
    scene.view(SESSION_2)
    assert scene.live(1.0) == ["a-1"]
    scene.outbox.time += 30.0
    scene.outbox.unattended += 30.0
    assert scene.live(1.5) == ["a-1"]
    assert scene.live(1.0) == []


def test_a_data_server_that_no_session_server_is_linked_to_removes_nothing() -> None:
    scene = Scene()
    for peer in (SESSION_1, SESSION_2):
        scene.outbox.silence[peer] = LINK_SILENCE_SECONDS
    scene.view()
    assert scene.live(60.0) == ["a-1"]
    del scene.outbox.silence[SESSION_2]
    assert scene.live(2.5) == ["a-1"]
    assert scene.live(1.0) == []


def test_a_new_leader_gives_the_grace_to_the_clients_of_a_process_that_was_gone_before() -> None:
    scene = Scene()
    scene.sessions.closed(SESSION_1)
    scene.view(SESSION_2)
    assert scene.live(4.0) == []
    scene.slot.store.put(Publisher("b-1", "s", 1, 1, SESSION_1.process_id, "", (b"x",)), 0.0)
    scene.losses.adopt(scene.slot)
    assert scene.live(2.5) == ["b-1"]
    assert scene.live(1.0) == []
