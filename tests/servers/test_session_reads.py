"""Parts of a session server, each alone: interests, reads, listings, configuration."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve.errors import Forbidden, LimitReached, ModelError
from slotreeve.keys import Principal
from slotreeve.model.data_info import MAX_LENGTH
from slotreeve.model.datum import content_digest
from slotreeve.model.nodes import Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.rights import Right, Rights
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.client_messages import (
    Datum,
    Get,
    ListedUpTo,
    ListServices,
    PushReceipt,
    Scope,
    Services,
    Want,
)
from slotreeve_protocol.general_messages import Failed
from slotreeve_protocol.meta_messages import NOT_SHOWN, ConfigEntry, Configs
from slotreeve_protocol.orders import ORDERS_KEY, Orders
from slotreeve_protocol.provided import config_digest
from slotreeve_protocol.slot_messages import (
    Access,
    Answers,
    Changed,
    DatumChange,
    DeclareInterest,
    Fetch,
    SlotAnswer,
)
from slotreeve_servers.node.digests import led_digest
from slotreeve_servers.node.outbox import Peer, Request
from slotreeve_servers.session.clients.configuration import ConfigMirror
from slotreeve_servers.session.clients.limits import ClientLimits
from slotreeve_servers.session.clients.orders import OrdersInForce
from slotreeve_servers.session.records.leader_waits import LOOK_SECONDS
from slotreeve_servers.session.records.listings import PAGE_PAUSE_SECONDS, Listings
from slotreeve_servers.session.records.lookups import Lookups
from slotreeve_servers.session.records.reads import ASK_SECONDS, GIVE_UP_SECONDS, Reads
from slotreeve_servers.session.records.routes import Routes
from slotreeve_servers.session.settings import SessionSettings

from tests.servers.recording_outbox import RecordingOutbox, a_peer, deliver
from tests.servers.session_scene import LEADER, OTHER, SERVICE, ByLength, Scene, record

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
    names = [f"s{number}#@#i#@#g" for number in range(7)]
    for name in names:
        scene.interests.subscribe(client, Want(name, Scope.DATA_CENTER), 0)
    scene.interests.subscribe(other, Want(names[-1], Scope.DATA_CENTER), 0)
    scene.interests.forget(client)
    scene.outbox.turn_steps = 3
    scene.outbox.end_one_turn()
    assert len(scene.interests.services) == 5, "the first one has another subscriber"
    scene.outbox.end_turn()
    assert list(scene.interests.services) == names[-1:]
    assert not client.watched


def test_an_interest_that_has_ended_is_told_to_the_leader_although_a_scan_comes_between() -> None:
    scene = Scene()
    client = scene.client("a")
    scene.interests.subscribe(client, Want(SERVICE, Scope.DATA_CENTER), 0)
    scene.outbox.end_turn()
    declared(scene.outbox)
    scene.outbox.answer(Answers([SlotAnswer(0, Access.ACCEPT, 1)]))
    scene.interests.unsubscribe(client, SERVICE)
    scene.interests.declare_slots([0, 1])
    scene.outbox.end_turn()
    assert declared(scene.outbox) == [([], [SERVICE])]


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
    assert (first.watched, scene.interests.services) == ({}, {})


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


def test_a_client_that_ends_one_of_two_scopes_is_forgotten_with_the_other_one() -> None:
    scene = Scene()
    client, other = scene.client(), scene.client("other")
    for scope in (Scope.ZONE, Scope.DATA_CENTER):
        scene.interests.subscribe(client, Want(SERVICE, scope), 0)
    scene.interests.subscribe(other, Want(SERVICE, Scope.ZONE), 0)
    scene.interests.unsubscribe(client, SERVICE, (Scope.ZONE,))
    assert list(client.watched) == [SERVICE]
    scene.interests.forget(client)
    scene.outbox.end_turn()
    assert list(client.watched) == []
    assert list(scene.interests.services[SERVICE].groups) == [Scope.ZONE]


def test_the_end_of_an_interest_that_a_leader_did_not_take_is_told_again_unless_there_is_an_interest_anew() -> None:
    scene = Scene()
    client = scene.client()
    for is_wanted_anew in (False, True):
        scene.interests.subscribe(client, Want(SERVICE, Scope.DATA_CENTER), 0)
        scene.outbox.end_turn()
        scene.outbox.answer(Answers([SlotAnswer(0, Access.ACCEPT, 1)]))
        scene.outbox.unreachable.add(LEADER)
        scene.interests.unsubscribe(client, SERVICE)
        scene.outbox.end_turn()
        assert declared(scene.outbox) == []
        scene.outbox.unreachable.clear()
        if is_wanted_anew:
            scene.interests.subscribe(client, Want(SERVICE, Scope.DATA_CENTER), 0)
        scene.outbox.advance(0.1)
        assert declared(scene.outbox) == [([SERVICE], []) if is_wanted_anew else ([], [SERVICE])]
        scene.outbox.answer(Answers([SlotAnswer(0, Access.ACCEPT, 1)]))


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
    deliver(scene.outbox, scene.leaders.handlers, LEADER, Changed([change(5, record())]))
    assert scene.interests.services[SERVICE].copy.version == 5
    scene.interests.changed(change(9, record("r2"), start=8), 0.0)
    scene.outbox.end_turn()
    assert scene.interests.gaps == 1
    assert declared(scene.outbox) == [([SERVICE], [])]
    scene.interests.changed(change(4, record("r2")), 0.0)
    assert list(scene.interests.services[SERVICE].copy.records) == ["r2"]


def test_receipts_and_changes_of_services_that_nobody_watches_are_ignored() -> None:
    scene = Scene()
    scene.interests.acknowledged(scene.client(), PushReceipt(SERVICE, Scope.ZONE, 1, 1))
    scene.interests.changed(change(5, record()), 0.0)
    assert scene.interests.services == {}
    assert scene.interests.gaps == 0


# --- reads -----------------------------------------------------------------------------------------------------------


def test_a_read_is_answered_by_the_leader_and_repeated_while_it_does_not_serve() -> None:
    scene = Scene()
    reads, request = (
        Reads(scene.outbox, scene.routes, Lookups(scene.outbox), lambda _: 0),
        Request(a_peer("tool", Role.TOOL), 3),
    )
    reads.get(request.peer, Get(SERVICE), request)
    scene.outbox.answer(Answers([SlotAnswer(0, Access.MIGRATING, 1)]), kind=Fetch)
    assert scene.outbox.take("replied") == []
    scene.outbox.advance(LOOK_SECONDS)
    scene.outbox.answer(Datum(SERVICE, 5, [record()]), kind=Fetch)
    (replied,) = scene.outbox.take("replied")
    assert replied.what == Datum(SERVICE, 5, [record()])


def test_a_reply_under_an_epoch_that_is_over_is_not_passed_on() -> None:
    scene = Scene()
    reads, request = (
        Reads(scene.outbox, scene.routes, Lookups(scene.outbox), lambda _: 0),
        Request(a_peer("tool", Role.TOOL), 3),
    )
    reads.get(request.peer, Get(SERVICE), request)
    scene.table(2, "data-2")
    scene.outbox.answer(Datum(SERVICE, 5, []), kind=Fetch)
    assert scene.outbox.take("replied") == []


def test_a_read_without_a_leader_fails_after_its_time_with_the_reason() -> None:
    scene = Scene()
    scene.routes.closed(LEADER)
    tool = a_peer("tool", Role.TOOL)
    Reads(scene.outbox, scene.routes, Lookups(scene.outbox), lambda _: 0).get(tool, Get(SERVICE), Request(tool, 3))
    scene.outbox.advance(GIVE_UP_SECONDS + 2 * LOOK_SECONDS)
    (replied,) = scene.outbox.take("replied")
    assert isinstance(replied.what, Failed)
    assert "has no leader that can be reached" in replied.what.reason


class ListingScene(Scene):
    """data-1 leads slot 0 and data-2 leads slot 1; a tool asks for the list."""

    def __init__(self, page: ListedUpTo | None = None) -> None:
        super().__init__()
        self.leaders_are("data-1", "data-2", epoch=2)
        tool = a_peer("tool", Role.TOOL)
        listings = Listings(self.outbox, self.routes, ByLength(), Lookups(self.outbox))
        listings.answer(tool, ListServices("", page), Request(tool, 3))

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
    scene.outbox.advance(LOOK_SECONDS)
    scene.lists({"a": 1, "b": 2}, (0, 3), (1, 3))
    assert scene.replied() == [Services({"a": 1, "b": 2})]


def test_a_listing_is_repeated_where_a_leader_does_not_serve_all_of_its_slots_yet() -> None:
    scene = ListingScene()
    scene.leaders_are("data-1", "data-1", epoch=3)
    scene.lists({"a": 1}, (0, 2))
    scene.lists({"b": 2}, (1, 2))
    scene.outbox.advance(LOOK_SECONDS)
    scene.lists({"a": 1}, (0, 3))
    assert scene.replied() == []
    scene.outbox.advance(LOOK_SECONDS)
    scene.lists({"a": 1, "b": 2}, (0, 3), (1, 3))
    assert scene.replied() == [Services({"a": 1, "b": 2})]


def test_a_listing_fails_after_its_time_with_the_reason() -> None:
    scene = ListingScene()
    scene.lists({"a": 1}, (0, 2))
    scene.routes.closed(OTHER)
    scene.outbox.answer(None, TimeoutError(f"{ASK_SECONDS} s"), kind=ListServices)
    scene.outbox.advance(GIVE_UP_SECONDS + 2 * LOOK_SECONDS)
    [failed] = scene.replied()
    assert isinstance(failed, Failed)
    assert failed.reason == "the services cannot be listed: a slot has no leader that can be reached"


def test_there_are_no_services_before_there_is_a_table() -> None:
    outbox = RecordingOutbox()
    tool = a_peer("tool", Role.TOOL)
    Listings(outbox, Routes(), ByLength(), Lookups(outbox)).answer(tool, ListServices(""), Request(tool, 3))
    assert outbox.take("replied")[0].what == Services({})


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        (ListServices("p" * (MAX_LENGTH + 1)), "the prefix"),
        (ListServices("", ListedUpTo(0, "n" * (MAX_LENGTH + 1))), "the name to go on from"),
    ],
)
def test_a_listing_by_a_longer_text_than_any_name_is_refused_and_no_leader_is_asked(
    asked: ListServices, what: str
) -> None:
    scene = Scene()
    listings = Listings(scene.outbox, scene.routes, ByLength(), Lookups(scene.outbox))
    client, before = a_peer("client", Role.CLIENT), len(scene.outbox.requests)
    with pytest.raises(ModelError, match=f"{what} .* has {MAX_LENGTH + 1} characters; {MAX_LENGTH} is the limit"):
        listings.answer(client, asked, Request(client, 3))
    assert len(scene.outbox.requests) == before
    listings.answer(client, ListServices("p" * MAX_LENGTH), Request(client, 4))
    assert len(scene.outbox.requests) > before


def test_a_page_of_a_listing_ends_where_the_page_of_any_leader_ends() -> None:
    scene = ListingScene(ListedUpTo())
    scene.lists({"aa": 1, "cc": 3}, (0, 2), upto=ListedUpTo(0, "cc"))
    scene.lists({"bb": 2, "dd": 4, "a": 5}, (1, 2))
    assert scene.replied() == [Services({"aa": 1, "cc": 3, "bb": 2}, ListedUpTo(0, "cc"))]


@settings(derandomize=True)
@given(st.lists(st.sampled_from(["open", "open.b", "secret.a", "secret.b", "z"]), max_size=12), st.integers(1, 4))
def test_a_client_is_listed_what_it_may_read_and_no_page_ends_with_another_name(names: list[str], size: int) -> None:
    all_names = sorted(
        {f"{name}{number}" for number, name in enumerate(names)}, key=lambda n: (ByLength().slot_of(n), n)
    )
    may = Rights(["read:open*"])
    scene = Scene()
    scene.leaders.table_changed(SlotTable(2, tuple(Slot(number, "data-1", 2, ()) for number in range(2))))
    listings = Listings(scene.outbox, scene.routes, ByLength(), Lookups(scene.outbox))
    peer = a_peer("shop", Role.CLIENT)
    peer.proven = Principal("shop", Role.CLIENT, "k" * 40, ("read:open*",))
    found, after = list[str](), ListedUpTo()
    for _ in range(40):
        listings.answer(peer, ListServices("", after), Request(peer, 1))
        while scene.outbox.requests or not any(effect.kind == "replied" for effect in scene.outbox.effects):
            if not scene.outbox.requests:
                scene.outbox.advance(PAGE_PAUSE_SECONDS)
                continue
            (asked,) = (one.message for one in scene.outbox.requests if isinstance(one.message, ListServices))
            place = (asked.after.slot, asked.after.name) if asked.after is not None else (0, "")
            left = [name for name in all_names if (ByLength().slot_of(name), name) > place or not place[1]]
            page = left[:size]
            end = ListedUpTo(ByLength().slot_of(page[-1]), page[-1]) if len(left) > size else None
            scene.outbox.answer(Services(dict.fromkeys(page, 1), end, led_digest([(0, 2), (1, 2)])), kind=ListServices)
        (replied,) = scene.outbox.take("replied")
        services = replied.what
        assert isinstance(services, Services)
        assert all(may.hold(Right.READ, name) for name in services.counts)
        found += [name for name in services.counts if name not in found]
        if services.upto is None:
            break
        assert may.hold(Right.READ, services.upto.name)
        assert services.upto.name in services.counts
        after = services.upto
    assert sorted(found) == sorted(name for name in all_names if may.hold(Right.READ, name))


def test_a_client_watches_so_many_keys_and_services_and_no_longer_key_than_there_can_be() -> None:
    outbox = RecordingOutbox()
    limits = ClientLimits(SessionSettings(most_subscriptions=3))
    mirror, client = ConfigMirror(outbox, limits), Scene().client()
    client.watched[SERVICE] = None
    mirror.watch(client, {"k" * 100_000: 0, " ": 0})
    assert client.configs == set()
    mirror.watch(client, {f"k{number}": 0 for number in range(10)})
    mirror.watch(client, {"k1": 0})
    assert client.configs == {"k0", "k1"}
    assert limits.hit == 8
    entries = [
        entry for message in outbox.messages(Configs) if isinstance(message, Configs) for entry in message.entries
    ]
    assert {entry.version for entry in entries} == {NOT_SHOWN}
    assert entries[-1].key == "k9"
    assert entries[-1].value is not None
    assert b"a client may have 3 subscriptions" in entries[-1].value
    assert len(mirror._watchers) == 2
    with pytest.raises(LimitReached):
        limits.check_subscription(client, "another")


def test_names_that_a_client_may_not_read_leave_nothing_behind() -> None:
    scene = Scene()
    peer = a_peer("shop", Role.CLIENT)
    peer.proven = Principal("shop", Role.CLIENT, "k" * 40, ("read:open*",))
    reads = Reads(scene.outbox, scene.routes, Lookups(scene.outbox), scene.registrations.slot)
    for number in range(10):
        with pytest.raises(Forbidden):
            reads.get(peer, Get(f"secret.{number}#@#a#@#b"), Request(peer, number))
    assert scene.registrations._known_slots == {}


# --- configuration and orders ----------------------------------------------------------------------------------------


def test_a_watcher_gets_the_newest_entry_and_then_each_newer_one() -> None:
    outbox = RecordingOutbox()
    mirror, client = ConfigMirror(outbox, ClientLimits(SessionSettings())), Scene().client()
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
