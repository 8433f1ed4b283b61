"""A data server learns that clients are lost: from reports, from who arrives, and from session processes that are
gone."""

from __future__ import annotations

import pytest
from slotreeve.model.nodes import Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.slot_messages import Answers, Changed, Confirm
from slotreeve_servers.data.endings import ending_rounds
from slotreeve_servers.data.endings.ending import LostRecord
from slotreeve_servers.data.endings.endings import RETURNING
from slotreeve_servers.data.endings.over import TOLD_AT_ONCE
from slotreeve_servers.data.endings.sessions import LINK_SILENCE_SECONDS
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.node.outbox import Peer

from tests.servers.endings_scene import RULES, SESSION_1, SESSION_2, EndingsScene
from tests.servers.recording_outbox import a_peer

GRACE = DataSettings().session_grace_seconds


def record(client: str, session: Peer = SESSION_1) -> Publisher:
    return Publisher(f"{client}-1", "s", 1, 1, session.process_id, "", (b"x",))


class Scene(EndingsScene):
    """session-1 holds the client ``a``."""

    def __init__(self, rules: DataSettings = RULES) -> None:
        super().__init__(rules=rules)
        self.put(record("a"))

    def live(self, seconds: float) -> list[str]:
        """Let time pass. Returns what the slot still has."""
        self.until(self.now + seconds)
        return self.left

    def report(self, *records: Publisher) -> None:
        self.lost_clients.reported(self.slot, list(records))

    def told_over(self, peer: Peer = SESSION_1) -> list[str]:
        """Register ids of what this session server was told to be over, since it was asked before."""
        self.outbox.end_turn()
        told = [effect.what for effect in self.outbox.take("sent") if effect.peer is peer]
        return [one.register_id for message in told if isinstance(message, Changed) for one in message.over]


def test_a_session_server_is_told_once_what_it_has_reported_has_ended() -> None:
    scene = Scene()
    scene.answers = False
    scene.report(record("a"))
    assert scene.told_over() == []
    scene.report(record("a"))  # over another link, or again
    scene.answers = True
    assert scene.live(1.0) == []
    assert scene.told_over() == ["a-1"]
    scene.report(record("a"))
    assert scene.told_over() == ["a-1"], "it may not have arrived"


def test_what_a_session_server_of_release_0_1_reports_ends() -> None:
    scene = Scene()
    scene.report(record("a").tombstone())
    assert scene.live(1.0) == []


def test_a_session_server_is_told_that_a_newer_record_is_stored() -> None:
    scene = Scene()
    scene.tell(SESSION_2, ["a"])
    scene.report(record("a"))
    assert scene.live(60.0) == ["a-1"]
    assert scene.told_over() == []
    scene.put(Publisher("a-1", "s", 1, 2, SESSION_2.process_id, "", (b"x",)))
    assert (scene.told_over(), scene.told_over(SESSION_2)) == (["a-1"], [])
    assert scene.left == ["a-1"]


def test_what_is_lost_and_over_does_not_come_back_with_its_report() -> None:
    scene = Scene()
    scene.report(record("b"))
    assert scene.left == ["a-1"]
    assert scene.told_over() == ["b-1"]


def test_a_member_at_which_clients_arrive_is_not_gone_however_long_it_is_silent() -> None:
    scene = Scene()
    scene.tell(SESSION_1, arriving=["z"])
    scene.sessions.closed(SESSION_1)
    assert scene.live(10 * GRACE) == ["a-1"]
    assert scene.lost_clients.gone == set()


def test_a_session_server_is_told_nothing_of_what_the_next_leader_decides() -> None:
    scene = Scene()
    scene.tell(SESSION_2, ["a"])
    scene.report(record("a"))
    scene.table("data-2", epoch=2)
    scene.endings.table_changed()
    scene.outbox.end_turn()
    assert scene.endings.held == 0
    assert scene.told_over() == []


def test_what_a_comparison_found_to_be_lost_before_its_report_is_told_as_well() -> None:
    scene = Scene()
    scene.tell(SESSION_2, ["a"])
    scene.endings.lost([LostRecord(scene.slot, record("a"))])
    scene.report(record("a"))
    scene.tell(SESSION_2, arrived=["a"])
    assert scene.live(1.0) == []
    assert scene.told_over() == ["a-1"]


def test_very_many_that_are_over_are_told_in_messages_of_a_bounded_size() -> None:
    scene = Scene()
    scene.report(*[record(f"b{number}").tombstone() for number in range(2 * TOLD_AT_ONCE + 1)])
    scene.outbox.end_turn()
    messages = scene.outbox.messages(Changed, SESSION_1)
    assert [len(message.over) for message in messages if isinstance(message, Changed)] == [TOLD_AT_ONCE] * 2 + [1]


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
    scene.lost_clients.look()
    assert scene.outbox.take("closed") == []
    scene.view(SESSION_2)
    assert [effect.peer for effect in scene.outbox.take("closed")] == [SESSION_1, newer]


def test_a_session_process_that_links_again_while_its_clients_are_being_removed_keeps_them() -> None:
    scene = Scene()
    scene.sessions.closed(SESSION_1)
    scene.view(SESSION_2)
    scene.outbox.advance(GRACE + 0.25)
    scene.endings.look()
    scene.outbox.advance(0.02)
    scene.sessions.opened(SESSION_1)
    scene.lost_clients.look()
    (request,) = scene.outbox.requests
    assert isinstance(request.message, Confirm)
    scene.outbox.answer(Answers([]))
    scene.outbox.end_turn()
    assert scene.live(0.5) == ["a-1"]


def test_what_is_not_removed_yet_stays_when_the_session_process_links_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending_rounds, "ENDED_AT_ONCE", 1)
    scene = Scene()
    scene.slot.store.put(record("b"), 0.0)
    scene.sessions.closed(SESSION_1)
    scene.view(SESSION_2)
    scene.outbox.advance(GRACE + 0.25)
    scene.endings.look()
    scene.outbox.advance(0.02)
    (request,) = scene.outbox.requests
    request.answered(Answers([]), None)
    scene.outbox.turn_steps = 1
    while len(scene.slot.store.services["s"]) == 2:
        scene.outbox.end_one_turn()
    scene.sessions.opened(SESSION_1)
    scene.lost_clients.look()
    assert len(scene.live(0.5)) == 1


def test_a_client_that_arrives_keeps_the_records_that_its_session_server_reports_as_lost() -> None:
    scene = Scene()
    scene.tell(SESSION_2, ["a"], [])
    scene.report(record("a"))
    assert scene.live(5.0) == ["a-1"]
    scene.tell(SESSION_2, [], ["a"])
    assert scene.live(0.5) == []


def test_a_client_that_arrived_while_the_link_was_down_has_arrived_with_the_next_link() -> None:
    scene = Scene()
    scene.tell(SESSION_2, ["a"], [])
    scene.report(record("a"))
    assert scene.live(5.0) == ["a-1"]
    scene.tell(scene.links_again(SESSION_2), [], [])
    assert scene.live(0.5) == []


def test_that_a_process_is_gone_at_which_a_client_arrived_is_noted_at_once() -> None:
    scene, other = Scene(), a_peer("session-3", Role.SESSION)
    scene.sessions.opened(other)
    scene.sessions.closed(SESSION_1)
    scene.view(SESSION_2, other)
    assert scene.live(0.5) == ["a-1"]
    scene.tell(SESSION_2, ["a"], [])
    assert scene.live(1.0) == ["a-1"]
    scene.sessions.closed(SESSION_2)
    scene.view(other)
    # From here, not from the next look at what is due, clients that come back have their longer time.
    returning = RETURNING * GRACE
    assert scene.live(returning - 1.0) == ["a-1"]
    assert scene.live(2.0) == []


def test_a_client_whose_new_session_process_is_gone_has_the_grace_for_what_is_found_to_be_lost_later() -> None:
    scene = Scene()
    scene.tell(SESSION_2, ["a"], [])
    scene.sessions.closed(SESSION_2)
    scene.view(SESSION_1)
    assert scene.live(GRACE / 2) == ["a-1"]
    scene.report(record("a"))
    assert scene.live(GRACE / 2 - 0.1) == ["a-1"]
    assert scene.live(0.5) == []


def test_nobody_arrives_any_more_at_a_process_that_no_view_has_named_and_that_is_gone() -> None:
    scene, stranger = Scene(), a_peer("session-3", Role.SESSION)
    scene.sessions.opened(stranger)
    scene.tell(stranger, ["a"], [])
    scene.report(record("a"))
    assert scene.live(5.0) == ["a-1"]
    scene.sessions.closed(stranger)
    assert scene.live(2.5) == ["a-1"]
    assert scene.live(1.0) == []
    assert scene.endings.presence.arriving == 0


def test_a_process_at_which_clients_arrive_before_the_view_names_it_is_a_member_like_another() -> None:
    scene, early = Scene(), a_peer("session-3", Role.SESSION)
    scene.sessions.opened(early)
    scene.tell(early, ["a"], [])
    scene.view(SESSION_1, SESSION_2, early)
    scene.report(record("a"))
    assert (scene.live(5.0), scene.lost_clients.gone) == (["a-1"], set())


def test_a_connection_that_brings_nothing_changes_nothing() -> None:
    scene = Scene()
    scene.tell(SESSION_2, ["b"], [])
    given_up = scene.links_again(SESSION_2)
    scene.tell(SESSION_2, ["a"], [])
    scene.sessions.closed(given_up)
    scene.report(record("a"))
    assert scene.live(5.0) == ["a-1"]
    assert scene.endings.presence.arriving == 2


def test_what_an_older_connection_still_tells_does_not_count() -> None:
    scene = Scene()
    scene.tell(scene.links_again(SESSION_2), [], [])
    scene.tell(SESSION_2, ["a"], [])
    scene.report(record("a"))
    assert scene.live(5.0) == []


def test_a_client_that_was_sending_to_a_process_that_is_gone_has_the_grace() -> None:
    scene = Scene()
    scene.tell(SESSION_2, ["a"], [])
    scene.report(record("a"))
    scene.sessions.closed(SESSION_2)
    scene.view(SESSION_1)
    assert scene.live(2.5) == ["a-1"]
    assert scene.live(1.0) == []
    assert scene.endings.presence.arriving == 0


def test_clients_still_arrive_at_a_process_that_is_back() -> None:
    scene = Scene()
    scene.tell(SESSION_2, ["a"], [])
    scene.report(record("a"))
    scene.sessions.closed(SESSION_2)
    scene.view(SESSION_1)
    assert scene.live(1.0) == ["a-1"]
    scene.tell(scene.links_again(SESSION_2), ["a"], [])
    assert scene.live(5.0) == ["a-1"]


def test_a_report_about_a_record_of_another_session_process_is_ignored() -> None:
    scene = Scene()
    scene.report(record("a", SESSION_2).tombstone(), record("b"))
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
    scene.lost_clients.adopt(scene.slot)
    assert scene.live(2.5) == ["b-1"]
    assert scene.live(1.0) == []


def test_a_session_process_that_links_again_while_its_records_are_searched_keeps_all_of_them() -> None:
    scene = EndingsScene(slots=2)
    scene.put(record("a"))
    others = [record(f"other{number}", session=SESSION_2) for number in range(9)]
    scene.put(record("b"), *others, record("c"), slot=1)
    scene.outbox.turn_steps = 1
    scene.dies(SESSION_1)
    while not scene.endings.held:
        scene.outbox.end_one_turn()
    assert scene.endings.held == 1, "the next slot is searched in the next turn"
    scene.links_again(SESSION_1)
    scene.until(30.0)
    assert {"a-1", "b-1", "c-1"} <= set(scene.left)


def test_a_slot_that_this_server_follows_when_it_is_searched_has_no_lost_clients() -> None:
    scene = EndingsScene(slots=2)
    scene.put(record("a"), *[record(f"other{number}", session=SESSION_2) for number in range(9)])
    scene.put(record("b"), slot=1)
    scene.outbox.turn_steps = 1
    scene.dies(SESSION_1)
    while not scene.endings.held:
        scene.outbox.end_one_turn()
    rows = (Slot(0, "data-1", 1, ()), Slot(1, "data-2", 2, ("data-1",)))
    scene.slots.apply(SlotTable(2, rows))
    for _ in range(20):
        scene.outbox.end_one_turn()
    assert scene.endings.held == 1, "of the slot that this server leads still"


def test_a_session_process_that_is_back_gone_and_back_again_between_two_turns_keeps_everything() -> None:
    scene = Scene()
    scene.put(*[record(client) for client in "bcd"])
    scene.dies(SESSION_1)
    scene.outbox.end_turn()
    first = scene.links_again(SESSION_1)
    scene.outbox.turn_steps = 1
    while scene.endings.held == 4:
        scene.outbox.end_one_turn()
    scene.sessions.closed(first)
    scene.lost_clients.look()
    for _ in range(20):
        scene.outbox.end_one_turn()
    assert scene.endings.held == 4, "gone again, and all are lost anew"
    scene.links_again(SESSION_1)
    scene.until(30.0)
    assert scene.left == ["a-1", "b-1", "c-1", "d-1"]


def test_clients_of_a_process_that_is_back_and_gone_for_good_end() -> None:
    scene = Scene()
    scene.outbox.turn_steps = 2
    scene.put(*[record(client) for client in "bcd"])
    scene.dies(SESSION_1)
    scene.sessions.closed(scene.links_again(SESSION_1))
    scene.until(GRACE + 2.0)
    assert (scene.left, scene.endings.held) == ([], 0)


@pytest.mark.parametrize("hold_seconds", [0.0, 60.0])
@pytest.mark.parametrize("is_member", [True, False])
def test_a_session_process_that_is_back_keeps_the_clients_that_had_longer_because_one_came_back(
    hold_seconds: float, is_member: bool
) -> None:
    scene = Scene(DataSettings(brake_hold_seconds=hold_seconds))
    scene.put(record("b"))
    scene.dies(SESSION_1)
    assert scene.live(GRACE - 1.0) == ["a-1", "b-1"]
    scene.put(Publisher("b-1", "s", 1, 2, SESSION_2.process_id, "", (b"x",)))
    assert scene.live(2 * GRACE) == ["a-1", "b-1"]
    if is_member:
        scene.view(SESSION_1, SESSION_2)
    else:
        scene.links_again(SESSION_1)
    assert scene.live(60.0) == ["a-1", "b-1"]


def test_a_session_process_of_which_nothing_is_left_is_forgotten() -> None:
    scene = Scene()
    scene.dies(SESSION_1)
    scene.outbox.end_turn()
    assert scene.live(GRACE - 0.5) == ["a-1"]
    assert scene.lost_clients.gone == {SESSION_1.process_id}
    assert (scene.live(1.0), scene.lost_clients.gone) == ([], set())


def test_a_session_process_is_not_forgotten_while_its_records_are_searched() -> None:
    scene = EndingsScene()
    others = [record(f"other{number}", SESSION_2) for number in range(3)]
    scene.put(*others, record("a"))
    scene.outbox.turn_steps = 1
    scene.dies(SESSION_1)
    for _ in range(20):
        scene.lost_clients.look()
        scene.outbox.end_one_turn()
    assert scene.lost_clients.gone == {SESSION_1.process_id}
    scene.until(GRACE + 1.0)
    assert scene.left == [one.register_id for one in others]


def test_a_session_process_is_not_forgotten_while_its_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()

    def close(peer: Peer, _reason: str) -> None:
        scene.sessions.closed(peer)
        scene.lost_clients.look()

    monkeypatch.setattr(scene.outbox, "close", close)
    scene.outbox.silence[SESSION_1] = LINK_SILENCE_SECONDS
    scene.view(SESSION_2)
    assert scene.live(GRACE - 0.5) == ["a-1"]
    assert scene.live(1.0) == []


def test_what_a_session_process_reports_as_lost_when_it_is_back_ends_at_once() -> None:
    scene = Scene()
    scene.put(record("b"))
    scene.dies(SESSION_1)
    assert scene.live(0.5) == ["a-1", "b-1"]
    scene.links_again(SESSION_1)
    scene.report(record("a"))
    assert scene.live(0.5) == ["b-1"]
    assert scene.live(60.0) == ["b-1"]


def test_a_report_that_is_older_than_the_record_is_ignored() -> None:
    scene = Scene()
    report = record("a").tombstone()
    scene.put(Publisher("a-1", "s", 1, 2, SESSION_1.process_id, "", (b"x",)))
    scene.lost_clients.reported(scene.slot, [report])
    scene.put(Publisher("a-1", "s", 2, 2, SESSION_1.process_id, "", (b"y",)))
    scene.lost_clients.reported(scene.slot, [Publisher("a-1", "s", 1, 2, SESSION_1.process_id, "", ()).tombstone()])
    assert scene.live(5.0) == ["a-1"]


def test_of_a_session_process_that_is_gone_it_is_not_kept_which_connection_told() -> None:
    scene = EndingsScene()
    scene.tell(SESSION_1, arriving=["client1"])
    assert SESSION_1.process_id in scene.lost_clients._telling
    scene.session_dies()
    scene.until(10.0)
    assert SESSION_1.process_id not in scene.lost_clients._telling


def test_what_was_reported_and_then_found_missing_by_a_comparison_is_told_as_over() -> None:
    scene = Scene()
    scene.tell(SESSION_2, ["a"])
    scene.report(record("a"))
    scene.endings.lost([LostRecord(scene.slot, record("a"))])
    scene.tell(SESSION_2, arrived=["a"])
    assert scene.live(1.0) == []
    assert scene.told_over() == ["a-1"]
