"""The cores of data and session servers, each alone; tests/servers/transcripts shows them together."""

from __future__ import annotations

import math

import pytest
from slotreeve.model.nodes import Node, Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.client_messages import (
    Datum,
    Get,
    GivenUp,
    ListServices,
    Moved,
    Pong,
    Publish,
    Redirect,
    Rejected,
    ReplayEnded,
    Scope,
    Services,
    Sessions,
    Subscribe,
    Unsubscribe,
    Want,
    Withdraw,
)
from slotreeve_protocol.general_messages import Done, Ping
from slotreeve_protocol.meta_messages import (
    ConfigEntry,
    Configs,
    GetConfigs,
    LeaseGranted,
    UnwatchConfig,
    View,
    WatchConfigs,
)
from slotreeve_protocol.orders import ORDERS_KEY, Orders
from slotreeve_protocol.slot_messages import (
    Access,
    Answers,
    Compare,
    Compared,
    DeclareInterest,
    Fetch,
    Follow,
    SlotAnswer,
    SlotDifference,
    SlotWrite,
    Write,
)
from slotreeve_servers.data.core import DataCore
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.node.digests import led_digest
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.session.arrivals import AT_ONCE as ARRIVING_AT_ONCE
from slotreeve_servers.session.core import (
    FEW_LOST,
    HERD_LINGER_SECONDS,
    LEAVING_AT_ONCE,
    SessionCore,
    sweep_seconds,
)
from slotreeve_servers.session.leases import HERD_LEASES, PINGS_PER_SECOND, RENEWALS
from slotreeve_servers.session.places import PLACE_SECONDS
from slotreeve_servers.session.settings import SessionSettings

from tests.servers.recording_outbox import RecordingOutbox, a_peer, deliver

META = a_peer("meta-1", Role.META)
SERVICE = "s#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"


def node(name: str) -> Node:
    role = Role.DATA if name.startswith("data") else Role.SESSION
    return Node(name, role, f"{name}:1", f"{name}@1")


def record(register_id: str = "r1", session: str = "session-1@1", incarnation: int = 1) -> Publisher:
    return Publisher(register_id, SERVICE, 1, incarnation, session, "", (b"x",))


# --- data ------------------------------------------------------------------------------------------------------------


class DataScene:
    """data-1 with two session servers, of which it knows by the view."""

    def __init__(self, **rules: float) -> None:
        self.outbox = RecordingOutbox()
        self.core = DataCore(self.outbox, node("data-1"), DataSettings.model_validate(rules), math.inf)
        self.core.start()
        self.sessions = {name: a_peer(name, Role.SESSION) for name in ("session-1", "session-2")}
        self.revision = 0

    def view(self, *rows: Slot, epoch: int = 1, sessions: tuple[str, ...] = ("session-1", "session-2")) -> None:
        self.revision += 1
        data = [node("data-1"), node("data-2")]
        view = View(1, self.revision, SlotTable(epoch, rows), data, [node(name) for name in sessions])
        self.core.membership.desk.messages[View](META, view)
        self.outbox.end_turn()

    def open(self, *names: str) -> None:
        for name in names:
            self.core.opened(self.sessions[name])

    def compared(self, *names: str) -> None:
        """These session servers answer that nothing differs."""
        for name in names:
            for request in [r for r in self.outbox.requests if r.peer is self.sessions[name]]:
                self.outbox.requests.remove(request)
                assert isinstance(request.message, Compare)
                slots = request.message.slots
                answers = [SlotDifference(s.slot, Access.ACCEPT, s.leader_epoch, True, {}) for s in slots]
                request.answered(Compared(answers), None)
                self.outbox.end_turn()

    def serving(self) -> DataScene:
        self.open("session-1", "session-2")
        self.view(Slot(0, "data-1", 1, ()))
        self.compared("session-1", "session-2")
        return self

    def write(self, *records: Publisher, gone: tuple[Publisher, ...] = (), epoch: int = 1, slot: int = 0) -> Access:
        message = Write([SlotWrite(slot, epoch, [*records], [*gone], [])])
        reply = deliver(self.outbox, self.core.desk, self.sessions["session-1"], message)
        assert isinstance(reply, Answers)
        return reply.answers[0].access

    def held(self) -> list[str]:
        return sorted(r.register_id for r in self.core.slots.held[0].store.records())


def test_a_led_slot_serves_once_every_session_server_was_compared_with() -> None:
    scene = DataScene()
    scene.open("session-1")
    scene.view(Slot(0, "data-1", 1, ()))
    scene.compared("session-1")
    assert scene.core.unsettled().slots == [0]
    scene.open("session-2")
    scene.compared("session-2")
    assert scene.core.unsettled().slots == []


def test_a_session_process_that_is_back_before_its_registrations_were_searched_keeps_them() -> None:
    scene = DataScene().serving()
    scene.write(record())
    scene.core.closed(scene.sessions["session-1"], "cut")
    scene.view(Slot(0, "data-1", 1, ()), sessions=("session-2",))
    scene.open("session-1")
    scene.view(Slot(0, "data-1", 1, ()))
    scene.outbox.advance(20.0)
    assert scene.held() == ["r1"]


def test_a_migrating_slot_takes_writes_and_refuses_reads() -> None:
    scene = DataScene()
    scene.view(Slot(0, "data-1", 1, ()))
    assert scene.write(record()) is Access.MIGRATING
    reply = deliver(scene.outbox, scene.core.desk, scene.sessions["session-1"], Fetch(0, 1, SERVICE))
    assert isinstance(reply, Answers)
    assert reply.answers[0].access is Access.MIGRATING
    assert scene.held() == ["r1"]


def test_writes_under_another_epoch_or_to_another_servers_slot_are_refused_and_not_stored() -> None:
    scene = DataScene().serving()
    assert scene.write(record(), epoch=2) is Access.MISMATCH
    assert scene.write(record(), slot=5) is Access.MOVED
    assert scene.held() == []


def test_reads_and_listings_show_what_was_written() -> None:
    scene = DataScene().serving()
    assert scene.write(record()) is Access.ACCEPT
    session = scene.sessions["session-1"]
    datum = deliver(scene.outbox, scene.core.desk, session, Fetch(0, 1, SERVICE))
    assert isinstance(datum, Datum)
    assert datum.publishers == [record()]
    led = led_digest([(0, 1)])
    assert deliver(scene.outbox, scene.core.desk, session, ListServices("s")) == Services({SERVICE: 1}, led=led)
    assert deliver(scene.outbox, scene.core.desk, session, ListServices("x")) == Services({}, led=led)
    moved = deliver(scene.outbox, scene.core.desk, session, Fetch(9, 1, SERVICE))
    assert isinstance(moved, Answers)
    assert moved.answers[0].access is Access.MOVED


def test_before_it_is_a_member_a_process_does_not_lead_what_its_former_life_led() -> None:
    scene = DataScene()
    former = Node("data-1", Role.DATA, "data-1:1", "data-1@0")
    view = View(1, 1, SlotTable(1, (Slot(0, "data-1", 1, ()),)), [former], [])
    scene.core.membership.desk.messages[View](META, view)
    assert scene.core.slots.held == {}
    scene.revision = 1
    scene.view(Slot(0, "data-1", 2, ()), epoch=2)
    assert list(scene.core.slots.held) == [0]


def test_the_records_of_a_session_process_that_does_not_come_back_expire_after_the_grace() -> None:
    scene = DataScene(session_grace_seconds=3.0).serving()
    scene.write(record(), record("r2", "session-2@1"))
    scene.core.closed(scene.sessions["session-1"], "killed")
    scene.view(Slot(0, "data-1", 1, ()), sessions=("session-2",))
    scene.outbox.advance(2.5)
    assert scene.held() == ["r1", "r2"]
    scene.outbox.advance(1.0)
    for request in scene.outbox.requests.copy():
        if request.peer is scene.sessions["session-2"] and not isinstance(request.message, Compare):
            request.answered(Done(), None)
    scene.outbox.advance(1.0)
    assert scene.held() == ["r2"]


def test_a_slot_does_not_wait_for_one_silent_session_server_for_ever_but_for_two() -> None:
    scene = DataScene(emergency_seconds=5.0)
    scene.view(Slot(0, "data-1", 1, ()))
    scene.outbox.advance(20.0)
    assert scene.core.unsettled().slots == [0]
    scene.open("session-1")
    scene.compared("session-1")
    scene.outbox.advance(1.0)
    assert scene.core.slots.unsettled() == []
    assert scene.core.counters()["slots_served_incomplete"] == 1
    assert scene.core.unsettled().slots == [0], "the balancer must not move it to a leader that would wait as long"
    scene.open("session-2")
    scene.compared("session-2")
    assert scene.core.unsettled().slots == []


def test_followed_slots_are_copied_from_their_leader_and_its_links_are_kept() -> None:
    scene = DataScene()
    scene.view(Slot(0, "data-2", 1, ("data-1",)), Slot(1, "data-1", 1, ()))
    (links,) = scene.outbox.take("links")
    assert links.what == {"data-2": "data-2:1"}
    leader = a_peer("data-2", Role.DATA)
    scene.core.leaders.opened(leader)
    follow = next(r.message for r in scene.outbox.requests if r.peer is leader)
    assert isinstance(follow, Follow)
    assert [slot.slot for slot in follow.slots] == [0]


def test_every_slot_is_compared_again_every_few_seconds_unless_departures_are_pending() -> None:
    scene = DataScene(repair_seconds=6.0).serving()
    scene.outbox.requests.clear()
    scene.outbox.advance(6.1)
    assert sum(isinstance(r.message, Compare) for r in scene.outbox.requests) == 2
    scene.compared("session-1", "session-2")
    scene.core.slots.held[0].departing = 1
    scene.outbox.advance(7.0)
    assert [r for r in scene.outbox.requests if isinstance(r.message, Compare)] == []


def test_counters_of_a_data_server_say_what_it_holds_and_did() -> None:
    scene = DataScene().serving()
    scene.write(record())
    counters = scene.core.counters()
    assert (counters["slots_led"], counters["registrations"], counters["session_repairs"]) == (1, 1, 0)


# --- session ---------------------------------------------------------------------------------------------------------


class OneSlot:
    def slot_of(self, key: str) -> int:
        return 0


class SessionScene:
    """session-1 with one data server that leads slot 0."""

    def __init__(self, **rules: float) -> None:
        self.outbox = RecordingOutbox()
        settings = SessionSettings.model_validate(rules)
        self.core = SessionCore(self.outbox, node("session-1"), settings, 1.0, OneSlot())
        self.core.start()
        view = View(
            1, 1, SlotTable(1, (Slot(0, "data-1", 1, ()),)), [node("data-1")], [node("session-1"), node("session-2")]
        )
        self.core.membership.desk.messages[View](META, view)
        self.data = a_peer("data-1", Role.DATA)
        self.core.leaders.opened(self.data)
        self.outbox.end_turn()
        self.outbox.take()

    def client(self, name: str = "client") -> Peer:
        peer = a_peer(name, Role.CLIENT)
        self.core.opened(peer)
        self.outbox.end_turn()
        return peer

    def publish(self, peer: Peer, *records: Publisher) -> None:
        deliver(self.outbox, self.core.desk, peer, Publish(1, list(records)))

    def gone(self) -> list[str]:
        """Register ids of the departures that are on their way to the leader."""
        writes = [r.message for r in self.outbox.requests if isinstance(r.message, Write)]
        return [tombstone.register_id for write in writes for batch in write.batches for tombstone in batch.gone]

    def lost(self) -> list[str]:
        """Register ids of the lost registrations that are on their way to the leader."""
        writes = [r.message for r in self.outbox.requests if isinstance(r.message, Write)]
        return [tombstone.register_id for write in writes for batch in write.batches for tombstone in batch.lost]


def test_a_client_learns_the_session_servers_now_and_at_each_change() -> None:
    scene = SessionScene()
    peer = scene.client()
    view = View(1, 2, SlotTable(1, (Slot(0, "data-1", 1, ()),)), [node("data-1")], [node("session-1")])
    scene.core.membership.desk.messages[View](META, view)
    assert scene.outbox.messages(Sessions, peer) == [
        Sessions(["session-1:1", "session-2:1"]),
        Sessions(["session-1:1"]),
    ]


def test_a_change_of_the_session_servers_does_not_let_in_the_clients_that_wait() -> None:
    scene = SessionScene()
    peers = [scene.client(f"client-{number}") for number in range(ARRIVING_AT_ONCE + 1)]
    view = View(1, 2, SlotTable(1, (Slot(0, "data-1", 1, ()),)), [node("data-1")], [node("session-1")])
    scene.core.membership.desk.messages[View](META, view)
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
    scene.core.closed(peer, "cut")
    scene.outbox.advance(0.2)
    assert scene.lost() == []
    scene.outbox.advance(0.2)
    assert scene.lost() == ["r1"]
    assert scene.gone() == []


def test_where_many_connections_end_at_once_each_client_has_longer_to_return() -> None:
    scene = SessionScene(linger_seconds=0.3)
    peers = [scene.client(f"client{number}") for number in range(FEW_LOST + 1)]
    for number, peer in enumerate(peers):
        scene.publish(peer, Publisher(f"r{number}", SERVICE, 1, 1, "session-1@1", "", (b"x",)))
    while scene.outbox.requests:
        scene.outbox.answer(Answers([SlotAnswer(0, Access.ACCEPT, 1)]))
    for peer in peers:
        scene.core.closed(peer, "cut")
    scene.outbox.advance(0.3 + HERD_LINGER_SECONDS - 0.1)
    assert scene.lost() == []
    scene.outbox.advance(0.2)
    lost = set()
    while scene.outbox.requests:
        lost.update(scene.lost())
        scene.outbox.answer(Answers([SlotAnswer(0, Access.ACCEPT, 1)]))
    assert len(lost) == len(peers)


def test_a_client_that_returned_within_the_linger_keeps_its_registrations() -> None:
    scene = SessionScene(linger_seconds=0.3)
    peer = scene.client()
    scene.publish(peer, record())
    scene.core.closed(peer, "cut")
    scene.publish(scene.client("again"), record(incarnation=2))
    scene.outbox.advance(1.0)
    assert scene.lost() == []


def test_a_client_that_is_back_and_sends_its_registrations_slowly_keeps_them() -> None:
    scene = SessionScene(linger_seconds=0.3)
    scene.publish(scene.client(), record())
    scene.core.closed(next(iter(scene.core.clients)), "cut")
    again = scene.client()
    scene.outbox.advance(5.0)
    assert scene.lost() == []
    deliver(scene.outbox, scene.core.desk, again, ReplayEnded())
    scene.outbox.advance(0.3)
    assert scene.lost() == ["r1"]


def test_a_client_that_gave_up_has_the_time_of_a_lease_to_find_another_server() -> None:
    scene = SessionScene(linger_seconds=0.3, client_lease_seconds=2.0)
    peer = scene.client()
    scene.publish(peer, record())
    deliver(scene.outbox, scene.core.desk, peer, GivenUp())
    scene.core.closed(peer, "nothing arrived for 3 s")
    scene.outbox.advance(1.9)
    assert scene.lost() == []
    scene.outbox.advance(0.2)
    assert scene.lost() == ["r1"]


def test_a_client_that_withdraws_departs_at_once() -> None:
    scene = SessionScene()
    peer = scene.client()
    scene.publish(peer, record())
    deliver(scene.outbox, scene.core.desk, peer, Withdraw())
    assert scene.gone() == ["r1"]


def test_a_client_that_has_moved_leaves_nothing_to_report() -> None:
    scene = SessionScene()
    peer = scene.client()
    scene.publish(peer, record())
    deliver(scene.outbox, scene.core.desk, peer, Moved())
    scene.core.closed(peer, "moved")
    scene.outbox.advance(5.0)
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
    reply = deliver(scene.outbox, scene.core.desk, silent, Ping())
    assert isinstance(reply, Pong)
    assert 1.0 <= reply.seconds <= HERD_LEASES * 3.0
    scene.outbox.silence = {silent: reply.seconds + 2.5}
    scene.outbox.advance(reply.seconds + 2.5)
    assert scene.outbox.take("closed") == []
    scene.outbox.silence = {silent: reply.seconds + 3.1}
    scene.outbox.advance(0.6)
    assert {effect.peer for effect in scene.outbox.take("closed")} == {silent}


def test_a_silent_client_loses_its_registrations_with_its_lease_and_gets_no_linger() -> None:
    scene = SessionScene(client_lease_seconds=2.0, linger_seconds=60.0)
    silent = scene.client()
    scene.publish(silent, record())
    scene.outbox.silence = {silent: 2.1}
    scene.outbox.advance(2.5)
    assert scene.lost() == ["r1"]


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
    assert deliver(scene.outbox, scene.core.desk, peers[0], Ping()) == Pong(few)
    scene.client("one more")
    assert deliver(scene.outbox, scene.core.desk, peers[0], Ping()) == Pong(6.0 / RENEWALS)


def test_what_comes_from_a_connection_that_was_refused_is_ignored() -> None:
    scene = SessionScene()
    scene.core.redirect_clients("this session server stops")
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
        deliver(scene.outbox, scene.core.desk, peer, message)
    scene.core.closed(peer, "refused")
    assert scene.outbox.requests == []


def test_subscriptions_end_with_the_connection() -> None:
    scene = SessionScene()
    peer = scene.client()
    deliver(scene.outbox, scene.core.desk, peer, Subscribe([Want(SERVICE, Scope.DATA_CENTER)]))
    assert list(scene.core.interests.services) == [SERVICE]
    deliver(scene.outbox, scene.core.desk, peer, Unsubscribe(SERVICE, Scope.ZONE))
    assert list(scene.core.interests.services) == [SERVICE]
    scene.core.closed(peer, "cut")
    assert scene.core.interests.services == {}


def test_a_subscription_to_a_bare_name_is_ignored() -> None:
    scene = SessionScene()
    wants = [Want("bare", Scope.ZONE), Want(SERVICE, Scope.ZONE)]
    deliver(scene.outbox, scene.core.desk, scene.client("b"), Subscribe(wants))
    assert list(scene.core.interests.services) == [SERVICE]


def test_redirected_clients_learn_of_the_other_session_servers() -> None:
    scene = SessionScene()
    peer = scene.client()
    scene.core.redirect_clients("this session server stops")
    scene.outbox.end_turn()
    assert scene.outbox.messages(Redirect, peer) == [Redirect(["session-2:1"])]


def test_a_server_that_stops_sends_the_next_clients_away_when_others_have_left() -> None:
    scene = SessionScene()
    peers = [scene.client(f"client-{number}") for number in range(LEAVING_AT_ONCE + 2)]
    scene.core.redirect_clients("this session server stops")
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
    scene.core.redirect_clients("this session server stops")
    scene.outbox.end_turn()
    assert scene.outbox.messages(Redirect, peers[-1]) == []
    scene.outbox.advance(PLACE_SECONDS)
    assert scene.outbox.messages(Redirect, peers[-1]) == [Redirect(["session-2:1"])]


def test_a_ban_that_is_lifted_keeps_the_clients_that_were_not_sent_away_yet() -> None:
    scene = SessionScene()
    for number in range(LEAVING_AT_ONCE + 2):
        scene.client(f"client-{number}")
    take = scene.core.membership.desk.messages[Configs]
    take(META, orders(banned=frozenset({"session-1"})))
    scene.outbox.end_turn()
    take(META, Configs([ConfigEntry(ORDERS_KEY, Orders().encode(), 2)]))
    scene.outbox.advance(2 * PLACE_SECONDS)
    assert len(scene.outbox.messages(Redirect)) == LEAVING_AT_ONCE


def test_each_client_is_asked_for_fewer_pings_where_there_are_many() -> None:
    scene = SessionScene(client_lease_seconds=9.0)
    peer = scene.client()
    assert deliver(scene.outbox, scene.core.desk, peer, Ping()) == Pong(1 / PINGS_PER_SECOND)
    for number in range(3 * PINGS_PER_SECOND):
        scene.core.opened(a_peer(f"client-{number}", Role.CLIENT))
    herd = list(scene.core.clients)
    replies = [deliver(scene.outbox, scene.core.desk, client, Ping()) for client in herd]
    waits = {reply.seconds for reply in replies if isinstance(reply, Pong)}
    assert len(waits) == len(herd)
    assert 3.0 <= min(waits) < max(waits) <= HERD_LEASES * 9.0


def orders(**changes: object) -> Configs:
    return Configs([ConfigEntry(ORDERS_KEY, Orders(**changes).encode(), 1)])  # type: ignore[arg-type]


def test_a_banned_session_server_redirects_its_clients_and_takes_no_new_ones() -> None:
    scene = SessionScene()
    peer = scene.client()
    scene.core.membership.desk.messages[Configs](META, orders(banned=frozenset({"session-1"})))
    scene.outbox.end_turn()
    assert scene.outbox.messages(Redirect, peer) == [Redirect(["session-2:1"])]
    scene.client("late")
    assert [effect.what for effect in scene.outbox.take("closed")] == ["this session server is banned"]


def test_a_client_that_is_switched_off_departs_and_is_reconnected_when_it_may_publish_again() -> None:
    scene = SessionScene()
    peer = scene.client()
    scene.publish(peer, record())
    scene.core.membership.desk.messages[Configs](META, orders(clients_off=frozenset({"client"})))
    scene.outbox.end_turn()
    assert scene.gone() == ["r1"]
    again = Configs([ConfigEntry(ORDERS_KEY, Orders().encode(), 2)])
    scene.core.membership.desk.messages[Configs](META, again)
    assert [effect.peer for effect in scene.outbox.take("closed")] == [peer]


def test_a_heartbeats_answer_with_another_digest_makes_the_server_fetch_the_configuration() -> None:
    scene = SessionScene()
    peer = scene.client()
    deliver(scene.outbox, scene.core.desk, peer, WatchConfigs({"k": 0}))
    scene.core.lease_granted(META, LeaseGranted(1, 5.0, None, 12345))
    entry = ConfigEntry("k", b"v", 1)
    scene.outbox.answer(Configs([entry]), kind=GetConfigs)
    assert scene.outbox.messages(Configs, peer) == [Configs([entry])]


def test_watched_services_are_declared_again_slot_by_slot_at_each_scan() -> None:
    scene = SessionScene(scan_seconds=10.0)
    peer = scene.client()
    deliver(scene.outbox, scene.core.desk, peer, Subscribe([Want(SERVICE, Scope.DATA_CENTER)]))
    scene.outbox.requests.clear()
    for _ in range(11):
        scene.outbox.advance(1.0)
    declared = [r.message for r in scene.outbox.requests if isinstance(r.message, DeclareInterest)]
    assert sum(len(interest.wanted) for message in declared for interest in message.interests) == 1


def test_reads_of_clients_go_to_the_leader_and_listings_to_all_data_servers() -> None:
    scene = SessionScene()
    peer = scene.client()
    deliver(scene.outbox, scene.core.desk, peer, Get(SERVICE))
    deliver(scene.outbox, scene.core.desk, peer, ListServices("s"))
    assert [type(r.message) for r in scene.outbox.requests] == [Fetch, ListServices]
    counters = scene.core.counters()
    assert (counters["clients"], counters["change_gaps"]) == (1, 0)


def test_a_record_that_names_another_session_process_is_rejected() -> None:
    scene = SessionScene()
    peer = scene.client()
    scene.publish(peer, record(session="session-2@1"))
    assert len(scene.outbox.messages(Rejected, peer)) == 1
