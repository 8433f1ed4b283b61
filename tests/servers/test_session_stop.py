"""A session server that stops, is full, or is banned; and what it passes on for its clients."""

from __future__ import annotations

import pytest
from slotreeve.model.nodes import Role
from slotreeve_protocol.client_messages import (
    Get,
    ListServices,
    Pong,
    Redirect,
    Rejected,
    Scope,
    Subscribe,
    Want,
)
from slotreeve_protocol.general_messages import Ping
from slotreeve_protocol.meta_messages import (
    ConfigEntry,
    Configs,
    GetConfigs,
    LeaseGranted,
    WatchConfigs,
)
from slotreeve_protocol.orders import ORDERS_KEY, Orders
from slotreeve_protocol.slot_messages import (
    DeclareInterest,
    Fetch,
)
from slotreeve_servers.session.clients.leases import HERD_LEASES, PINGS_PER_SECOND
from slotreeve_servers.session.clients.places import PLACE_SECONDS
from slotreeve_servers.session.core import (
    LEAVING_AT_ONCE,
)

from tests.servers.core_scenes import META, SERVICE, SessionScene, record
from tests.servers.recording_outbox import a_peer, deliver


def test_redirected_clients_learn_of_the_other_session_servers() -> None:
    scene = SessionScene()
    peer = scene.client()
    scene.core.redirect_clients()
    scene.outbox.end_turn()
    assert scene.outbox.messages(Redirect, peer) == [Redirect(["session-2:1"])]


def test_a_server_that_stops_sends_the_next_clients_away_when_others_have_left() -> None:
    scene = SessionScene()
    peers = [scene.client(f"client-{number}") for number in range(LEAVING_AT_ONCE + 2)]
    scene.core.redirect_clients()
    scene.outbox.end_turn()
    assert len(scene.outbox.messages(Redirect)) == LEAVING_AT_ONCE
    scene.core.closed(peers[0], "moved")
    scene.outbox.end_turn()
    assert len(scene.outbox.messages(Redirect)) == LEAVING_AT_ONCE
    for peer in peers[1 : LEAVING_AT_ONCE // 2]:
        scene.core.closed(peer, "moved")
    scene.outbox.end_turn()
    assert len(scene.outbox.messages(Redirect)) == LEAVING_AT_ONCE + 2
    assert scene.outbox.messages(Redirect, peers[-1]) == [Redirect(["session-2:1"])]


def test_a_server_that_stops_does_not_wait_for_clients_that_have_much_to_move() -> None:
    scene = SessionScene()
    peers = [scene.client(f"client-{number}") for number in range(LEAVING_AT_ONCE + 1)]
    scene.core.redirect_clients()
    scene.outbox.end_turn()
    assert scene.outbox.messages(Redirect, peers[-1]) == []
    scene.outbox.advance(PLACE_SECONDS)
    assert scene.outbox.messages(Redirect, peers[-1]) == [Redirect(["session-2:1"])]


def test_a_ban_that_is_lifted_keeps_the_clients_that_were_not_sent_away_yet() -> None:
    scene = SessionScene()
    for number in range(LEAVING_AT_ONCE + 2):
        scene.client(f"client-{number}")
    take = scene.core.membership.handlers.messages[Configs]
    take(META, orders(banned=frozenset({"session-1"})))
    scene.outbox.end_turn()
    take(META, Configs([ConfigEntry(ORDERS_KEY, Orders().encode(), 2)]))
    scene.outbox.advance(2 * PLACE_SECONDS)
    assert len(scene.outbox.messages(Redirect)) == LEAVING_AT_ONCE


@pytest.mark.parametrize(
    "change",
    [{"push_stopped": True}, {"banned": frozenset({"session-2"})}, {"clients_off": frozenset({"client-9"})}],
    ids=lambda change: next(iter(change)),
)
@pytest.mark.parametrize("is_banned", [False, True])
def test_other_orders_do_not_open_a_server_again_that_stops_or_is_banned(
    change: dict[str, object], is_banned: bool
) -> None:
    scene = SessionScene()
    for number in range(LEAVING_AT_ONCE + 2):
        scene.client(f"client-{number}")
    take = scene.core.membership.handlers.messages[Configs]
    always = frozenset({"session-1"}) if is_banned else frozenset[str]()
    if is_banned:
        take(META, orders(banned=always))
    else:
        scene.core.redirect_clients()
    scene.outbox.end_turn()
    for version, changed in ((2, change), (3, {})):
        named = changed.get("banned", frozenset())
        assert isinstance(named, frozenset)
        newer = Orders(**{**changed, "banned": named | always})  # type: ignore[arg-type]
        take(META, Configs([ConfigEntry(ORDERS_KEY, newer.encode(), version)]))
        assert scene.core.why_closed
    scene.outbox.advance(2 * PLACE_SECONDS)
    assert len(scene.outbox.messages(Redirect)) == LEAVING_AT_ONCE + 2


def test_a_server_that_stops_while_it_is_banned_stays_closed_when_the_ban_is_lifted() -> None:
    scene = SessionScene()
    for number in range(LEAVING_AT_ONCE + 2):
        scene.client(f"client-{number}")
    take = scene.core.membership.handlers.messages[Configs]
    take(META, orders(banned=frozenset({"session-1"})))
    scene.core.redirect_clients()
    scene.outbox.end_turn()
    take(META, Configs([ConfigEntry(ORDERS_KEY, Orders().encode(), 2)]))
    assert scene.core.why_closed == "this session server stops"
    scene.outbox.advance(2 * PLACE_SECONDS)
    assert len(scene.outbox.messages(Redirect)) == LEAVING_AT_ONCE + 2


def test_each_client_is_asked_for_fewer_pings_where_there_are_many() -> None:
    scene = SessionScene(client_lease_seconds=9.0)
    peer = scene.client()
    assert deliver(scene.outbox, scene.core.handlers, peer, Ping()) == Pong(1 / PINGS_PER_SECOND)
    for number in range(3 * PINGS_PER_SECOND):
        scene.core.opened(a_peer(f"client-{number}", Role.CLIENT))
    herd = list(scene.core.clients)
    replies = [deliver(scene.outbox, scene.core.handlers, client, Ping()) for client in herd]
    waits = {reply.seconds for reply in replies if isinstance(reply, Pong)}
    assert len(waits) == len(herd)
    assert 3.0 <= min(waits) < max(waits) <= HERD_LEASES * 9.0


def orders(version: int = 1, **changes: object) -> Configs:
    return Configs([ConfigEntry(ORDERS_KEY, Orders(**changes).encode(), version)])  # type: ignore[arg-type]


def test_a_banned_session_server_redirects_its_clients_and_takes_no_new_ones() -> None:
    scene = SessionScene()
    peer = scene.client()
    scene.core.membership.handlers.messages[Configs](META, orders(banned=frozenset({"session-1"})))
    scene.outbox.end_turn()
    assert scene.outbox.messages(Redirect, peer) == [Redirect(["session-2:1"])]
    scene.client("late")
    assert [effect.what for effect in scene.outbox.take("closed")] == ["this session server is banned"]


def test_a_client_that_is_switched_off_departs_and_is_reconnected_when_it_may_publish_again() -> None:
    scene = SessionScene()
    peer = scene.client()
    scene.publish(peer, record())
    scene.core.membership.handlers.messages[Configs](META, orders(clients_off=frozenset({"client"})))
    scene.outbox.end_turn()
    assert scene.gone() == ["r1"]
    again = Configs([ConfigEntry(ORDERS_KEY, Orders().encode(), 2)])
    scene.core.membership.handlers.messages[Configs](META, again)
    assert [effect.peer for effect in scene.outbox.take("closed")] == [peer]


def test_a_heartbeats_answer_with_another_digest_makes_the_server_fetch_the_configuration() -> None:
    scene = SessionScene()
    peer = scene.client()
    deliver(scene.outbox, scene.core.handlers, peer, WatchConfigs({"k": 0}))
    scene.core.lease_granted(META, LeaseGranted(1, 5.0, None, 12345))
    entry = ConfigEntry("k", b"v", 1)
    scene.outbox.answer(Configs([entry]), kind=GetConfigs)
    assert scene.outbox.messages(Configs, peer) == [Configs([entry])]


def test_watched_services_are_declared_again_slot_by_slot_at_each_scan() -> None:
    scene = SessionScene(scan_seconds=10.0)
    peer = scene.client()
    deliver(scene.outbox, scene.core.handlers, peer, Subscribe([Want(SERVICE, Scope.DATA_CENTER)]))
    scene.outbox.requests.clear()
    for _ in range(11):
        scene.outbox.advance(1.0)
    declared = [r.message for r in scene.outbox.requests if isinstance(r.message, DeclareInterest)]
    assert sum(len(interest.wanted) for message in declared for interest in message.interests) == 1


def test_reads_of_clients_go_to_the_leader_and_listings_to_all_data_servers() -> None:
    scene = SessionScene()
    peer = scene.client()
    deliver(scene.outbox, scene.core.handlers, peer, Get(SERVICE))
    deliver(scene.outbox, scene.core.handlers, peer, ListServices("s"))
    assert [type(r.message) for r in scene.outbox.requests] == [Fetch, ListServices]
    counters = scene.core.counters()
    assert (counters["clients"], counters["change_gaps"]) == (1, 0)


def test_a_record_that_names_another_session_process_is_rejected() -> None:
    scene = SessionScene()
    peer = scene.client()
    scene.publish(peer, record(session="session-2@1"))
    assert len(scene.outbox.messages(Rejected, peer)) == 1


def test_a_client_that_was_switched_off_before_it_connects_is_off_and_others_are_not_sent_away() -> None:
    scene = SessionScene()
    take = scene.core.membership.handlers.messages[Configs]
    take(META, orders(clients_off=frozenset({"client"})))
    off, on = a_peer("client", Role.CLIENT), a_peer("other", Role.CLIENT)
    for peer in (off, on):
        scene.core.opened(peer)
    assert [scene.core.clients[peer].is_off for peer in (off, on)] == [True, False]
    scene.outbox.take()
    take(META, orders(2, clients_off=frozenset({"client", "third"})))
    assert not any(effect.kind == "closed" for effect in scene.outbox.effects)
    take(META, orders(3, clients_off=frozenset({"third"})))
    assert [effect.peer for effect in scene.outbox.effects if effect.kind == "closed"] == [off]
