"""What one client may have, and how often it may ask."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import LimitReached
from slotreeve.keys import Principal
from slotreeve.model.nodes import Role
from slotreeve.model.publisher import Publisher
from slotreeve_protocol.client_messages import Publish, Rejected
from slotreeve_protocol.lease_messages import RenewLeases
from slotreeve_protocol.leases import MOST_LEASES
from slotreeve_protocol.slot_messages import Access, Answers, SlotAnswer
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.clients.limits import BURST_SECONDS, WEIGHTS_PER_MEGABYTE, ClientLimits
from slotreeve_servers.session.records.lease_requests import weight_of
from slotreeve_servers.session.settings import SessionSettings

from tests.servers.recording_outbox import a_peer
from tests.servers.session_scene import LEADER, SERVICE, Scene

OTHER_SERVICE = SERVICE.replace("#", "-other#", 1)
FEW = SessionSettings(
    most_registrations=3,
    most_megabytes=1,
    most_subscriptions=2,
    most_requests_per_second=10.0,
    most_connections_of_key=2,
)


def record(number: int, version: int = 1, size: int = 1, ends: bool = False) -> Publisher:
    data = None if ends else (b"x" * size,)
    return Publisher(f"client-{number}", SERVICE, version, 1, "session-1@1", "", data)


def rejected(scene: Scene) -> list[tuple[int, str]]:
    found = [effect.what for effect in scene.outbox.effects if isinstance(effect.what, Rejected)]
    scene.outbox.effects.clear()
    return [(one.sequence, one.code) for one in found]


def test_a_client_may_have_so_many_registrations_and_another_one_as_many() -> None:
    scene = Scene()
    scene.limits.rules = FEW
    client, other = scene.client("client"), scene.client("other")
    scene.publish(client, *[record(number) for number in range(5)])
    assert rejected(scene) == [(13, "SR503"), (14, "SR503")]
    scene.publish(client, record(0, 2), record(1, 2, ends=True), record(3), record(4))
    assert rejected(scene) == [(13, "SR503")], "what is there may change, and what ends makes room"
    scene.publish(other, *[record(number) for number in range(10, 13)])
    assert rejected(scene) == []
    assert (len(client.records), len(other.records), scene.limits.hit) == (3, 3, 3)


def test_ends_of_what_a_client_has_do_not_count_as_requests() -> None:
    scene = Scene()
    scene.limits.rules = FEW.model_copy(update={"most_registrations": 100})
    client = scene.client("client")
    scene.publish(client, *[record(number) for number in range(100)])
    scene.publish(client, *[record(number, 2, ends=True) for number in range(100)])
    assert rejected(scene) == []
    assert client.records == {}


def test_ends_of_what_a_client_does_not_have_count_as_requests() -> None:
    """They are remembered for a while, for a registration that is still on its way."""
    scene = Scene()
    scene.limits.rules = FEW
    client, burst = scene.client("client"), int(10 * BURST_SECONDS)
    scene.publish(client, record(0), *[record(number, ends=True) for number in range(1, burst + 1)])
    assert rejected(scene) == []
    scene.publish(client, record(0, 2, ends=True), record(1, 2, ends=True))
    assert rejected(scene) == [(11, "SR205")], "what the client has can be ended at once, and the other end comes later"
    assert sum(len(store.tombstones) for store in scene.registrations.stores.values()) == burst + 1


def test_a_register_id_stands_for_one_registration_of_a_client() -> None:
    """Two services with the same id would count as one registration, and only one of them would end with the client."""
    scene = Scene()
    client = scene.client("client")
    elsewhere = Publisher("client-0", OTHER_SERVICE, 2, 1, "session-1@1", "", (b"x",))
    scene.publish(client, record(0), elsewhere, elsewhere.tombstone())
    assert rejected(scene) == [(11, "SR120"), (12, "SR120")]
    assert list(client.records.values()) == [record(0)]
    later = Publisher("client-0", OTHER_SERVICE, 3, 1, "session-1@1", "", (b"x",))
    scene.publish(client, record(0, 2, ends=True), later)
    assert rejected(scene) == []
    assert list(client.records.values()) == [later]


def test_a_request_for_much_is_owed_for_and_what_is_owed_is_not_forgotten() -> None:
    limits = ClientLimits(FEW)
    client, others = ConnectedClient(a_peer("client", Role.CLIENT)), ConnectedClient(a_peer("other", Role.CLIENT))
    burst = int(10 * BURST_SECONDS)
    limits.check_request(client, 0.0, weight=2 * burst)
    for second in range(2 * int(BURST_SECONDS)):
        limits.check_request(others, float(second))
        limits.check_request(others, float(second))
    with pytest.raises(LimitReached):
        limits.check_request(client, 0.9 * BURST_SECONDS)
    limits.check_request(client, 1.1 * BURST_SECONDS)


def test_a_client_that_registers_leases_as_fast_as_they_are_stored_is_not_refused() -> None:
    limits, client = ClientLimits(SessionSettings()), ConnectedClient(a_peer("mirror", Role.CLIENT))
    message = RenewLeases({SERVICE: [f"lease-{number}" for number in range(MOST_LEASES)]})
    for number in range(400):
        limits.check_request(client, number * MOST_LEASES / 100_000, weight_of(message))


def test_a_rate_below_one_in_two_seconds_lets_one_pass_and_the_next_one_later() -> None:
    scene = Scene()
    scene.limits.rules = SessionSettings(most_requests_per_second=0.25)
    client = scene.client("client")
    scene.publish(client, record(0, ends=True), record(1, ends=True))
    assert rejected(scene) == [(11, "SR205")]
    scene.outbox.advance(4.0)
    scene.publish(client, record(1, ends=True), record(2, ends=True))
    assert rejected(scene) == [(11, "SR205")]


def test_requests_of_all_kinds_are_counted_on_the_clock_that_stands_still_with_the_process() -> None:
    scene = Scene()
    scene.limits.rules, scene.outbox.unattended = FEW, 50.0
    client = scene.client("client")
    scene.publish(client, record(0, ends=True))
    scene.limits.check_request(client, scene.outbox.attended())
    assert rejected(scene) == []


def test_who_publishes_more_than_is_stored_leaves_room_for_others() -> None:
    scene = Scene(most_pending=100)
    greedy, second, modest = scene.client("client"), scene.client("second"), scene.client("modest")
    scene.publish(greedy, *[record(0, version) for version in range(1, 101)])
    assert (greedy.waiting, {code for _, code in rejected(scene)}) == (50, {"SR205"})
    scene.publish(second, *[Publisher("second-0", SERVICE, n, 1, "session-1@1", "", (b"x",)) for n in range(1, 101)])
    assert second.waiting == 25
    rejected(scene)
    scene.publish(modest, Publisher("modest-0", SERVICE, 1, 1, "session-1@1", "", (b"x",)))
    assert rejected(scene) == []


def test_what_departs_takes_no_room_of_what_others_publish() -> None:
    scene = Scene(most_pending=100)
    leaving, modest = scene.client("client"), scene.client("modest")
    scene.publish(leaving, *[record(number) for number in range(50)])
    scene.registrations.said_goodbye(leaving)
    scene.outbox.end_turn()
    assert scene.writes.departing == 50
    scene.publish(modest, *[Publisher(f"modest-{n}", SERVICE, 1, 1, "session-1@1", "", (b"x",)) for n in range(25)])
    assert rejected(scene) == []


def test_a_request_pays_for_the_ends_of_two_forgotten_budgets_at_most() -> None:
    limits, clients = ClientLimits(FEW), [ConnectedClient(a_peer(f"c{n}", Role.CLIENT), 0.0) for n in range(10)]
    for client in clients:
        limits.check_request(client, 0.0)
    for number in range(4):
        limits.check_request(clients[9], 100.0)
        assert len(limits._buckets) == max(1, 8 - 2 * number)


def test_one_that_asks_all_the_time_does_not_keep_the_budgets_of_others() -> None:
    limits, clients = ClientLimits(FEW), [ConnectedClient(a_peer(f"c{n}", Role.CLIENT), 0.0) for n in range(10)]
    for client in clients:
        limits.check_request(client, 0.0)
    for second in range(1, 20):
        limits.check_request(clients[0], float(second))
    assert list(limits._buckets) == [clients[0].peer]


def test_a_client_may_have_so_many_bytes() -> None:
    scene = Scene()
    scene.limits.rules = FEW
    client, half = scene.client("client"), 500 * 1_024
    scene.publish(client, record(0, size=half), record(1, size=half), record(2, size=half))
    assert rejected(scene) == [(12, "SR503")]
    scene.publish(client, record(0, 2), record(2, size=half))
    assert rejected(scene) == [], "a smaller payload makes room"
    scene.publish(client, record(0, 3, size=half))
    assert rejected(scene) == [(10, "SR503")], "a larger one needs some"
    scene.publish(client, record(2, 2, ends=True), record(0, 3, size=half))
    assert rejected(scene) == []
    scene.publish(client, record(0, 4, size=half))
    assert rejected(scene) == [], "as large as the one before"
    scene.limits.rules = FEW.model_copy(update={"most_megabytes": 0})
    scene.publish(client, record(0, 5, size=half // 2))
    assert rejected(scene) == [], "less than before, although it is more than anybody may have now"


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9_000), st.booleans()), max_size=40))
def test_the_weight_of_a_client_is_that_of_its_records(steps: list[tuple[int, int, bool]]) -> None:
    scene = Scene()
    client = scene.client("client")
    for version, (number, size, ends) in enumerate(steps, 1):
        scene.publish(client, record(number, version, size, ends))
        assert client.weight == sum(one.weight for one in client.records.values())
    scene.registrations.said_goodbye(client)
    assert client.weight == 0


def test_a_client_may_watch_so_many_services() -> None:
    limits, client = ClientLimits(FEW), ConnectedClient(Peer("client", Role.CLIENT, "client@1"))
    client.watched = {"a": None, "b": None}
    limits.check_subscription(client, "a")
    with pytest.raises(LimitReached, match=r"2 subscriptions at a session server \(session.most_subscriptions\)"):
        limits.check_subscription(client, "c")
    del client.watched["a"]
    limits.check_subscription(client, "c")


def test_a_client_may_ask_so_often_and_after_a_silence_a_little_more() -> None:
    limits, client = ClientLimits(FEW), ConnectedClient(Peer("client", Role.CLIENT, "client@1"), 100.0)

    def asked(now: float) -> int:
        count = 0
        while count < 1_000:
            try:
                limits.check_request(client, now)
            except LimitReached:
                break
            count += 1
        return count

    assert asked(100.0) == 10 * BURST_SECONDS
    assert (asked(100.0), asked(100.5), asked(101.5)) == (0, 5, 10)
    assert asked(1_000.0) == 10 * BURST_SECONDS


def test_so_many_clients_may_be_connected_with_one_key() -> None:
    limits = ClientLimits(FEW)

    def client(name: str, key: str, role: Role = Role.CLIENT) -> ConnectedClient:
        return ConnectedClient(Peer(name, Role.CLIENT, f"{name}@1", proven=Principal(key, role, key)))

    first, second, third = client("a", "shop"), client("b", "shop"), client("c", "shop")
    limits.opened(first)
    limits.opened(second)
    with pytest.raises(LimitReached, match="2 connections with one key"):
        limits.opened(third)
    limits.opened(client("d", "till"))
    for number in range(5):
        limits.opened(client(f"g{number}", "gateway-1", Role.GATEWAY))
        limits.opened(ConnectedClient(Peer(f"n{number}", Role.CLIENT, "n@1")))
    limits.closed(first)
    limits.closed(client("another", "shop", Role.GATEWAY))
    limits.opened(third)
    with pytest.raises(LimitReached, match="2 connections with one key"):
        limits.opened(first)
    for one in (second, third):
        limits.closed(one)
    assert "shop" not in limits._connections, "nobody is left"


def test_limits_that_are_near_are_looked_at_and_others_cost_nothing() -> None:
    limits, client = ClientLimits(FEW), ConnectedClient(Peer("client", Role.CLIENT, "client@1"))
    few = FEW.most_registrations
    assert not limits.is_near_most(client, few)
    assert limits.is_near_most(client, few + 1)
    assert limits.most_weight == WEIGHTS_PER_MEGABYTE * FEW.most_megabytes


def test_the_clients_of_one_key_ask_as_often_together_as_one_alone_however_they_connect_again() -> None:
    limits, answered = ClientLimits(FEW), 0
    for number in range(1_000):
        peer = Peer(f"shop/{number}", Role.CLIENT, f"p{number}", proven=Principal("shop", Role.CLIENT, "k" * 40))
        try:
            limits.check_request(ConnectedClient(peer, number / 200), number / 200)
            answered += 1
        except LimitReached:
            pass
    assert answered <= (5.0 + BURST_SECONDS) * FEW.most_requests_per_second + 1
    limits.check_request(ConnectedClient(Peer("till/1", Role.CLIENT, "p")), 5.0)
    for second in range(10, 20):
        limits.check_request(ConnectedClient(Peer(f"other-{second}", Role.CLIENT, "p")), float(second))
    assert len(limits._buckets) <= 2 * BURST_SECONDS + 1, "who asks no more leaves nothing"


def test_what_waits_for_a_slot_without_a_leader_is_counted_by_its_weight() -> None:
    scene = Scene(most_pending=10_000)
    client, data = scene.client("client"), (b"x" * (1 << 20),)
    scene.leaders.closed(LEADER, "it died")
    for number in range(50):
        again = Publisher("r", SERVICE, number + 1, 1, "session-1@1", "", data)
        scene.registrations.publish(client, Publish(number, [again]))
    assert scene.writes.waiting_weight + client.waiting_weight >= 10_000
    assert scene.writes.waiting == 10
    assert len(rejected(scene)) == 40


def test_what_was_stored_counts_no_more() -> None:
    scene = Scene()
    client = scene.client("client")
    scene.publish(client, record(0, size=100_000), record(1))
    assert (scene.writes.waiting_weight, client.waiting_weight) == (50, 50)
    scene.outbox.end_turn()
    scene.outbox.answer(Answers([SlotAnswer(1, Access.ACCEPT, 1)]))
    assert (scene.writes.waiting_weight, client.waiting_weight) == (0, 0)
