"""The brake counts what ends by service and server, and forgets it after its window."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot
from slotreeve_protocol.leases import lease_record
from slotreeve_servers.data.endings.brake import Brake
from slotreeve_servers.data.endings.ending import Ending, HeldLease, LostRecord
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.data.slots.slots import HeldSlot

SLOT = HeldSlot(Slot(0, "data-1", 1, ()), True)


def a_brake(few: int, share: float, hold_seconds: float = 60.0) -> Brake:
    rules = DataSettings(brake_few=few, brake_share=share, brake_window_seconds=10.0, brake_hold_seconds=hold_seconds)
    return Brake(rules)


def lost(client: str, service: str = "s") -> Ending:
    one = Publisher(f"{client}-1", service, 1, 1, "session-1@1", "", (b"x",))
    return LostRecord(SLOT, one, is_reported=True)


def lease(lease_id: str, service: str = "s") -> Ending:
    return HeldLease(SLOT, lease_record(lease_id, service, 1, 1_000, "", (b"x",)), 0.0)


def let_end(brake: Brake, *endings: Ending, now: float, server: int = 10, size: int = 10) -> int:
    """How many of these the brake lets end, in services of ``size`` registrations."""
    for ending in endings:
        records = {str(n): Publisher(str(n), ending.data_info_id, 1, 1, "p", "", (b"x",)) for n in range(size)}
        SLOT.store.services[ending.data_info_id] = records
    look = brake.look(lambda: server, now)
    for ending in endings:
        look.add(ending)
    ended = [ending for ending in endings if look.lets_end(ending)]
    look.end()
    return len(ended)


def test_the_brake_forgets_what_ended_before_its_window() -> None:
    brake = a_brake(1, 0.0)
    assert let_end(brake, lost("a"), now=0.0) == 1
    assert let_end(brake, lost("a"), now=9.0) == 1  # the same client
    assert let_end(brake, lost("b"), now=9.9) == 0
    assert let_end(brake, lost("b"), now=10.0) == 0, "what ended at 9 s counts still"
    assert let_end(brake, lost("b"), now=19.0) == 1


def test_a_share_of_nought_allows_nothing_and_one_of_all_allows_most() -> None:
    for share, ended in ((0.0, 0), (1.0, 5)):
        brake = a_brake(0, share)
        assert let_end(brake, *[lost(f"c{n}") for n in range(5)], now=0.0, server=100, size=100) == ended


def test_leases_and_clients_count_alike() -> None:
    brake = a_brake(1, 0.0)
    assert let_end(brake, lease("l"), now=0.0) == 1
    assert let_end(brake, lost("a"), now=1.0) == 0
    assert sum(brake.held.values()) == 1


def test_a_large_share_of_all_is_held_although_each_service_loses_few() -> None:
    brake = a_brake(3, 0.2)
    ends = [lost(f"c{n}", f"s{n}") for n in range(5)]
    assert let_end(brake, *ends, now=0.0, server=20) == 0
    assert let_end(brake, *ends, now=0.0, server=26, size=100) == 5


def test_the_clients_of_a_large_service_are_held_and_those_of_others_are_not() -> None:
    brake = a_brake(3, 0.2)
    many = [lost(f"c{n}") for n in range(5)]
    few = [lost(f"d{n}", "t") for n in range(2)]
    assert let_end(brake, *many, *few, now=0.0, server=1000, size=20) == 2
    assert {name for _, name in brake.held} == {"s"}


def test_what_is_in_doubt_is_held() -> None:
    brake = a_brake(3, 0.2)
    look = brake.look(lambda: 10, 0.0)
    one = lost("a")
    look.add(one)
    assert not look.lets_end(one, is_doubtful=True)
    one.held_since = -60.0
    assert look.lets_end(one, is_doubtful=True)


def test_nothing_is_held_longer_than_the_longest_time_unless_an_order_freezes_it() -> None:
    brake = a_brake(0, 0.0)
    assert not brake.has_held_longest(5.0, 64.9)
    assert brake.has_held_longest(5.0, 65.0)
    brake.freeze(True, 65.0)
    assert not brake.has_held_longest(5.0, 1_000.0)
    brake.freeze(False, 1_000.0)
    assert not brake.has_held_longest(5.0, 1_059.9)
    assert brake.has_held_longest(5.0, 1_060.0)


def test_nothing_ends_while_an_order_freezes_ends_and_that_is_no_alarm(caplog: pytest.LogCaptureFixture) -> None:
    brake = a_brake(64, 0.2)
    brake.freeze(True, 0.0)
    assert let_end(brake, lost("a"), now=10_000.0) == 0
    assert caplog.records == []
    brake.freeze(False, 10_000.0)
    assert let_end(brake, lost("a"), now=10_000.0) == 1


def test_an_alarm_says_how_many_are_held_and_of_which_services(caplog: pytest.LogCaptureFixture) -> None:
    brake = a_brake(0, 0.0)
    assert let_end(brake, lost("a"), lost("b"), lost("a", "t"), now=0.0) == 0
    assert let_end(brake, lost("a"), now=1.0) == 0
    (record,) = caplog.records
    assert "3 registrations are held back" in record.getMessage()
    assert record.getMessage().endswith("most of them in s (2), t (1)")
    assert let_end(brake, now=2.0) == 0
    assert len(caplog.records) == 2


@given(
    st.dictionaries(st.sampled_from("stuv"), st.tuples(st.integers(1, 6), st.integers(0, 40)), min_size=1),
    st.floats(0.0, 40.0),
)
def test_what_ends_and_what_is_held_is_all_that_is_due_and_nothing_is_held_for_ever(
    services: dict[str, tuple[int, int]], age: float
) -> None:
    brake, ends = a_brake(3, 0.2, 30.0), list[Ending]()
    for name, (count, more) in services.items():
        ends += [lost(f"{name}{n}", name) for n in range(count)]
        SLOT.store.services[name] = {
            str(n): Publisher(str(n), name, 1, 1, "p", "", (b"x",)) for n in range(count + more)
        }
    total = sum(count + more for count, more in services.values())
    look = brake.look(lambda: total, 100.0)
    for ending in ends:
        ending.held_since = 100.0 - age
        look.add(ending)
    ended = sum(look.lets_end(ending) for ending in ends)
    look.end()
    assert ended + sum(brake.held.values()) == len(ends)
    if age >= 30.0:
        assert not brake.held
    for (_, name), held in brake.held.items():
        count, more = services[name]
        assert (held > 3 and held >= 0.2 * (count + more)) or (len(ends) > 3 and len(ends) >= 0.2 * total)
