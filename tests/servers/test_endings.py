"""Registrations that nobody vouches for: who arrives stays, the brake holds many, and every hold ends."""

from __future__ import annotations

import pytest
from slotreeve.errors import ConnectionLost
from slotreeve.model.nodes import Role
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.leases import lease_record
from slotreeve_protocol.slot_messages import Answers, Confirm, SlotEpoch
from slotreeve_servers.data.endings import ending_rounds
from slotreeve_servers.data.endings.barrier import AGAIN_SECONDS
from slotreeve_servers.data.endings.ending import HeldLease, LostRecord
from slotreeve_servers.data.endings.ending_rounds import GATHER_SECONDS
from slotreeve_servers.data.endings.endings import RETURNING
from slotreeve_servers.data.endings.presence import FEW_CLIENTS, ClientPresence, client_of
from slotreeve_servers.data.endings.sessions import LINK_SILENCE_SECONDS

from tests.servers.endings_scene import RULES, SESSION_1, SESSION_2, EndingsScene, record, state_of
from tests.servers.recording_outbox import a_peer

GRACE = RULES.session_grace_seconds
HOLD = RULES.brake_hold_seconds
LATE = 0.5
"""Something is found so much late at most, here."""


# --- few -------------------------------------------------------------------------------------------------------------


def test_few_clients_of_a_dead_session_server_end_with_the_grace() -> None:
    scene = EndingsScene(clients=64)
    scene.session_dies()
    assert scene.ended(GRACE - 0.1) == set()
    assert len(scene.ended(GRACE + LATE)) == 64
    assert scene.endings.counters()["endings_held"] == 0


def test_a_client_that_its_session_server_has_lost_ends_at_once() -> None:
    scene = EndingsScene(clients=1)
    scene.lose(*scene.records)
    assert scene.ended(0.05) == {"client0"}
    assert scene.reasons["client0-0"].startswith("its client was lost")
    assert list(scene.slot.store.tombstones) == ["client0-0"]


@pytest.mark.parametrize("new_one_first", [False, True])
@pytest.mark.parametrize("is_stored", [False, True])
def test_a_client_that_moves_and_says_to_both_session_servers_that_it_leaves_ends(
    new_one_first: bool, is_stored: bool
) -> None:
    scene = EndingsScene(clients=1)
    former, new = scene.records[0], record(0, incarnation=1, session=SESSION_2)
    if is_stored:
        scene.slot.store.purge(former.data_info_id, former.register_id)
        scene.put(new)
    for one in (new, former) if new_one_first else (former, new):
        scene.say(one)
        scene.say(one)
    assert scene.ended(0.05) == {"client0"}


@pytest.mark.parametrize("word_comes", ["first", "while it is asked for", "last"])
def test_what_a_dead_session_server_has_ends_also_where_another_one_hears_that_the_client_leaves(
    word_comes: str,
) -> None:
    scene = EndingsScene(clients=1)
    word = record(0, incarnation=0, session=SESSION_2)
    if word_comes == "while it is asked for":
        scene.answers = False
    if word_comes != "last":
        scene.say(word)
        scene.until(0.05)
    scene.session_dies()
    scene.until(0.1)
    if word_comes == "last":
        scene.say(word)
    scene.answers = True
    assert scene.ended(GRACE - 0.1) == set()
    assert scene.ended(GRACE + LATE) == {"client0"}


def test_what_was_lost_at_one_session_server_ends_although_its_client_has_told_the_next_one_that_it_leaves() -> None:
    scene = EndingsScene(clients=1)
    scene.session_dies()
    scene.until(1.0)
    scene.say(record(0, incarnation=2, session=SESSION_2))  # what it had sent there never arrives
    assert scene.ended(GRACE - 0.1) == set()
    assert scene.ended(GRACE + LATE) == {"client0"}


def test_what_a_client_has_sent_after_its_word_ends_with_the_grace_once_its_session_server_is_dead() -> None:
    scene = EndingsScene(clients=1)
    scene.answers = False
    scene.say(scene.records[0])
    scene.put(record(0, incarnation=2))
    scene.session_dies()
    scene.until(0.1)
    scene.answers = True
    assert scene.ended(GRACE - 0.1) == set()
    assert scene.ended(GRACE + LATE) == {"client0"}


def test_an_older_word_does_not_take_the_place_of_a_loss() -> None:
    scene = EndingsScene()
    scene.put(record(0, incarnation=2))
    scene.session_dies()
    scene.until(0.1)
    scene.say(record(0, incarnation=1))
    assert scene.ended(GRACE + LATE) == {"client0"}


def test_what_is_lost_ends_although_an_older_word_of_its_client_comes_just_before() -> None:
    scene = EndingsScene(clients=1)
    later = record(0, incarnation=2)
    scene.put(later)
    scene.say(scene.records[0])
    scene.lose(later)
    assert scene.ended(0.1) == {"client0"}
    assert scene.endings.over._to_tell == {}


def test_what_a_client_has_sent_later_does_not_end_by_an_older_word_that_comes_last() -> None:
    scene = EndingsScene(clients=1)
    scene.put(record(0, incarnation=3))
    scene.say(record(0, incarnation=2))
    assert scene.ended(1.0) == set()
    scene.say(record(0, incarnation=3))
    scene.say(record(0, incarnation=2))
    assert scene.ended(1.1) == {"client0"}


def test_what_a_comparison_misses_ends_without_a_tombstone() -> None:
    scene = EndingsScene(clients=1)
    scene.endings.lost([LostRecord(scene.slot, scene.records[0])])
    assert scene.ended(0.05) == {"client0"}
    assert scene.slot.store.tombstones == {}


def test_many_clients_that_a_living_session_server_has_lost_have_the_grace() -> None:
    scene = EndingsScene(clients=FEW_CLIENTS + 1)
    scene.lose(*scene.records)
    assert scene.ended(GRACE - 0.1) == set()
    assert len(scene.ended(GRACE + LATE)) == FEW_CLIENTS + 1


def test_the_first_of_many_lost_clients_are_put_off_as_long_as_they_have_not_ended() -> None:
    scene = EndingsScene(clients=FEW_CLIENTS + 1)
    scene.answers = False
    scene.lose(scene.records[0])
    scene.until(0.1)
    assert state_of(scene, "client0-0") == "asked"
    scene.lose(*scene.records[1:])
    scene.answers = True
    assert scene.ended(GRACE - 0.1) == set()
    assert len(scene.ended(GRACE + 2 * LATE)) == FEW_CLIENTS + 1


def test_clients_that_have_left_elsewhere_make_this_one_one_of_many() -> None:
    scene = EndingsScene(clients=1)
    scene.tell(SESSION_2, left=tuple(f"other{n}" for n in range(FEW_CLIENTS)))
    scene.until(0.3)
    scene.lose(*scene.records)
    assert scene.ended(GRACE) == set()
    assert scene.ended(0.3 + GRACE + LATE) == {"client0"}


def test_one_client_with_very_many_registrations_is_one_client() -> None:
    scene = EndingsScene(clients=1, services=5000)
    scene.session_dies()
    assert scene.ended(GRACE + LATE) == {"client0"}


def test_what_comes_back_while_registrations_end_in_parts_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending_rounds, "ENDED_AT_ONCE", 2)
    scene = EndingsScene(clients=6)
    scene.session_dies()
    scene.until(GRACE - 0.01)
    scene.answers = False
    scene.outbox.advance(0.3)
    scene.endings.look()
    scene.outbox.advance(0.02)
    (request,) = [request for request in scene.outbox.requests if isinstance(request.message, Confirm)]
    request.answered(Answers([]), None)
    scene.end_turns_until_some_ended(6)
    assert len(scene.left) == 4
    scene.comes_back(0)
    scene.answers = True
    scene.outbox.requests.clear()
    scene.until(scene.now + 1.0)
    assert len(scene.left) == 4, "the others have longer, because one has come back"
    scene.until(scene.now + RETURNING * GRACE)
    assert scene.left == ["client0-0"]


def test_a_client_that_arrives_while_registrations_end_in_parts_keeps_what_is_left_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ending_rounds, "ENDED_AT_ONCE", 2)
    scene = EndingsScene(clients=1, services=6)
    scene.answers = False
    scene.lose(*scene.records)
    scene.outbox.advance(0.02)
    for request in [request for request in scene.outbox.requests if isinstance(request.message, Confirm)]:
        request.answered(Answers([]), None)
    scene.end_turns_until_some_ended(6)
    assert len(scene.left) == 4
    scene.arrive(0)
    scene.until(20.0)
    assert len(scene.left) == 4


def test_a_client_that_leaves_while_its_registrations_end_in_parts_is_gone_with_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ending_rounds, "ENDED_AT_ONCE", 2)
    scene = EndingsScene(clients=1, services=6)
    scene.answers = False
    scene.lose(*scene.records)
    scene.outbox.advance(0.02)
    for request in [request for request in scene.outbox.requests if isinstance(request.message, Confirm)]:
        request.answered(Answers([]), None)
    scene.end_turns_until_some_ended(6)
    scene.say(*scene.records)
    scene.answers = True
    scene.outbox.requests.clear()
    scene.until(5.0)
    assert (scene.left, scene.endings.held) == ([], 0)


# --- a herd ----------------------------------------------------------------------------------------------------------


def test_nothing_of_a_herd_ends_while_it_comes_back_and_the_last_ones_get_three_times_the_grace() -> None:
    scene = EndingsScene(clients=200)
    scene.session_dies()
    for client in range(190):
        scene.outbox.advance(0.1)
        scene.comes_back(client)
        scene.endings.look()
        assert len(scene.left) == 200
    at = scene.now
    assert scene.ended(at + RETURNING * GRACE - 0.1) == set()
    assert scene.ended(at + RETURNING * GRACE + LATE) == {f"client{client}" for client in range(190, 200)}


def test_one_that_arrives_shortly_before_the_grace_is_over_puts_the_others_off() -> None:
    scene = EndingsScene(clients=3)
    scene.session_dies()
    scene.until(GRACE - 0.1)
    scene.arrive(2)
    at = scene.now + RETURNING * GRACE
    assert scene.ended(at - 0.1) == set()
    assert scene.ended(at + LATE) == {"client0", "client1"}


def test_a_herd_that_does_not_come_back_is_held_and_ends_with_the_longest_time() -> None:
    scene = EndingsScene(clients=100)
    scene.session_dies()
    assert scene.ended(HOLD - 0.1) == set()
    assert scene.brake.held.total() == 100
    assert len(scene.ended(HOLD + 2 * LATE)) == 100
    assert scene.endings.counters()["endings_overdue"] == 100
    assert scene.brake.held.total() == 0


def test_what_a_herd_has_left_is_held_for_the_whole_longest_time_after_the_last_one_that_came_back() -> None:
    scene = EndingsScene(clients=100)
    scene.session_dies()
    scene.until(HOLD / 2)
    scene.comes_back(0)
    at = scene.now
    assert scene.ended(at + HOLD - 0.1) == set()
    assert len(scene.ended(at + HOLD + 2 * LATE)) == 99


def test_a_large_number_that_is_a_small_share_ends_with_the_grace() -> None:
    scene = EndingsScene(clients=100)
    scene.put(*[record(client, session=SESSION_2) for client in range(100, 1000)])
    scene.session_dies()
    assert len(scene.ended(GRACE + LATE)) == 100


def test_a_service_that_would_lose_most_of_its_instances_is_held_and_the_others_are_not() -> None:
    scene = EndingsScene(clients=100)
    scene.put(*[record(client, 1, session=SESSION_2) for client in range(1000)])
    scene.put(*[record(client, 2) for client in range(100, 130)])
    scene.session_dies()
    assert scene.ended(GRACE + LATE) == {f"client{client}" for client in range(100, 130)}
    assert scene.brake.held.total() == 100


def test_waves_within_the_window_count_together() -> None:
    scene = EndingsScene(clients=120)
    scene.lose(*scene.records[:60])
    assert len(scene.ended(GRACE + LATE)) == 60
    scene.lose(*scene.records[60:])
    assert scene.ended(2 * GRACE + 2 * LATE) == set()
    assert len(scene.ended(GRACE + RULES.brake_window_seconds + 2 * LATE)) == 60


# --- who arrives -----------------------------------------------------------------------------------------------------


def test_a_client_that_arrives_stays_for_as_long_and_then_has_the_grace_again() -> None:
    scene = EndingsScene(clients=1)
    scene.session_dies()
    scene.until(2.0)
    scene.arrive(0)
    assert scene.ended(30.0) == set()
    scene.arrived(0)
    assert scene.ended(30.0 + RETURNING * GRACE - 0.1) == set()
    assert scene.ended(30.0 + RETURNING * GRACE + LATE) == {"client0"}


def test_what_a_client_that_has_arrived_elsewhere_did_not_send_again_ends() -> None:
    scene = EndingsScene(clients=1, services=2)
    scene.arrive(0)
    scene.lose(*scene.records)
    scene.comes_back(0, 1)
    assert scene.ended(5.0) == set()
    scene.arrived(0)
    assert scene.ended(5.1) == {"client0"}
    assert scene.left == ["client0-1"]


@pytest.mark.parametrize("state", ["waiting", "asked", "braked"])
def test_a_client_that_arrives_in_any_state_stays(state: str) -> None:
    scene = EndingsScene(clients=100)
    scene.session_dies()
    scene.until(1.0)
    if state != "waiting":
        scene.until(GRACE - 0.01)
        scene.answers = state == "braked"
        scene.until(GRACE + 2 * LATE)
    assert state_of(scene, "client0-0") == state
    scene.arrive(*range(100))
    scene.outbox.end_turn()
    assert state_of(scene, "client0-0") == "arriving"
    scene.answers = True
    assert scene.ended(GRACE + HOLD + 20.0) == set()


def test_a_client_arrives_until_the_last_session_process_says_that_it_has_arrived() -> None:
    presence = ClientPresence()
    presence.arrive("b", ["c"])
    presence.arrive("late", ["c"])
    presence.arrived("late", ["c"])
    assert presence.is_arriving("c")
    presence.arrived("b", ["c"])
    assert not presence.is_arriving("c")


def test_nobody_arrives_any_more_at_a_process_that_is_dropped() -> None:
    presence = ClientPresence()
    presence.arrive("a", ["c", "d"])
    presence.arrive("b", ["c"])
    assert presence.drop("a") == ["c", "d"]
    assert (presence.arriving, presence.is_arriving("c"), presence.is_arriving("d")) == (1, True, False)


def test_clients_that_have_left_count_for_two_graces() -> None:
    presence = ClientPresence()
    presence.left("a", 0.0)
    presence.left("b", 1.0)
    presence.left("a", 2.0)
    assert [presence.lately(now, 3.0) for now in (2.0, 6.9, 7.0, 8.0)] == [2, 2, 1, 0]


def test_the_client_of_a_register_id_is_what_stands_before_its_last_dash() -> None:
    assert client_of("a-b-17") == "a-b"
    assert client_of("plain") == "plain"


def test_what_was_sent_again_before_it_was_found_to_be_lost_is_not_lost_and_shows_a_return() -> None:
    scene = EndingsScene(clients=2)
    scene.put(record(1, incarnation=2, session=SESSION_2))
    scene.dies(SESSION_1)
    late = LostRecord(scene.slot, scene.records[1], gone=SESSION_1.process_id)
    assert scene.endings.lost([late]) == 0
    assert scene.ended(RETURNING * GRACE - 0.1) == set()
    assert scene.ended(RETURNING * GRACE + LATE) == {"client0"}


def test_what_has_ended_before_it_was_found_to_be_lost_shows_no_return() -> None:
    scene = EndingsScene(clients=2)
    scene.session_dies()
    gone = LostRecord(scene.slot, record(7), gone=SESSION_1.process_id)
    assert scene.endings.lost([gone]) == 0
    assert scene.ended(GRACE + LATE) == {"client0", "client1"}


def test_a_slot_that_moves_while_a_session_process_comes_back_leaves_nothing_behind() -> None:
    scene = EndingsScene(clients=5)
    scene.session_dies()
    scene.outbox.end_turn()
    scene.table("data-2", epoch=2)
    scene.endings.table_changed()
    scene.links_again(SESSION_1)
    scene.outbox.turn_steps = 1
    for _ in range(30):
        scene.outbox.end_one_turn()
    assert scene.endings.held == 0


def test_registrations_that_have_ended_put_nothing_off() -> None:
    scene = EndingsScene(clients=6)
    scene.session_dies()
    scene.until(0.5)
    for client in range(3):
        scene.slot.store.purge("s0", f"client{client}-0")
    assert scene.ended(GRACE + LATE) == {"client3", "client4", "client5"}
    assert scene.endings.held == 0


# --- an order freezes ends -------------------------------------------------------------------------------------------


def test_the_more_are_held_the_later_they_are_looked_at_again_unless_the_rules_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ending_rounds, "BRAKED_PER_SECOND", 10)
    scene = EndingsScene(clients=200)
    scene.session_dies()
    scene.until(GRACE + LATE)
    assert len(scene.left) == 200
    scene.brake.rules = rules = RULES.model_copy(update={"brake_share": 1.1})
    scene.until(GRACE + 15.0)
    assert len(scene.left) == 200, "they are looked at every 20 seconds"
    scene.endings.rules_changed(rules)
    scene.until(GRACE + 15.0 + LATE)
    assert scene.left == []


def test_after_a_thaw_the_brake_has_the_whole_of_its_longest_time_again() -> None:
    scene = EndingsScene(clients=100)
    scene.freeze(True)
    scene.session_dies()
    assert scene.ended(500.0) == set()
    scene.freeze(False)
    assert scene.ended(500.0 + HOLD - 0.1) == set()
    assert len(scene.ended(500.0 + HOLD + 2 * LATE)) == 100


def test_after_a_thaw_few_end_at_once() -> None:
    scene = EndingsScene(clients=3)
    scene.freeze(True)
    scene.session_dies()
    assert scene.ended(500.0) == set()
    scene.freeze(False)
    assert len(scene.ended(500.0 + LATE)) == 3


def test_a_freeze_that_comes_while_registrations_end_in_parts_keeps_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending_rounds, "ENDED_AT_ONCE", 2)
    scene = EndingsScene(clients=6)
    scene.answers = False
    scene.lose(*scene.records)
    scene.outbox.advance(0.02)
    for request in [request for request in scene.outbox.requests if isinstance(request.message, Confirm)]:
        request.answered(Answers([]), None)
    scene.end_turns_until_some_ended(6)
    assert len(scene.left) == 4
    scene.freeze(True)
    scene.until(50.0)
    assert len(scene.left) == 4


def test_who_says_so_leaves_although_ends_are_frozen() -> None:
    scene = EndingsScene(clients=1)
    scene.freeze(True)
    scene.say(*scene.records)
    assert scene.ended(0.1) == {"client0"}


# --- the marks -------------------------------------------------------------------------------------------------------


def asked(scene: EndingsScene) -> list[str]:
    return [str(request.peer) for request in scene.outbox.requests if isinstance(request.message, Confirm)]


def departing(says_so: bool = True, connected: bool = True) -> EndingsScene:
    """A client has left, or is lost, and nobody answers yet."""
    scene = EndingsScene(clients=1)
    scene.answers = False
    if not connected:
        for peer in (SESSION_1, SESSION_2):
            scene.sessions.closed(peer)
    (scene.say if says_so else scene.lose)(*scene.records)
    return scene


def answer(scene: EndingsScene) -> None:
    scene.outbox.answer(Answers([]), kind=Confirm)


def test_a_session_server_that_goes_unanswered_counts_although_the_last_answer_comes_before_the_next_look() -> None:
    scene = departing(says_so=False)
    scene.outbox.advance(GATHER_SECONDS)
    unanswered = next(request for request in scene.outbox.requests if request.peer is SESSION_2)
    scene.outbox.requests.remove(unanswered)
    unanswered.answered(None, ConnectionLost("it is gone"))
    scene.dies(SESSION_2)
    answer(scene)
    scene.outbox.end_turn()
    assert scene.left == ["client0-0"], "its client may have tried to connect just there"


def test_a_registration_ends_once_every_session_server_has_answered() -> None:
    scene = departing()
    assert scene.slot.leaving == 1
    scene.outbox.advance(GATHER_SECONDS)
    assert asked(scene) == ["session-1", "session-2"]
    assert scene.outbox.requests[0].message == Confirm([SlotEpoch(0, 1)])
    answer(scene)
    assert scene.left
    answer(scene)
    assert (scene.left, scene.slot.leaving) == ([], 0)


@pytest.mark.parametrize("says_so", [True, False])
def test_a_registration_that_was_sent_again_meanwhile_stays(says_so: bool) -> None:
    scene = departing(says_so)
    scene.outbox.advance(GATHER_SECONDS)
    scene.comes_back(0)
    answer(scene)
    answer(scene)
    scene.until(5.0)
    assert scene.left == ["client0-0"]


def test_a_registration_that_arrived_with_the_last_answer_is_read_before_the_round_ends() -> None:
    scene = departing()
    scene.outbox.advance(GATHER_SECONDS)
    answer(scene)
    was_there: list[bool] = []

    def read_the_rest() -> None:
        was_there.append(bool(scene.left))
        scene.comes_back(0)

    scene.outbox.at_turns_end(read_the_rest)
    answer(scene)
    assert was_there == [True]
    assert scene.left


def test_a_session_server_that_does_not_answer_is_asked_again_and_not_for_ever() -> None:
    scene = departing()
    scene.outbox.advance(GATHER_SECONDS)
    answer(scene)
    scene.outbox.answer(None, TimeoutError(), kind=Confirm)
    scene.outbox.advance(AGAIN_SECONDS)
    assert asked(scene) == ["session-2"]
    assert scene.left
    scene.outbox.advance(3.0)
    assert scene.left == []


@pytest.mark.parametrize("says_so", [True, False])
def test_a_mark_asks_for_those_who_come_late_only_where_a_client_was_lost(says_so: bool) -> None:
    scene = departing(says_so)
    scene.outbox.advance(GATHER_SECONDS)
    marks = [request.message for request in scene.outbox.requests if isinstance(request.message, Confirm)]
    assert marks == [Confirm([SlotEpoch(0, 1)], arrivals=not says_so)] * 2


def test_a_mark_for_leases_asks_for_nobody_who_comes_late() -> None:
    scene = EndingsScene()
    scene.answers = False
    a_lease(scene, "l", 1.0)
    scene.until(2.0)
    marks = [request.message for request in scene.outbox.requests if isinstance(request.message, Confirm)]
    assert marks == [Confirm([SlotEpoch(0, 1)], arrivals=False)] * 2


@pytest.mark.parametrize("turns", range(14))
def test_what_is_sent_again_at_any_time_while_a_round_ends_in_parts_stays(turns: int) -> None:
    scene = EndingsScene(clients=5)
    scene.answers = False
    scene.lose(*scene.records)
    scene.outbox.advance(GATHER_SECONDS)
    scene.outbox.turn_steps = 1
    for request in [request for request in scene.outbox.requests if isinstance(request.message, Confirm)]:
        request.answered(Answers([]), None)
    for _ in range(turns):
        scene.outbox.end_one_turn()
    back = [one for one in range(5) if f"client{one}-0" in scene.left]
    for client in back:
        scene.comes_back(client)
    scene.outbox.requests.clear()
    scene.answers = True
    scene.outbox.turn_steps = 1_000
    scene.until(30.0)
    assert len(scene.left) == len(back)
    assert scene.endings.held == 0


def test_where_a_session_server_did_not_answer_a_lost_client_has_the_grace_once_more() -> None:
    scene = departing(says_so=False)
    scene.outbox.advance(GATHER_SECONDS)
    answer(scene)
    scene.dies(SESSION_2)
    scene.outbox.advance(AGAIN_SECONDS)
    assert state_of(scene, "client0-0") == "waiting"
    scene.answers = True
    scene.until(scene.now + GRACE - 0.2)
    assert scene.left
    scene.until(scene.now + 2 * LATE)
    assert scene.left == []


def test_what_is_sent_again_during_a_round_that_is_not_complete_is_kept_track_of_no_more() -> None:
    scene = departing(says_so=False)
    scene.outbox.advance(GATHER_SECONDS)
    answer(scene)
    scene.put(record(0, incarnation=2))
    scene.dies(SESSION_2)
    scene.outbox.advance(AGAIN_SECONDS)
    assert (scene.endings.held, scene.left) == (0, ["client0-0"])


def test_a_member_without_a_connection_is_waited_for_until_it_leaves_the_view() -> None:
    scene = departing(connected=False)
    scene.outbox.advance(1.0)
    assert scene.left
    scene.sessions.view_changed([])
    scene.outbox.advance(AGAIN_SECONDS)
    assert scene.left == []


def old_view(scene: EndingsScene) -> None:
    """The meta leader has confirmed nothing for longer than the view counts as current."""
    scene.sessions._current_seconds = 1.5
    scene.sessions.confirmed_at = scene.outbox.now() - 2.0


def test_lost_registrations_stay_until_the_view_is_current_and_a_new_member_has_answered_too() -> None:
    scene = departing(says_so=False)
    old_view(scene)
    scene.outbox.advance(GATHER_SECONDS)
    answer(scene)
    answer(scene)
    scene.outbox.advance(AGAIN_SECONDS)
    assert scene.left
    joined = a_peer("session-3", Role.SESSION)
    scene.view(SESSION_1, SESSION_2, joined)
    scene.sessions.confirmed_at = scene.outbox.now()
    scene.sessions.opened(joined)
    scene.outbox.advance(AGAIN_SECONDS)
    assert scene.left
    assert asked(scene) == ["session-3"]
    answer(scene)
    assert scene.left == []


def test_lost_registrations_end_by_an_old_view_after_the_grace_and_said_ones_do_not_wait() -> None:
    for says_so in (True, False):
        scene = departing(says_so)
        old_view(scene)
        scene.outbox.advance(GATHER_SECONDS)
        answer(scene)
        answer(scene)
        assert bool(scene.left) is not says_so
        scene.outbox.advance(2.9)
        assert bool(scene.left) is not says_so
        scene.outbox.advance(0.2)
        assert scene.left == []


def test_what_is_due_during_a_round_gets_its_own_round() -> None:
    scene = departing()
    scene.outbox.advance(GATHER_SECONDS)
    scene.put(record("late"))
    scene.lose(record("late"))
    answer(scene)
    answer(scene)
    assert scene.left == ["late-0"]
    assert asked(scene) == ["session-1", "session-2"]
    answer(scene)
    answer(scene)
    assert scene.left == []


def test_what_is_said_again_because_its_message_was_repeated_is_one_end() -> None:
    scene = departing()
    scene.outbox.advance(GATHER_SECONDS)
    assert state_of(scene, "client0-0") == "asked"
    scene.say(*scene.records)
    assert scene.slot.leaving == 1
    answer(scene)
    answer(scene)
    assert scene.left == [], "the round that had begun"
    assert scene.reasons == {}, "who leaves gives no reason"
    scene.answers = True
    assert scene.ended(0.1) == {"client0"}
    assert scene.slot.leaving == 0


def test_what_is_stored_once_more_as_it_was_is_lost_still() -> None:
    scene = departing(says_so=False)
    scene.put(*scene.records)
    scene.answers = True
    assert scene.ended(0.1) == {"client0"}


def test_who_leaves_and_comes_back_elsewhere_within_the_round_may_be_lost_again() -> None:
    scene = departing()
    scene.comes_back(0)
    assert scene.slot.leaving == 0
    assert scene.lose(record(0, incarnation=2, session=SESSION_2)) == 1
    scene.answers = True
    assert scene.ended(0.1) == {"client0"}


def test_who_says_so_after_it_was_lost_leaves_at_once() -> None:
    scene = EndingsScene(clients=9)
    scene.lose(*scene.records)
    scene.say(scene.records[0])
    assert scene.endings.held == 9
    scene.arrive(0)
    assert scene.ended(0.1) == {"client0"}, "its client arrives elsewhere: it has said there what it has there"
    assert scene.endings.held == 8


def test_a_data_server_that_no_session_server_is_linked_to_ends_nothing() -> None:
    scene = EndingsScene(clients=1)
    for peer in (SESSION_1, SESSION_2):
        scene.outbox.silence[peer] = LINK_SILENCE_SECONDS
    scene.endings.lost([LostRecord(scene.slot, scene.records[0])])
    lease = a_lease(scene, "l", 1.0)
    assert scene.ended(60.0) == set()
    del scene.outbox.silence[SESSION_2]
    assert scene.ended(60.0 + GRACE - LATE) == set()
    assert scene.ended(60.0 + GRACE + LATE) == {"client0", client_of(lease.register_id)}


# --- slots that move -------------------------------------------------------------------------------------------------


def test_what_may_end_in_a_slot_that_has_moved_concerns_its_next_leader() -> None:
    scene = EndingsScene(clients=3)
    scene.session_dies()
    scene.until(1.0)
    scene.arrive(1)
    scene.say(scene.records[2])
    former = scene.slot
    scene.table("data-2", epoch=2)
    scene.endings.table_changed()
    scene.outbox.end_turn()
    assert (scene.endings.held, former.leaving) == (0, 0)
    scene.until(30.0)
    assert former.store.size == 3


def test_what_a_slot_held_before_it_moved_does_not_replace_what_it_holds_since_it_is_back() -> None:
    scene = EndingsScene(clients=1)
    former = LostRecord(scene.slot, scene.records[0])
    scene.table("data-2", epoch=2)
    scene.table("data-1", epoch=3)
    scene.endings.table_changed()
    scene.slot.serve()
    scene.put(*scene.records)
    assert scene.endings.lost([former]) == 0
    assert scene.lose(*scene.records) == 1
    assert scene.ended(0.1) == {"client0"}


def test_a_slot_that_has_moved_takes_nothing_of_the_others_with_it() -> None:
    scene = EndingsScene(clients=4, slots=2)
    scene.put(*[record(client, 1) for client in range(2, 6)], slot=1)
    scene.session_dies()
    scene.until(0.5)
    assert scene.endings.held == 8
    scene.slots.apply(SlotTable(2, (Slot(0, "data-1", 1, ()), Slot(1, "data-2", 2, ()))))
    scene.endings.table_changed()
    scene.outbox.end_turn()
    assert scene.endings.held == 4
    assert scene.ended(GRACE + LATE) == {f"client{client}" for client in range(4)}


def test_nothing_but_what_was_said_ends_before_its_slot_serves() -> None:
    scene = EndingsScene(clients=3)
    scene.slot.serving = False
    scene.lose(scene.records[0])
    scene.say(scene.records[1])
    scene.session_dies()
    lease = a_lease(scene, "l", 1.0)
    assert scene.ended(20.0) == {"client1"}
    scene.slot.serve()
    scene.endings.slot_serves(scene.slot)
    assert scene.ended(20.05) == {"client0", "client2", client_of(lease.register_id)}


def test_what_is_lost_in_a_slot_has_the_grace_although_its_slot_serves_before() -> None:
    scene = EndingsScene(clients=2)
    scene.slot.serving = False
    scene.session_dies()
    scene.until(1.0)
    scene.slot.serve()
    scene.endings.slot_serves(scene.slot)
    assert scene.ended(GRACE - 0.1) == set()
    assert scene.ended(GRACE + LATE) == {"client0", "client1"}


@pytest.mark.parametrize("kind", ["clients", "leases"])
def test_many_that_waited_for_their_slot_to_serve_are_held_from_then_on(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    scene = EndingsScene(clients=100 if kind == "clients" else 0)
    scene.slot.serving = False
    if kind == "clients":
        scene.lose(*scene.records)
    else:
        leases(scene, 100)
    scene.until(100.0)
    scene.slot.serve()
    scene.endings.slot_serves(scene.slot)
    scene.until(100.0 + HOLD - LATE)
    assert len(scene.left) == 100
    assert "ALARM: the ends of 100 registrations are held back" in caplog.text
    scene.until(100.0 + HOLD + 2 * LATE)
    assert scene.left == []


# --- leases ----------------------------------------------------------------------------------------------------------


def a_lease(scene: EndingsScene, lease_id: str, ttl: float, service: str = "leased") -> HeldLease:
    one = lease_record(lease_id, service, scene.slot.next_version(), round(1000 * ttl), "", (b"x",))
    scene.put(one)
    lease = HeldLease(scene.slot, one, scene.outbox.attended() + ttl)
    scene.endings.watch(lease)
    return lease


def leases(scene: EndingsScene, count: int, ttl: float = 10.0, service: str = "leased") -> list[HeldLease]:
    return [a_lease(scene, f"l{number}", ttl, service) for number in range(count)]


def test_a_lease_ends_with_its_time_and_leaves_a_tombstone() -> None:
    scene = EndingsScene()
    a_lease(scene, "l", 10.0)
    scene.until(9.9)
    assert len(scene.left) == 1
    scene.until(10.0 + LATE)
    assert (scene.left, scene.endings.rounds.expired, len(scene.slot.store.tombstones)) == ([], 1, 1)


def test_a_lease_that_nobody_confirms_waits_and_is_not_held_by_the_brake() -> None:
    scene = EndingsScene()
    a_lease(scene, "l", 1.0)
    scene.confirms = False
    scene.until(30.0)
    assert (len(scene.left), scene.endings.counters()["leases_held"]) == (1, 0)
    scene.confirms = True
    scene.until(30.0 + LATE)
    assert scene.left == []


@pytest.mark.parametrize("state", ["asked", "braked"])
def test_a_lease_that_is_renewed_when_its_time_is_over_lives_on(state: str) -> None:
    scene = EndingsScene()
    lease = a_lease(scene, "l", 1.0)
    scene.answers, scene.confirms = state == "braked", False
    scene.until(2.0)
    assert lease.state.value == state
    lease.until += 11.0
    scene.endings.put_off(lease)
    scene.answers = scene.confirms = True
    scene.until(11.9)
    assert len(scene.left) == 1
    scene.until(12.0 + LATE)
    assert scene.left == []


def test_a_lease_that_is_registered_again_with_a_shorter_time_ends_then() -> None:
    scene = EndingsScene()
    lease = a_lease(scene, "l", 100.0)
    lease.until -= 95.0
    scene.endings.put_off(lease)
    scene.until(5.0 + LATE)
    assert scene.left == []


def test_a_large_share_of_leases_is_held_and_ends_with_the_longest_time() -> None:
    scene = EndingsScene()
    leases(scene, 100)
    scene.until(10.0 + HOLD - 0.1)
    assert len(scene.left) == 100
    assert scene.endings.counters()["leases_held"] == 100
    scene.until(10.0 + HOLD + 2 * LATE)
    assert (scene.left, scene.endings.counters()["leases_overdue"]) == ([], 100)


def test_leases_and_clients_count_together() -> None:
    scene = EndingsScene(clients=40)
    leases(scene, 40, GRACE, service="s0")
    scene.session_dies()
    assert scene.ended(GRACE + LATE) == set()
    assert scene.brake.held.total() == 80


def test_of_few_leases_nobody_need_be_heard_and_of_many_somebody_must() -> None:
    few, many = EndingsScene(), EndingsScene()
    leases(few, RULES.brake_few)
    leases(many, RULES.brake_few + 1)
    a_lease(many, "other", 1.0, "s")
    for scene in (few, many):
        scene.heard = False
        scene.until(10.0 + LATE)
    assert (len(few.left), len(many.left)) == (0, RULES.brake_few + 2)


GRACE = 3.0


def test_a_return_counts_no_more_once_everything_of_that_absence_has_ended() -> None:
    scene = EndingsScene(clients=2)
    scene.session_dies()
    scene.until(1.0)
    scene.comes_back(0)
    assert scene.ended(15.0) == {"client1"}
    scene.links_again(SESSION_1)
    scene.view(SESSION_1, SESSION_2)
    scene.put(record("again"))
    scene.until(20.0)
    scene.session_dies()
    assert scene.ended(20.0 + GRACE + 1.0) == {"again"}, "nobody has come back since it died once more"
