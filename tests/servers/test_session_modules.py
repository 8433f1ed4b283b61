"""The parts of a session server's core, each alone: routes, registrations, interests, reads, configuration, orders."""

from __future__ import annotations

import pytest
from slotreeve.errors import Backpressure, ModelError
from slotreeve.model.datum import content_digest
from slotreeve.model.nodes import Role
from slotreeve.model.publisher import MAX_PAYLOAD_BYTES, Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.client_messages import (
    Datum,
    Get,
    ListedUpTo,
    ListServices,
    Publish,
    Published,
    PushReceipt,
    Rejected,
    Scope,
    Services,
    Want,
)
from slotreeve_protocol.general_messages import Failed
from slotreeve_protocol.meta_messages import ConfigEntry, Configs
from slotreeve_protocol.orders import ORDERS_KEY, Orders
from slotreeve_protocol.provided import config_digest
from slotreeve_protocol.slot_messages import (
    Access,
    Answers,
    Changed,
    Compare,
    Compared,
    DatumChange,
    DeclareInterest,
    Deliver,
    Fetch,
    PartDigests,
    SlotAnswer,
    SlotDigests,
    Write,
)
from slotreeve_servers.node.digests import led_digest, part_of
from slotreeve_servers.node.outbox import Peer, Request
from slotreeve_servers.node.records import SlotStore
from slotreeve_servers.session.arrivals import Arrivals
from slotreeve_servers.session.clients import ConnectedClient
from slotreeve_servers.session.configuration import ConfigMirror
from slotreeve_servers.session.due_pushes import DuePushes
from slotreeve_servers.session.interests import FORGOTTEN_PER_TURN, Interests
from slotreeve_servers.session.leaders import SlotLeaders
from slotreeve_servers.session.listings import Listings
from slotreeve_servers.session.orders import OrdersInForce
from slotreeve_servers.session.push import PushRules
from slotreeve_servers.session.reads import ASK_SECONDS, GIVE_UP_SECONDS, RETRY_SECONDS, Reads
from slotreeve_servers.session.registrations import DROPS_PER_TURN, Registrations, add_tombstones
from slotreeve_servers.session.routes import Routes
from slotreeve_servers.session.settings import SessionSettings
from slotreeve_servers.session.writes import Writes

from tests.servers.recording_outbox import RecordingOutbox, a_peer, deliver

LEADER = a_peer("data-1", Role.DATA)
OTHER_LEADER = a_peer("data-2", Role.DATA)
OTHER = a_peer("data-2", Role.DATA)
SERVICE = "s#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"


class ByLength:
    """A slot function for tests: names of even length in slot 0, the others in slot 1."""

    def slot_of(self, key: str) -> int:
        return len(key) % 2


class Scene:
    """The collaborators of a session server's core; data-1 leads both slots."""

    def __init__(self, most_pending: int = 1000) -> None:
        self.outbox, self.routes, self.orders = RecordingOutbox(), Routes(), OrdersInForce("session-1")
        self.writes = Writes(self.outbox, self.routes)
        self.registrations = Registrations(self.outbox, "session-1@1", ByLength(), self.writes, most_pending)
        self.interests = Interests(
            self.routes, PushRules(self.outbox, SessionSettings(), "", self.orders, None, DuePushes(self.outbox))
        )
        self.leaders = SlotLeaders(
            self.outbox,
            self.routes,
            self.writes,
            self.interests,
            self.registrations,
            Arrivals(self.outbox, self.routes, self),
        )
        self.table(1, "data-1")
        self.leaders.opened(LEADER)
        self.leaders.opened(OTHER)
        self.outbox.end_turn()

    def table(self, epoch: int, leader: str) -> None:
        self.leaders.table_changed(SlotTable(epoch, tuple([Slot(n, leader, epoch, ()) for n in (0, 1)])))

    def client(self, name: str = "client") -> ConnectedClient:
        return ConnectedClient(a_peer(name, Role.CLIENT))

    def let_in(self, client: ConnectedClient) -> None:
        """No client of this scene waits to be let in."""

    def publish(self, client: ConnectedClient, *records: Publisher, sequence: int = 10) -> None:
        self.registrations.publish(client, Publish(sequence, list(records)))
        self.outbox.end_turn()

    def accept(self) -> list[Publisher]:
        """The leader stores every write that is on its way; returns the tombstones of departures."""
        gone: list[Publisher] = []
        while any(isinstance(r.message, Write) for r in self.outbox.requests):
            request = next(r.message for r in self.outbox.requests if isinstance(r.message, Write))
            gone += [tombstone for batch in request.batches for tombstone in (*batch.gone, *batch.lost)]
            answers = [SlotAnswer(b.slot, Access.ACCEPT, b.leader_epoch) for b in request.batches]
            self.outbox.answer(Answers(answers), kind=Write)
        return gone


def record(register_id: str = "r1", version: int = 1, incarnation: int = 1, **changes: str) -> Publisher:
    fields = {"service": SERVICE, "session": "session-1@1", "data": "x"} | changes
    return Publisher(
        register_id, fields["service"], version, incarnation, fields["session"], "", (fields["data"].encode(),)
    )


# --- routes ----------------------------------------------------------------------------------------------------------


def test_a_route_needs_a_table_and_a_link() -> None:
    routes = Routes()
    assert routes.leader_of(0) is None
    assert routes.apply(SlotTable(1, (Slot(0, "data-1", 1, ()), Slot(1, None, 1, ())))) == [0, 1]
    assert routes.leader_of(0) is None
    routes.opened(LEADER)
    assert routes.leader_of(0) == (LEADER, 1)
    assert routes.leader_of(1) is None
    assert routes.apply(SlotTable(2, (Slot(0, "data-1", 1, ("data-2",)), Slot(1, "data-1", 2, ())))) == [1]
    assert routes.led_by("data-1") == [0, 1]


def test_the_late_end_of_an_older_link_does_not_end_the_newer_one() -> None:
    routes = Routes()
    routes.apply(SlotTable(1, (Slot(0, "data-1", 1, ()),)))
    newer = a_peer("data-1", Role.DATA)
    routes.opened(LEADER)
    routes.opened(newer)
    routes.closed(LEADER)
    assert routes.leader_of(0) == (newer, 1)


# --- registrations ---------------------------------------------------------------------------------------------------


def test_a_published_record_is_kept_and_acknowledged_once_stored() -> None:
    scene, client = Scene(), Scene().client()
    scene.publish(client, record())
    assert list(client.records) == ["r1"]
    assert scene.outbox.messages(Published) == []
    scene.accept()
    assert scene.outbox.messages(Published, client.peer) == [Published([10])]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (record(service="bare"), "lacks its instance and group"),
        (record(session="session-2@1"), "names session process 'session-2@1'"),
        (record(data="x" * (MAX_PAYLOAD_BYTES + 4096)), "publishes more than"),
    ],
)
def test_a_record_that_cannot_be_taken_is_rejected_with_its_reason_and_the_others_are_taken(
    bad: Publisher, reason: str
) -> None:
    scene, client = Scene(), Scene().client()
    scene.publish(client, bad, record("r2"))
    (rejected,) = scene.outbox.messages(Rejected)
    assert isinstance(rejected, Rejected)
    assert rejected.sequence == 10
    assert reason in rejected.reason
    scene.accept()
    assert scene.outbox.messages(Published) == [Published([11])]


def test_beyond_the_bound_of_pending_writes_records_are_rejected() -> None:
    scene, client = Scene(most_pending=1), Scene().client()
    scene.publish(client, record("r1"), record("r2"))
    (rejected,) = scene.outbox.messages(Rejected)
    assert isinstance(rejected, Rejected)
    assert (rejected.sequence, rejected.code) == (11, Backpressure.code)


def test_what_a_switched_off_client_publishes_is_acknowledged_and_goes_nowhere() -> None:
    scene, client = Scene(), Scene().client()
    client.is_off = True
    scene.publish(client, record("r1"), record("r2"))
    assert scene.outbox.messages(Published) == [Published([10, 11])]
    assert scene.outbox.requests == []


def test_the_records_of_a_client_that_left_depart_a_part_each_turn_unless_they_came_back() -> None:
    scene, client = Scene(), Scene().client()
    count = DROPS_PER_TURN + 3
    scene.publish(client, *[record(f"r{n}") for n in range(count)])
    scene.accept()
    returned = scene.client("again")
    scene.publish(returned, record("r0", incarnation=2))
    scene.accept()
    scene.registrations.lost(client)
    scene.outbox.end_turn()
    gone = {tombstone.register_id for tombstone in scene.accept()}
    assert gone == {f"r{n}" for n in range(1, count)}
    (compared,) = scene.registrations.differences([SlotDigests(len(SERVICE) % 2, 1, {})])
    assert [r.register_id for r in compared.records[SERVICE]] == ["r0"]


def test_the_records_of_a_client_that_has_moved_are_forgotten_and_nobody_is_told() -> None:
    scene = Scene()
    client = scene.client()
    scene.publish(client, record("r1"), record("r2"))
    scene.accept()
    scene.publish(scene.client("back"), record("r2", incarnation=2))
    scene.accept()
    scene.registrations.moved(client)
    scene.outbox.end_turn()
    assert scene.outbox.requests == []
    assert client.records == {}
    (compared,) = scene.registrations.differences([SlotDigests(len(SERVICE) % 2, 1, {})])
    assert [r.register_id for r in compared.records[SERVICE]] == ["r2"]


def test_a_name_that_is_no_data_info_id_has_no_slot() -> None:
    with pytest.raises(ModelError, match="lacks its instance"):
        Scene().registrations.slot("bare")


def test_tombstones_are_forgotten_after_their_time() -> None:
    scene, client = Scene(), Scene().client()
    scene.publish(client, record(), record(version=2).tombstone())
    scene.publish(client, record())
    assert client.records == {}
    scene.outbox.advance(1_000.0)
    scene.registrations.compact()
    scene.publish(client, record())
    assert list(client.records) == ["r1"]


# --- slot leaders ----------------------------------------------------------------------------------------------------


def test_a_leader_that_compares_gets_the_truth() -> None:
    scene, client = Scene(), Scene().client()
    scene.publish(client, record())
    slot = len(SERVICE) % 2
    reply = deliver(scene.outbox, scene.leaders.desk, LEADER, Compare([SlotDigests(slot, 1, {"other": 5})]))
    assert isinstance(reply, Compared)
    assert reply.differences[0].records == {SERVICE: [record()], "other": []}


def test_a_leader_that_compares_gets_tombstones_only_where_something_differs() -> None:
    scene, client = Scene(), Scene().client()
    scene.publish(client, record(), record(version=2).tombstone())
    slot = len(SERVICE) % 2
    for asked, expected in (({SERVICE: 5}, {SERVICE: [record(version=2).tombstone()]}), ({}, {})):
        reply = deliver(scene.outbox, scene.leaders.desk, LEADER, Compare([SlotDigests(slot, 1, asked)]))
        assert isinstance(reply, Compared)
        assert reply.differences[0].records == expected


def test_a_leader_that_compares_for_the_first_time_gets_all_tombstones() -> None:
    scene, client = Scene(), Scene().client()
    other = SERVICE + "aa"
    scene.publish(client, record(), record(version=2).tombstone(), record("r2", service=other))
    slot = len(SERVICE) % 2
    asked = Compare([SlotDigests(slot, 1, {}, is_first=True)])
    reply = deliver(scene.outbox, scene.leaders.desk, LEADER, asked)
    assert isinstance(reply, Compared)
    assert reply.differences[0].records == {other: [record("r2", service=other)]}
    assert reply.differences[0].ended == [record(version=2).tombstone()]


def test_a_tombstone_goes_with_its_part_of_a_large_service() -> None:
    store = SlotStore(part_bytes=16_000)
    for number in range(100):
        store.put(Publisher(f"r{number}", SERVICE, 1, 1, "p", "", (b"x",)), 0.0)
    for number in range(0, 100, 2):
        store.put(Publisher(f"r{number}", SERVICE, 2, 1, "p", "", None), 0.0)
    found = store.difference(SlotDigests(0, 1, {}, {SERVICE: PartDigests(16, {})}), 1 << 20)
    add_tombstones(found, store)
    assert len(found.parts) == 16
    ended = {r.register_id: part.number for part in found.parts for r in part.records if r.is_tombstone}
    assert ended == {f"r{number}": part_of(f"r{number}", 16) for number in range(0, 100, 2)}


def test_what_is_published_after_a_newer_leader_has_compared_goes_to_that_leader() -> None:
    scene, client = Scene(), Scene().client()
    scene.leaders.opened(OTHER_LEADER)
    scene.outbox.end_turn()
    scene.outbox.requests.clear()
    slot = len(SERVICE) % 2
    deliver(scene.outbox, scene.leaders.desk, OTHER_LEADER, Compare([SlotDigests(slot, 7, {})]))
    scene.publish(client, record())
    scene.outbox.end_turn()
    sent = [(r.peer, r.message) for r in scene.outbox.requests if isinstance(r.message, Write)]
    assert [(peer, message.batches[0].leader_epoch) for peer, message in sent] == [(OTHER_LEADER, 7)]


def test_the_leader_of_a_newer_table_takes_the_place_of_one_that_has_compared() -> None:
    routes = Routes()
    for peer in (LEADER, OTHER_LEADER):
        routes.opened(peer)
    routes.apply(SlotTable(1, (Slot(0, "data-1", 1, ()), Slot(1, "data-1", 1, ()))))
    assert not routes.compares("data-2", 0, 1)
    assert routes.compares("data-2", 0, 3)
    assert (routes.leader_of(0), routes.led_by("data-2")) == ((OTHER_LEADER, 3), [0])
    assert routes.apply(SlotTable(2, (Slot(0, "data-1", 2, ()), Slot(1, "data-1", 1, ())))) == []
    assert routes.apply(SlotTable(3, (Slot(0, "data-2", 3, ()), Slot(1, "data-1", 1, ())))) == []
    assert routes.apply(SlotTable(4, (Slot(0, "data-1", 4, ()), Slot(1, "data-1", 1, ())))) == [0]
    assert routes.leader_of(0) == (LEADER, 4)
    assert not routes.compares("data-2", 9, 9)


def test_a_leader_that_asks_for_delivery_is_answered_once_the_records_are_stored() -> None:
    scene, client = Scene(), Scene().client()
    scene.publish(client, record())
    deliver(scene.outbox, scene.leaders.desk, LEADER, Deliver([0, 1]))
    assert scene.outbox.take("replied") == []
    scene.accept()
    assert len(scene.outbox.take("replied")) == 1


# --- interests -------------------------------------------------------------------------------------------------------


def declared(outbox: RecordingOutbox, peer: Peer = LEADER) -> list[tuple[list[str], list[str]]]:
    found: list[tuple[list[str], list[str]]] = []
    for request in outbox.requests:
        if isinstance(request.message, DeclareInterest) and request.peer is peer:
            found += [([k.data_info_id for k in i.wanted], i.unwanted) for i in request.message.interests]
    return found


def change(version: int, *records: Publisher, start: int = 0) -> DatumChange:
    return DatumChange(SERVICE, start, version, content_digest(records), list(records), [])


def test_the_very_many_subscriptions_of_a_client_that_has_gone_end_in_several_turns() -> None:
    scene = Scene()
    client, other = scene.client(), scene.client("other")
    names = [f"s{number}#@#i#@#g" for number in range(2 * FORGOTTEN_PER_TURN + 1)]
    for name in names:
        scene.interests.subscribe(client, Want(name, Scope.DATA_CENTER), 0)
    scene.interests.subscribe(other, Want(names[0], Scope.DATA_CENTER), 0)
    scene.interests.forget(client)
    assert len(scene.interests.services) > FORGOTTEN_PER_TURN
    scene.outbox.end_turn()
    assert list(scene.interests.services) == names[:1]
    assert not client.watched


def test_the_first_subscriber_declares_interest_and_the_last_one_ends_it() -> None:
    scene = Scene()
    first, second = scene.client("a"), scene.client("b")
    for client in (first, second):
        scene.interests.subscribe(client, Want(SERVICE, Scope.DATA_CENTER), 0)
    scene.outbox.end_turn()
    assert declared(scene.outbox) == [([SERVICE], [])]
    scene.outbox.answer(Answers([SlotAnswer(0, Access.ACCEPT, 1)]))
    scene.interests.unsubscribe(first, SERVICE)
    scene.outbox.end_turn()
    assert declared(scene.outbox) == []
    scene.interests.unsubscribe(second, SERVICE)
    scene.outbox.end_turn()
    assert declared(scene.outbox) == [([], [SERVICE])]
    assert (first.watched, scene.interests.services) == (set(), {})


def test_interest_that_a_leader_refused_is_declared_again_later() -> None:
    scene = Scene()
    scene.interests.subscribe(scene.client(), Want(SERVICE, Scope.DATA_CENTER), 0)
    scene.outbox.end_turn()
    scene.outbox.answer(Answers([SlotAnswer(0, Access.MISMATCH, 2)]))
    assert declared(scene.outbox) == []
    scene.outbox.advance(0.1)
    assert declared(scene.outbox) == [([SERVICE], [])]
    scene.outbox.answer(None, TimeoutError())
    scene.outbox.advance(0.1)
    assert declared(scene.outbox) == [([SERVICE], [])]


def test_interest_follows_the_slot_to_its_next_leader() -> None:
    scene = Scene()
    scene.interests.subscribe(scene.client(), Want(SERVICE, Scope.DATA_CENTER), 0)
    scene.outbox.end_turn()
    scene.table(2, "data-2")
    scene.outbox.end_turn()
    assert declared(scene.outbox, OTHER) == [([SERVICE], [])]


def test_a_change_with_a_gap_is_counted_and_the_whole_service_is_asked_for() -> None:
    scene = Scene()
    client = scene.client()
    scene.interests.subscribe(client, Want(SERVICE, Scope.DATA_CENTER), 0)
    scene.outbox.end_turn()
    scene.outbox.answer(Answers([SlotAnswer(0, Access.ACCEPT, 1)]))
    deliver(scene.outbox, scene.leaders.desk, LEADER, Changed([change(5, record())]))
    assert scene.interests.services[SERVICE].copy.version == 5
    scene.interests.changed(change(9, record("r2"), start=8))
    scene.outbox.end_turn()
    assert scene.interests.gaps == 1
    assert declared(scene.outbox) == [([SERVICE], [])]
    scene.interests.changed(change(4, record("r2")))
    assert list(scene.interests.services[SERVICE].copy.records) == ["r2"]


def test_receipts_and_changes_of_services_that_nobody_watches_are_ignored() -> None:
    scene = Scene()
    scene.interests.acknowledged(scene.client(), PushReceipt(SERVICE, Scope.ZONE, 1, 1))
    scene.interests.changed(change(5, record()))
    assert scene.interests.services == {}
    assert scene.interests.gaps == 0


# --- reads -----------------------------------------------------------------------------------------------------------


def test_a_read_is_answered_by_the_leader_and_repeated_while_it_does_not_serve() -> None:
    scene = Scene()
    reads, request = Reads(scene.outbox, scene.routes), Request(a_peer("tool", Role.TOOL), 3)
    reads.get(0, Get(SERVICE), request)
    scene.outbox.answer(Answers([SlotAnswer(0, Access.MIGRATING, 1)]), kind=Fetch)
    assert scene.outbox.take("replied") == []
    scene.outbox.advance(RETRY_SECONDS)
    scene.outbox.answer(Datum(SERVICE, 5, [record()]), kind=Fetch)
    (replied,) = scene.outbox.take("replied")
    assert replied.what == Datum(SERVICE, 5, [record()])


def test_a_reply_under_an_epoch_that_is_over_is_not_passed_on() -> None:
    scene = Scene()
    reads, request = Reads(scene.outbox, scene.routes), Request(a_peer("tool", Role.TOOL), 3)
    reads.get(0, Get(SERVICE), request)
    scene.table(2, "data-2")
    scene.outbox.answer(Datum(SERVICE, 5, []), kind=Fetch)
    assert scene.outbox.take("replied") == []


def test_a_read_without_a_leader_fails_after_its_time_with_the_reason() -> None:
    scene = Scene()
    scene.routes.closed(LEADER)
    Reads(scene.outbox, scene.routes).get(0, Get(SERVICE), Request(a_peer("tool", Role.TOOL), 3))
    scene.outbox.advance(GIVE_UP_SECONDS + 2 * RETRY_SECONDS)
    (replied,) = scene.outbox.take("replied")
    assert isinstance(replied.what, Failed)
    assert "has no leader that can be reached" in replied.what.reason


class ListingScene(Scene):
    """data-1 leads slot 0 and data-2 leads slot 1; a tool asks for the list."""

    def __init__(self, page: ListedUpTo | None = None) -> None:
        super().__init__()
        self.leaders_are("data-1", "data-2", epoch=2)
        Listings(self.outbox, self.routes, ByLength()).answer(
            ListServices("", page), Request(a_peer("tool", Role.TOOL), 3)
        )

    def leaders_are(self, *names: str | None, epoch: int) -> None:
        rows = tuple(Slot(number, name, epoch, ()) for number, name in enumerate(names))
        self.leaders.table_changed(SlotTable(epoch, rows))

    def lists(self, counts: dict[str, int], *led: tuple[int, int], upto: ListedUpTo | None = None) -> None:
        """The next data server that was asked answers."""
        self.outbox.answer(Services(counts, upto, led_digest(led) if led else 0), kind=ListServices)

    def replied(self) -> list[object]:
        return [one.what for one in self.outbox.take("replied")]


def test_a_listing_is_the_sum_of_all_leaders() -> None:
    scene = ListingScene()
    scene.lists({"a": 1}, (0, 2))
    scene.lists({"b": 2}, (1, 2))
    assert scene.replied() == [Services({"a": 1, "b": 2})]


def test_a_listing_takes_the_answer_of_a_data_server_that_does_not_say_what_it_leads() -> None:
    scene = ListingScene()
    scene.lists({"a": 1})
    scene.lists({"b": 2})
    assert scene.replied() == [Services({"a": 1, "b": 2})]


def test_a_listing_waits_until_each_slot_has_a_leader_that_can_be_reached() -> None:
    scene = ListingScene()
    scene.routes.closed(OTHER)
    scene.lists({"a": 1}, (0, 2))
    scene.outbox.answer(None, TimeoutError("the connection is lost"), kind=ListServices)
    scene.outbox.advance(1.0)
    assert scene.replied() == []
    scene.leaders_are("data-1", "data-1", epoch=3)
    scene.outbox.advance(RETRY_SECONDS)
    scene.lists({"a": 1, "b": 2}, (0, 3), (1, 3))
    assert scene.replied() == [Services({"a": 1, "b": 2})]


def test_a_listing_is_repeated_where_a_leader_does_not_serve_all_of_its_slots_yet() -> None:
    scene = ListingScene()
    scene.leaders_are("data-1", "data-1", epoch=3)
    scene.lists({"a": 1}, (0, 2))
    scene.lists({"b": 2}, (1, 2))
    scene.outbox.advance(RETRY_SECONDS)
    scene.lists({"a": 1}, (0, 3))
    assert scene.replied() == []
    scene.outbox.advance(RETRY_SECONDS)
    scene.lists({"a": 1, "b": 2}, (0, 3), (1, 3))
    assert scene.replied() == [Services({"a": 1, "b": 2})]


def test_a_listing_fails_after_its_time_with_the_reason() -> None:
    scene = ListingScene()
    scene.lists({"a": 1}, (0, 2))
    scene.routes.closed(OTHER)
    scene.outbox.answer(None, TimeoutError(f"{ASK_SECONDS} s"), kind=ListServices)
    scene.outbox.advance(GIVE_UP_SECONDS + 2 * RETRY_SECONDS)
    [failed] = scene.replied()
    assert isinstance(failed, Failed)
    assert failed.reason == "the services cannot be listed: a slot has no leader that can be reached"


def test_there_are_no_services_before_there_is_a_table() -> None:
    outbox = RecordingOutbox()
    Listings(outbox, Routes(), ByLength()).answer(ListServices(""), Request(a_peer("tool", Role.TOOL), 3))
    assert outbox.take("replied")[0].what == Services({})


def test_a_page_of_a_listing_ends_where_the_page_of_any_leader_ends() -> None:
    scene = ListingScene(ListedUpTo())
    scene.lists({"aa": 1, "cc": 3}, (0, 2), upto=ListedUpTo(0, "cc"))
    scene.lists({"bb": 2, "dd": 4, "a": 5}, (1, 2))
    assert scene.replied() == [Services({"aa": 1, "cc": 3, "bb": 2}, ListedUpTo(0, "cc"))]


# --- configuration and orders ----------------------------------------------------------------------------------------


def test_a_watcher_gets_the_newest_entry_and_then_each_newer_one() -> None:
    outbox = RecordingOutbox()
    mirror, client = ConfigMirror(outbox), Scene().client()
    mirror.watch(client, {"k": 0})
    assert outbox.messages(Configs) == []
    assert not mirror.agrees(config_digest({}))
    mirror.load([])
    assert outbox.messages(Configs) == [Configs([ConfigEntry("k", None, 0)])]
    newer = ConfigEntry("k", b"1", 1)
    assert mirror.apply([newer, ConfigEntry("other", b"2", 4)]) == [newer, ConfigEntry("other", b"2", 4)]
    assert mirror.apply([newer]) == []
    assert outbox.messages(Configs)[1:] == [Configs([newer])]
    assert mirror.agrees(config_digest({"k": 1, "other": 4}))
    mirror.unwatch(client, ["k"])
    mirror.apply([ConfigEntry("k", b"2", 2)])
    assert len(outbox.messages(Configs)) == 2


def test_orders_that_cannot_be_read_leave_the_former_ones_in_force() -> None:
    orders = OrdersInForce("session-1")
    assert orders.take(ConfigEntry(ORDERS_KEY, Orders(banned=frozenset({"session-1"})).encode(), 1))
    assert not orders.take(ConfigEntry(ORDERS_KEY, b"nonsense", 2))
    assert not orders.take(ConfigEntry("other", b"{}", 3))
    assert orders.is_banned


def test_orders_name_clients_by_id_or_address() -> None:
    orders, peer = OrdersInForce("session-1"), Peer("client-1", Role.CLIENT, "client-1@1", "10.0.0.9:5555")
    for named in ("client-1", "10.0.0.9"):
        orders.take(ConfigEntry(ORDERS_KEY, Orders(clients_off=frozenset({named})).encode(), 1))
        assert orders.is_off(peer)
    orders.take(ConfigEntry(ORDERS_KEY, Orders(push_stopped=True, push_to=frozenset({"x"})).encode(), 2))
    assert not orders.may_push(peer)
    assert not orders.is_off(peer)
