"""The core of a session server, alone: its clients come, are silent, and go."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace
from slotreeve.errors import FrameTooLarge
from slotreeve.model.nodes import Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.client_messages import (
    GivenUp,
    Moved,
    Pong,
    Publish,
    ReplayEnded,
    Scope,
    Sessions,
    Subscribe,
    Unsubscribe,
    Want,
    Withdraw,
)
from slotreeve_protocol.general_messages import Ping
from slotreeve_protocol.meta_messages import (
    ConfigEntry,
    Configs,
    GetConfigs,
    LeaseGranted,
    UnwatchConfig,
    View,
    WatchConfigs,
)
from slotreeve_servers.node.outbox import MOST_COMPLAINTS
from slotreeve_servers.session.clients.arrivals import AT_ONCE as ARRIVING_AT_ONCE
from slotreeve_servers.session.clients.leases import HERD_LEASES, PINGS_PER_SECOND, RENEWALS
from slotreeve_servers.session.core import (
    SessionCore,
    sweep_seconds,
)
from slotreeve_servers.session.settings import SessionSettings

from tests.servers.core_scenes import META, SERVICE, OneSlot, SessionScene, node, record
from tests.servers.recording_outbox import RecordingOutbox, a_peer, deliver


def test_a_client_learns_the_session_servers_now_and_at_each_change() -> None:
    scene = SessionScene()
    peer = scene.client()
    view = View(1, 2, SlotTable(1, (Slot(0, "data-1", 1, ()),)), [node("data-1")], [node("session-1")])
    scene.core.membership.handlers.messages[View](META, view)
    scene.outbox.end_turn()
    assert scene.outbox.messages(Sessions, peer) == [
        Sessions(["session-1:1", "session-2:1"]),
        Sessions(["session-1:1"]),
    ]


def test_a_change_of_the_session_servers_does_not_let_in_the_clients_that_wait() -> None:
    scene = SessionScene()
    peers = [scene.client(f"client-{number}") for number in range(ARRIVING_AT_ONCE + 1)]
    view = View(1, 2, SlotTable(1, (Slot(0, "data-1", 1, ()),)), [node("data-1")], [node("session-1")])
    scene.core.membership.handlers.messages[View](META, view)
    assert scene.outbox.messages(Sessions, peers[-1]) == []
    for peer in peers[: ARRIVING_AT_ONCE // 2]:
        scene.core.closed(peer, "gone")
    scene.outbox.end_turn()
    assert scene.outbox.messages(Sessions, peers[-1]) == [Sessions(["session-1:1"])]


def test_a_session_server_that_knows_no_table_takes_no_client() -> None:
    outbox = RecordingOutbox()
    core = SessionCore(outbox, node("session-1"), SessionSettings(), 1.0, OneSlot())
    peer = a_peer("client", Role.CLIENT)
    core.opened(peer)
    assert [effect.peer for effect in outbox.take("closed")] == [peer]
    assert core.clients == {}


def test_a_client_that_does_not_return_within_the_linger_departs() -> None:
    scene = SessionScene(linger_seconds=0.3)
    peer = scene.client()
    scene.publish(peer, record())
    scene.stored()
    scene.core.closed(peer, "cut")
    scene.outbox.advance(0.2)
    assert scene.lost() == []
    scene.outbox.advance(0.2)
    assert scene.lost() == ["r1"]
    assert scene.gone() == []


def test_a_client_that_needs_no_pause_any_more_departs_after_the_linger() -> None:
    scene = SessionScene(linger_seconds=0.3, client_lease_seconds=10.0)
    peer = scene.client()
    scene.publish(peer, record())
    scene.stored()
    for pause_seconds in (8.0, 0.0):
        deliver(scene.outbox, scene.core.handlers, peer, Ping(pause_seconds=pause_seconds))
    scene.core.closed(peer, "cut")
    scene.outbox.advance(0.4)
    assert scene.lost() == ["r1"]


def test_a_client_that_returned_within_the_linger_keeps_its_registrations() -> None:
    scene = SessionScene(linger_seconds=0.3)
    peer = scene.client()
    scene.publish(peer, record())
    scene.stored()
    scene.core.closed(peer, "cut")
    scene.publish(scene.client("again"), record(incarnation=2))
    scene.stored()
    scene.outbox.advance(1.0)
    assert scene.lost() == []


def test_what_a_client_does_not_send_again_when_it_is_back_has_ended_however_long_the_linger() -> None:
    scene = SessionScene(linger_seconds=60.0)
    first = scene.client()
    scene.publish(first, record(), Publisher("r2", SERVICE, 1, 1, "session-1@1", "", (b"x",)))
    scene.stored()
    scene.core.closed(first, "cut")
    scene.outbox.advance(1.0)
    again = scene.client()
    scene.publish(again, record(incarnation=2))
    scene.stored()
    assert scene.lost() == []
    deliver(scene.outbox, scene.core.handlers, again, ReplayEnded())
    scene.outbox.end_turn()
    assert scene.lost() == ["r2"]


@pytest.mark.parametrize("is_left", [True, False], ids=["one_is_left", "nothing_is_left"])
def test_what_a_client_that_went_back_to_its_connection_does_not_send_again_has_ended(is_left: bool) -> None:
    scene = SessionScene()
    peer = scene.client()
    scene.publish(peer, record(), Publisher("r2", SERVICE, 1, 1, "session-1@1", "", (b"xy",)))
    scene.stored()
    deliver(scene.outbox, scene.core.handlers, peer, ReplayEnded(1))
    scene.outbox.end_turn()
    assert scene.lost() == []
    if is_left:
        scene.publish(peer, record(incarnation=3))
        scene.stored()
    deliver(scene.outbox, scene.core.handlers, peer, ReplayEnded(3))
    scene.outbox.end_turn()
    assert scene.lost() == (["r2"] if is_left else ["r1", "r2"])
    client = scene.core.clients[peer]
    assert list(client.records) == ["r1"] * is_left
    assert client.weight == sum(each.weight for each in client.records.values())


def test_what_an_earlier_release_does_not_send_again_over_its_connection_stays() -> None:
    scene = SessionScene()
    peer = scene.client()
    scene.publish(peer, record())
    scene.stored()
    deliver(scene.outbox, scene.core.handlers, peer, ReplayEnded())
    scene.outbox.end_turn()
    assert scene.lost() == []
    assert list(scene.core.clients[peer].records) == ["r1"]


def test_what_was_published_before_a_client_gave_up_outlives_a_short_connection_after_it() -> None:
    scene = SessionScene(linger_seconds=0.3, client_lease_seconds=9.0)
    first = scene.client()
    scene.publish(first, record(), Publisher("r2", SERVICE, 1, 1, "session-1@1", "", (b"x",)))
    scene.stored()
    deliver(scene.outbox, scene.core.handlers, first, ReplayEnded())
    deliver(scene.outbox, scene.core.handlers, first, GivenUp())
    scene.core.closed(first, "nothing arrived for 3 s")
    second = scene.client()
    scene.publish(second, record(incarnation=2))
    scene.stored()
    scene.core.closed(second, "cut")
    scene.outbox.advance(2.0)
    assert scene.lost() == ["r1"]
    scene.stored()
    scene.outbox.advance(8.0)
    assert scene.lost() == ["r2"]


def test_the_end_of_a_replay_over_an_older_connection_ends_nothing_of_a_newer_one() -> None:
    scene = SessionScene(linger_seconds=60.0)
    older = scene.client()
    scene.outbox.advance(1.0)
    newer = scene.client()
    scene.publish(newer, record(incarnation=2))
    scene.stored()
    scene.core.closed(newer, "cut")
    deliver(scene.outbox, scene.core.handlers, older, ReplayEnded())
    scene.outbox.end_turn()
    assert scene.lost() == []


def test_a_client_that_gave_up_has_the_time_of_a_lease_to_find_another_server() -> None:
    scene = SessionScene(linger_seconds=0.3, client_lease_seconds=2.0)
    peer = scene.client()
    scene.publish(peer, record())
    scene.stored()
    deliver(scene.outbox, scene.core.handlers, peer, GivenUp())
    scene.core.closed(peer, "nothing arrived for 3 s")
    scene.outbox.advance(1.9)
    assert scene.lost() == []
    scene.outbox.advance(0.2)
    assert scene.lost() == ["r1"]


def test_a_client_that_withdraws_departs_at_once() -> None:
    scene = SessionScene()
    peer = scene.client()
    scene.publish(peer, record())
    deliver(scene.outbox, scene.core.handlers, peer, Withdraw())
    assert scene.gone() == ["r1"]


def test_a_client_that_has_moved_leaves_nothing_to_report() -> None:
    scene = SessionScene()
    peer = scene.client()
    scene.publish(peer, record())
    scene.stored()  # a loss goes out after what was submitted before it
    deliver(scene.outbox, scene.core.handlers, peer, Moved())
    scene.core.closed(peer, "moved")
    scene.outbox.advance(60.0)
    assert (scene.gone(), scene.lost()) == ([], [])


def test_a_silent_client_is_ended_with_its_lease_and_whatever_arrives_renews_it() -> None:
    scene = SessionScene(client_lease_seconds=2.0)
    silent, lively = scene.client("silent"), scene.client("lively")
    scene.outbox.silence = {silent: 2.0, lively: 0.9}
    scene.outbox.advance(2.0)
    assert scene.outbox.take("closed") == []
    scene.outbox.silence[silent] = 2.1
    scene.outbox.advance(0.25)
    assert {effect.peer for effect in scene.outbox.take("closed")} == {silent}
    assert sweep_seconds(SessionSettings(client_lease_seconds=0.8)) == pytest.approx(0.1)


def test_a_client_that_was_asked_for_fewer_pings_has_its_whole_lease_after_the_next_one_was_due() -> None:
    scene = SessionScene(client_lease_seconds=3.0)
    silent = scene.client("silent")
    for number in range(3 * PINGS_PER_SECOND):
        scene.core.opened(a_peer(f"client-{number}", Role.CLIENT))
    reply = deliver(scene.outbox, scene.core.handlers, silent, Ping())
    assert isinstance(reply, Pong)
    assert 1.0 <= reply.seconds <= HERD_LEASES * 3.0
    scene.outbox.silence = {silent: reply.seconds + 2.5}
    scene.outbox.advance(reply.seconds + 2.5)
    assert scene.outbox.take("closed") == []
    scene.outbox.silence = {silent: reply.seconds + 3.1}
    scene.outbox.advance(0.6)
    assert {effect.peer for effect in scene.outbox.take("closed")} == {silent}


def test_a_silent_client_is_ended_in_time_by_a_server_that_was_suspended_before_it_came() -> None:
    scene = SessionScene(client_lease_seconds=2.0)
    scene.outbox.unattended = 60.0
    peer = scene.client()
    scene.outbox.silence = {peer: 3.0}
    scene.outbox.advance(3.0)
    assert [effect.peer for effect in scene.outbox.take("closed")] == [peer]


def test_the_lease_of_a_client_ends_with_its_connection() -> None:
    scene = SessionScene(client_lease_seconds=2.0, linger_seconds=60.0)
    peer = scene.client()
    scene.publish(peer, record())
    scene.core.closed(peer, "cut")
    scene.outbox.silence = {peer: math.inf}  # so says the shell of a peer that has gone
    scene.outbox.advance(10.0)
    assert (scene.outbox.take("closed"), scene.lost()) == ([], [])


def test_while_clients_wait_to_be_let_in_each_pings_as_seldom_as_its_lease_allows() -> None:
    scene = SessionScene(client_lease_seconds=6.0)
    peers = [scene.client(f"client-{number}") for number in range(ARRIVING_AT_ONCE)]
    few = len(peers) / PINGS_PER_SECOND
    assert deliver(scene.outbox, scene.core.handlers, peers[0], Ping()) == Pong(few)
    scene.client("one more")
    assert deliver(scene.outbox, scene.core.handlers, peers[0], Ping()) == Pong(6.0 / RENEWALS)


def test_what_comes_from_a_connection_that_was_refused_is_ignored() -> None:
    scene = SessionScene()
    scene.core.redirect_clients()
    peer = scene.client()
    assert scene.core.clients == {}
    for message in (
        Publish(1, [record()]),
        Withdraw(),
        Subscribe([Want(SERVICE, Scope.ZONE)]),
        Unsubscribe(SERVICE, Scope.ZONE),
        WatchConfigs({"k": 0}),
        UnwatchConfig("k"),
    ):
        deliver(scene.outbox, scene.core.handlers, peer, message)
    scene.core.closed(peer, "refused")
    assert scene.outbox.requests == []


def test_subscriptions_end_with_the_connection() -> None:
    scene = SessionScene()
    peer = scene.client()
    deliver(scene.outbox, scene.core.handlers, peer, Subscribe([Want(SERVICE, Scope.DATA_CENTER)]))
    assert list(scene.core.interests.services) == [SERVICE]
    deliver(scene.outbox, scene.core.handlers, peer, Unsubscribe(SERVICE, Scope.ZONE))
    assert list(scene.core.interests.services) == [SERVICE]
    scene.core.closed(peer, "cut")
    scene.outbox.end_turn()
    assert scene.core.interests.services == {}


def test_a_subscription_to_a_bare_name_is_ignored() -> None:
    scene = SessionScene()
    wants = [Want("bare", Scope.ZONE), Want(SERVICE, Scope.ZONE)]
    deliver(scene.outbox, scene.core.handlers, scene.client("b"), Subscribe(wants))
    assert list(scene.core.interests.services) == [SERVICE]


def test_that_the_configuration_cannot_be_read_is_told_some_times(caplog: pytest.LogCaptureFixture) -> None:
    scene, leader = SessionScene(), a_peer("meta-1", Role.META)
    for _ in range(50):
        scene.core.lease_granted(leader, LeaseGranted(1, 5.0, None, configs=1))
        scene.outbox.answer(None, FrameTooLarge("a frame of 37502017 bytes exceeds max_frame_bytes"), GetConfigs)
    told = [record.getMessage() for record in caplog.records]
    assert told[0].endswith("cannot be read from meta-1: a frame of 37502017 bytes exceeds max_frame_bytes")
    assert len(told) == MOST_COMPLAINTS


def test_configuration_of_another_era_counts_whatever_its_versions_and_that_of_a_former_one_no_more() -> None:
    scene = SessionScene()
    peer, first = scene.client(), scene.core.membership.view
    leader = a_peer("meta-1", Role.META)
    deliver(scene.outbox, scene.core.handlers, peer, WatchConfigs({"kept": 0, "gone": 0}))
    scene.core.lease_granted(leader, LeaseGranted(1, 5.0, None, configs=1))
    scene.outbox.answer(Configs([ConfigEntry("kept", b"9", 9), ConfigEntry("gone", b"8", 8)]), kind=GetConfigs)
    scene.outbox.take()
    scene.core.lease_granted(leader, LeaseGranted(1, 5.0, None, configs=2))
    scene.core.view_changed(replace(first, era="one"), replace(first, era="two"))
    scene.core.membership.view = replace(first, era="two")
    scene.outbox.answer(Configs([ConfigEntry("kept", b"10", 10)]), kind=GetConfigs)
    scene.core.lease_granted(leader, LeaseGranted(1, 5.0, None, configs=3))
    scene.outbox.answer(Configs([ConfigEntry("kept", b"1", 1)]), kind=GetConfigs)
    scene.outbox.end_turn()
    assert scene.outbox.messages(Configs, peer) == [
        Configs([ConfigEntry("kept", b"1", 1)]),
        Configs([ConfigEntry("gone", None, 0)]),
    ]
    assert scene.outbox.messages(Sessions, peer) == [Sessions(["session-1:1", "session-2:1"], "two")]
