"""The brake counts what leaves by service and server, and forgets it after its window."""

from __future__ import annotations

from slotreeve.model.publisher import Publisher
from slotreeve_servers.data.brake import Brake, BrakeLimits, DepartureTally, ServiceTallies


def tally(*clients: str) -> ServiceTallies:
    tallies = ServiceTallies()
    for client in clients:
        tallies.add(Publisher(f"{client}-1", "s", 1, 1, "session-1@1", "", (b"x",)))
    return tallies


def test_the_brake_forgets_what_left_before_its_window() -> None:
    brake = Brake(BrakeLimits(1, 0.0, 10.0, 60.0))
    brake.release(tally("a"), 0.0)
    assert brake.allows_service("s", tally("a").total, 10, 9.0)  # the same client
    assert not brake.allows_service("s", tally("b").total, 10, 9.9)
    assert brake.allows_service("other", tally("b").total, 10, 9.9)
    assert brake.allows_service("s", tally("b").total, 10, 10.0)


def test_a_share_of_nought_allows_nothing_and_a_tally_merges() -> None:
    brake = Brake(BrakeLimits(0, 0.0, 10.0, 60.0))
    one, two = DepartureTally(), DepartureTally()
    one.add(Publisher("client1-0", "s", 1, 1, "session-1@1", "", (b"x",)))
    two.add(Publisher("client2-0", "s", 1, 1, "session-1@1", "", (b"x",)))
    one.merge(two)
    assert (one.records, one.clients) == (2, {"client1", "client2"})
    assert not brake.allows_server(one, lambda: 1000, 0.0)


def test_leases_and_clients_count_alike() -> None:
    brake = Brake(BrakeLimits(1, 0.0, 10.0, 60.0))
    leases = ServiceTallies()
    leases.add_singles("s", ["lease-1"])
    assert brake.allows_service("s", leases.services["s"], 10, 0.0)
    brake.release(leases, 0.0)
    assert not brake.allows_service("s", tally("a").total, 10, 1.0)
    assert not brake.allows_server(tally("a").total, lambda: 1000, 1.0)


def test_nothing_is_held_longer_than_the_longest_time_unless_an_order_freezes_it() -> None:
    brake = Brake(BrakeLimits(0, 0.0, 10.0, 60.0))
    assert not brake.has_held_longest(5.0, 64.9)
    assert brake.has_held_longest(5.0, 65.0)
    brake.freeze(True, 65.0)
    assert not brake.has_held_longest(5.0, 1_000.0)
    brake.freeze(False, 1_000.0)
    assert not brake.has_held_longest(5.0, 1_059.9)
    assert brake.has_held_longest(5.0, 1_060.0)
