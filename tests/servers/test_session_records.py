"""Parts of a session server, each alone: routes, registrations, slot leaders that compare."""

from __future__ import annotations

import pytest
from msgspec import structs
from slotreeve.errors import Backpressure, ModelError
from slotreeve.keys import Principal
from slotreeve.model.nodes import Role
from slotreeve.model.publisher import MAX_PAYLOAD_BYTES, MAX_REGISTER_ID_LENGTH, MAX_ZONE_LENGTH, Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.client_messages import (
    Published,
    Rejected,
)
from slotreeve_protocol.slot_messages import (
    Changed,
    Compare,
    Compared,
    Confirm,
    PartDigests,
    SlotDigests,
    SlotEpoch,
    Write,
)
from slotreeve_servers.node.digests import part_of
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.node.records import SlotStore
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.records.leaders import add_tombstones
from slotreeve_servers.session.records.registrations import TOMBSTONE_SECONDS
from slotreeve_servers.session.records.routes import Routes
from slotreeve_servers.session.settings import SessionSettings

from tests.servers.recording_outbox import a_peer, deliver
from tests.servers.session_scene import LEADER, OTHER, SERVICE, Scene, record

OTHER_LEADER = a_peer("data-2", Role.DATA)
OTHER_SERVICE, FORBIDDEN = (SERVICE.replace("s#", f"{name}#", 1) for name in ("other", "forbidden"))
SLOT = len(SERVICE) % 2


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


def test_what_is_published_without_a_link_goes_out_with_the_next_one() -> None:
    scene = Scene()
    scene.leaders.closed(LEADER, "lost")
    scene.publish(scene.client(), record())
    assert not any(isinstance(request.message, Write) for request in scene.outbox.requests)
    newer = Peer(LEADER.node, LEADER.role, LEADER.process_id)
    scene.leaders.opened(newer)
    scene.outbox.end_turn()
    (request,) = [request for request in scene.outbox.requests if isinstance(request.message, Write)]
    assert request.peer is newer


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


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"register_id": "till/1-1"}, "is not one of 'shop/1'"),
        ({"data_info_id": FORBIDDEN}, "lacks the right register"),
        ({"register_id": "shop/1-1", "data_info_id": OTHER_SERVICE}, "is that of a registration in"),
        ({"session": "session-2@1"}, "names session process"),
        ({"register_id": "shop/1-" + "x" * MAX_REGISTER_ID_LENGTH}, "register id"),
        ({"zone": "z" * (MAX_ZONE_LENGTH + 1)}, "zone"),
        ({"data": (b"x" * (MAX_PAYLOAD_BYTES + 4_096),)}, "publishes more than"),
    ],
)
def test_what_is_refused_is_refused_in_a_service_that_is_well_known_here_as_well(
    changes: dict[str, object], why: str
) -> None:
    """Records of a service that is known take a shorter way."""
    scene, tool = Scene(), Scene().client("tool")
    proven = Principal("shop", Role.CLIENT, "k", ("register:s", "register:other"))
    client = ConnectedClient(Peer("shop/1", Role.CLIENT, "shop@1", proven=proven))
    for number, service in enumerate((SERVICE, OTHER_SERVICE, FORBIDDEN)):
        scene.publish(tool, record(f"tool-{number}", service=service))
    scene.publish(client, record("shop/1-1"))
    assert list(client.records) == ["shop/1-1"]
    before = {slot: set(store.records()) for slot, store in scene.registrations.stores.items()}
    scene.outbox.take()
    scene.publish(client, structs.replace(record("shop/1-2", 2), **changes))
    (rejected,) = scene.outbox.messages(Rejected)
    assert isinstance(rejected, Rejected)
    assert why in rejected.reason
    assert {slot: set(store.records()) for slot, store in scene.registrations.stores.items()} == before
    assert list(client.records) == ["shop/1-1"]


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
    count = 8
    scene.publish(client, *[record(f"r{n}") for n in range(count)])
    scene.accept()
    returned = scene.client("again")
    scene.publish(returned, record("r0", incarnation=2))
    scene.accept()
    scene.registrations.said_goodbye(client)
    scene.outbox.turn_steps = 5
    scene.outbox.end_one_turn()
    assert len(scene.registrations.stores[len(SERVICE) % 2].services[SERVICE]) == 4, "r0 came back"
    scene.outbox.end_turn()
    gone = {tombstone.register_id for tombstone in scene.accept()}
    assert gone == {f"r{n}" for n in range(1, count)}
    (compared,) = scene.leaders.differences([SlotDigests(len(SERVICE) % 2, 1, {})])
    assert [r.register_id for r in compared.records[SERVICE] if not r.is_tombstone] == ["r0"]


def test_what_a_client_ended_by_its_goodbye_and_sends_again_is_over_here_as_at_the_leader() -> None:
    scene, client = Scene(), Scene().client()
    scene.publish(client, record())
    scene.accept()
    scene.registrations.said_goodbye(client)
    scene.outbox.end_turn()
    assert scene.accept() == [record().tombstone()]
    scene.publish(client, record(), sequence=11)
    scene.accept()
    assert Published([11]) in scene.outbox.messages(Published, client.peer)
    assert (kept(scene), client.records) == ([], {})
    (compared,) = scene.leaders.differences([SlotDigests(SLOT, 1, {})])
    assert compared.records == {}
    scene.publish(client, record(version=2), sequence=12)
    assert kept(scene) == list(client.records.values()) == [record(version=2)]


def lost(scene: Scene, *records: Publisher) -> None:
    """A client published these records, the leader has them, and the client is lost."""
    client = scene.client()
    scene.publish(client, *records)
    scene.accept()
    scene.registrations.lost(client)
    scene.outbox.end_turn()


def kept(scene: Scene) -> list[Publisher]:
    return list(scene.registrations.stores[SLOT].records())


def over(scene: Scene, *records: Publisher, leader: Peer = LEADER) -> None:
    deliver(scene.outbox, scene.leaders.handlers, leader, Changed([], [each.tombstone() for each in records]))


def test_what_a_lost_client_published_stays_until_the_leader_says_that_it_is_over() -> None:
    scene = Scene()
    lost(scene, record("r1"), record("r2"))
    assert scene.accept() == [record("r1"), record("r2")]
    assert kept(scene) == [record("r1"), record("r2")]
    over(scene, record("r1"))
    assert kept(scene) == [record("r2")]
    scene.table(2, "data-2")
    scene.outbox.end_turn()
    assert scene.accept() == [record("r2")], "what is over is not reported again"


def test_each_leader_and_each_link_gets_what_lost_clients_published_with_the_word_that_they_are_lost() -> None:
    scene = Scene()
    lost(scene, record())
    assert scene.accept() == [record()]
    scene.leaders.closed(LEADER, "cut")
    scene.leaders.opened(LEADER)
    scene.outbox.end_turn()
    assert scene.accept() == [record()]
    scene.table(2, "data-2")
    scene.outbox.end_turn()
    assert scene.accept() == [record()]
    deliver(scene.outbox, scene.leaders.handlers, LEADER, Compare([SlotDigests(SLOT, 3, {})]))
    scene.outbox.end_turn()
    assert scene.accept() == [record()]
    scene.table(3, "data-1")
    scene.outbox.end_turn()
    assert scene.accept() == [], "the leader that compared is the one of this table"


def test_a_client_that_came_back_to_the_same_server_is_not_reported_lost_again_and_not_over() -> None:
    scene = Scene()
    lost(scene, record())
    scene.accept()
    scene.publish(scene.client("back"), record(incarnation=2))
    scene.accept()
    scene.table(2, "data-2")
    scene.outbox.end_turn()
    assert scene.accept() == []
    over(scene, record(), leader=OTHER)
    assert kept(scene) == [record(incarnation=2)]


def test_the_end_of_an_earlier_loss_does_not_drop_what_was_lost_later() -> None:
    scene = Scene()
    lost(scene, record())
    lost(scene, record(incarnation=2))
    over(scene, record())
    assert kept(scene) == [record(incarnation=2)]
    over(scene, record("never"), record(incarnation=2))
    assert kept(scene) == []


def test_one_register_id_in_two_services_is_two_further_copies() -> None:
    scene = Scene()
    other = SERVICE[::-1]
    lost(scene, record())
    scene.accept()
    lost(scene, record(service=other))
    scene.accept()
    scene.table(2, "data-2")
    scene.outbox.end_turn()
    assert scene.accept() == [record(), record(service=other)]
    over(scene, record(), leader=OTHER)
    assert kept(scene) == [record(service=other)]
    over(scene, record(service=other), leader=OTHER)
    assert kept(scene) == []


@pytest.mark.parametrize("how", ["table", "compares", "another link"])
def test_only_the_leader_of_today_says_what_is_over(how: str) -> None:
    scene, leader = Scene(), OTHER
    lost(scene, record())
    scene.accept()
    if how == "table":
        scene.table(2, "data-2")
    elif how == "compares":  # it may have been compared with before the word of the former leader arrives
        deliver(scene.outbox, scene.leaders.handlers, leader, Compare([SlotDigests(SLOT, 2, {})]))
    else:
        leader = a_peer("data-1", Role.DATA)
        scene.leaders.opened(leader)
    over(scene, record())
    scene.outbox.end_turn()
    assert scene.accept() == kept(scene) == [record()]
    over(scene, record(), leader=leader)
    assert kept(scene) == []


def test_only_a_leader_that_takes_over_gets_further_copies_in_an_answer() -> None:
    scene = Scene()
    lost(scene, record("r1"))
    scene.accept()
    scene.publish(scene.client("other"), record("r2"))
    for is_first, serves, ids in ((True, False, ["r1", "r2"]), (True, True, ["r2"]), (False, False, ["r2"])):
        (compared,) = scene.leaders.differences([SlotDigests(SLOT, 1, {}, is_first=is_first, serves=serves)])
        assert [one.register_id for one in compared.records[SERVICE]] == ids
    scene.publish(scene.client("back"), record("r1", incarnation=2))
    (compared,) = scene.leaders.differences([SlotDigests(SLOT, 1, {})])
    assert compared.records[SERVICE] == [record("r1", incarnation=2), record("r2")]


def test_a_large_service_is_answered_without_further_copies_as_well() -> None:
    scene = Scene()
    lost(scene, *[record(f"r{number}") for number in range(0, 1_200, 2)])
    scene.publish(scene.client("other"), *[record(f"r{number}") for number in range(1, 1_200, 2)])
    (compared,) = scene.leaders.differences([SlotDigests(SLOT, 1, {})])
    assert compared.parts
    found = [one for part in compared.parts for one in part.records]
    assert found
    assert all(int(one.register_id[1:]) % 2 for one in found)


def test_a_loss_of_which_no_leader_says_anything_is_dropped_as_late_as_a_tombstone() -> None:
    scene = Scene()
    lost(scene, record("r1"), record("r2"))
    scene.outbox.advance(TOMBSTONE_SECONDS / 2)
    lost(scene, record("r2", incarnation=2), record("r3"))
    scene.outbox.advance(TOMBSTONE_SECONDS / 2 + 1)
    scene.registrations.compact()
    scene.outbox.end_turn()
    assert kept(scene) == [record("r2", incarnation=2), record("r3")]
    scene.outbox.advance(TOMBSTONE_SECONDS)
    scene.registrations.compact()
    scene.outbox.end_turn()
    assert kept(scene) == []


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
    (compared,) = scene.leaders.differences([SlotDigests(len(SERVICE) % 2, 1, {})])
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
    reply = deliver(scene.outbox, scene.leaders.handlers, LEADER, Compare([SlotDigests(slot, 1, {"other": 5})]))
    assert isinstance(reply, Compared)
    assert reply.differences[0].records == {SERVICE: [record()], "other": []}


def test_a_leader_that_compares_gets_tombstones_only_where_something_differs() -> None:
    scene, client = Scene(), Scene().client()
    scene.publish(client, record(), record(version=2).tombstone())
    slot = len(SERVICE) % 2
    for asked, expected in (({SERVICE: 5}, {SERVICE: [record(version=2).tombstone()]}), ({}, {})):
        reply = deliver(scene.outbox, scene.leaders.handlers, LEADER, Compare([SlotDigests(slot, 1, asked)]))
        assert isinstance(reply, Compared)
        assert reply.differences[0].records == expected


def test_a_leader_that_compares_for_the_first_time_gets_all_tombstones() -> None:
    scene, client = Scene(), Scene().client()
    other = SERVICE + "aa"
    scene.publish(client, record(), record(version=2).tombstone(), record("r2", service=other))
    slot = len(SERVICE) % 2
    asked = Compare([SlotDigests(slot, 1, {}, is_first=True)])
    reply = deliver(scene.outbox, scene.leaders.handlers, LEADER, asked)
    assert isinstance(reply, Compared)
    assert reply.differences[0].records == {other: [record("r2", service=other)]}
    assert reply.differences[0].ended == [record(version=2).tombstone()]


@pytest.mark.parametrize("is_first", [True, False])
def test_the_bytes_of_an_answer_to_a_comparison_include_its_tombstones(is_first: bool) -> None:
    scene, client = Scene(), Scene().client()
    scene.outbox.part_bytes = 2_000
    names = {len(name) % 2: name for name in (SERVICE, SERVICE + "a")}
    for name in names.values():
        for number in range(40):
            scene.publish(client, record(f"r{number}", service=name), record(f"r{number}", 2, service=name).tombstone())
    asked = Compare(
        [SlotDigests(slot, 1, {} if is_first else {name: 5}, is_first=is_first) for slot, name in names.items()]
    )
    reply = deliver(scene.outbox, scene.leaders.handlers, LEADER, asked)
    assert isinstance(reply, Compared)
    first, second = reply.differences
    assert len(first.ended if is_first else first.records[names[first.slot]]) == 40
    assert (first.complete, second.complete, second.records, second.ended) == (True, False, {}, [])


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
    deliver(scene.outbox, scene.leaders.handlers, OTHER_LEADER, Compare([SlotDigests(slot, 7, {})]))
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
    deliver(scene.outbox, scene.leaders.handlers, LEADER, Confirm([SlotEpoch(0, 1), SlotEpoch(1, 1)]))
    assert scene.outbox.take("replied") == []
    scene.accept()
    assert len(scene.outbox.take("replied")) == 1


def test_a_mark_for_lost_clients_waits_for_those_who_came_while_the_server_stood_still_and_others_do_not() -> None:
    scene = Scene()
    scene.outbox.stood_until = scene.outbox.time
    linger = SessionSettings().linger_seconds

    def answered() -> int:
        scene.outbox.end_turn()
        return len(scene.outbox.take("replied"))

    for other in (Confirm([]), Confirm([SlotEpoch(0, 1)])):
        deliver(scene.outbox, scene.leaders.handlers, LEADER, other)
        assert answered() == 1, "a proof, and a mark for goodbyes and leases"
    deliver(scene.outbox, scene.leaders.handlers, LEADER, Confirm([SlotEpoch(0, 1)], arrivals=True))
    scene.outbox.advance(0.9 * linger)
    assert answered() == 0
    scene.outbox.stood_until = scene.outbox.time
    scene.outbox.advance(0.2 * linger)
    assert answered() == 1, "it stood still once more, and others wait"
    scene.outbox.advance(linger)
    deliver(scene.outbox, scene.leaders.handlers, LEADER, Confirm([SlotEpoch(0, 1)], arrivals=True))
    assert answered() == 1, "it has run for long enough"


def test_a_mark_for_lost_clients_waits_for_what_those_who_came_meanwhile_have_sent() -> None:
    scene, client = Scene(), Scene().client()
    scene.outbox.stood_until = scene.outbox.time
    deliver(scene.outbox, scene.leaders.handlers, LEADER, Confirm([SlotEpoch(0, 1), SlotEpoch(1, 1)], arrivals=True))
    scene.outbox.has_unread = True
    scene.outbox.advance(SessionSettings().linger_seconds + 0.1)
    assert scene.outbox.take("replied") == [], "its records have arrived and are not read"
    scene.publish(client, record())
    scene.outbox.has_unread = False
    scene.outbox.end_turn()
    assert scene.outbox.take("replied") == []
    scene.accept()
    assert len(scene.outbox.take("replied")) == 1


def test_a_client_that_is_lost_again_and_again_keeps_no_further_copies_of_others() -> None:
    scene = Scene()
    lost(scene, record("r1"), record("r2"))
    scene.outbox.advance(TOMBSTONE_SECONDS / 2)
    lost(scene, record("r1", incarnation=2))
    scene.outbox.advance(TOMBSTONE_SECONDS / 2 + 1)
    scene.registrations.compact()
    scene.outbox.end_turn()
    assert kept(scene) == [record("r1", incarnation=2)]
