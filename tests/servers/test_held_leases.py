"""When leases end, against a twin that looks at all of them; and the guard against mass expiry."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.leases import lease_record
from slotreeve_protocol.slot_messages import SlotWrite
from slotreeve_servers.data.brake import Brake, BrakeLimits, limits_of
from slotreeve_servers.data.held_leases import DRIFT, HeldLeases, find_lease
from slotreeve_servers.data.lease_guard import DueService, LeaseGuard
from slotreeve_servers.data.lease_times import TICK_SECONDS, HeldLease, LeaseTimes
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.data.slots import HeldSlot, HeldSlots

ALL = 10**6
RULES = DataSettings(brake_few=3, brake_share=0.2, brake_hold_seconds=30.0)


def a_table(epoch: int = 1) -> SlotTable:
    return SlotTable(epoch, tuple(Slot(n, "data-1", epoch, ()) for n in range(2)))


def some_slots() -> HeldSlots:
    slots = HeldSlots("data-1")
    slots.apply(a_table())
    for slot in slots.led():
        slot.serve()
    return slots


# --- the wheel -------------------------------------------------------------------------------------------------------


def a_lease(until: float, ttl: float = 10.0) -> HeldLease:
    return HeldLease(some_slots().held[0], "s", "a", ttl, until)


@settings(max_examples=300)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 5), st.floats(0.0, 30.0)),
            st.tuples(st.just("renew"), st.integers(0, 5), st.floats(0.0, 30.0)),
            st.tuples(st.just("drop"), st.integers(0, 5), st.just(0.0)),
            st.tuples(st.just("pass"), st.just(0), st.floats(0.0, 20.0)),
        ),
        max_size=60,
    ),
    st.integers(1, 5),
)
def test_the_wheel_finds_what_a_look_at_all_leases_finds(steps: list[tuple[str, int, float]], most: int) -> None:
    now = 100.0
    times = LeaseTimes(now)
    leases = [a_lease(0.0) for _ in range(6)]
    watched: set[int] = set()
    for what, number, seconds in steps:
        lease = leases[number]
        if what == "add":
            lease.until = now + seconds
            times.add(lease)
            watched.add(number)
        elif what == "renew":
            lease.until = max(lease.until, now + seconds)  # the wheel is not told
        elif what == "drop":
            times.drop(lease)
            watched.discard(number)
        else:
            now += seconds
            found = {leases.index(found) for _ in range(100) for found in times.due(now, most)}
            assert all(leases[n].until <= now for n in found)
            assert found <= watched
            watched -= found
            late = {n for n in watched if leases[n].until <= now - TICK_SECONDS}
            assert not late


def test_one_call_looks_at_no_more_leases_than_it_is_told() -> None:
    times = LeaseTimes(0.0)
    for _ in range(10):
        times.add(a_lease(1.0))
    assert [len(times.due(5.0, 4)) for _ in range(4)] == [4, 4, 2, 0]


# --- leases by slot and service --------------------------------------------------------------------------------------


class Leased:
    """Two led slots with leases; the first has service ``s0``, the second ``s1``."""

    def __init__(self) -> None:
        self.slots = some_slots()
        self.now = 100.0
        self.held = HeldLeases(self.slots, self.now)

    def slot(self, number: int) -> HeldSlot:
        return self.slots.held[number]

    def put(self, number: int, lease_id: str, ttl_ms: int) -> None:
        """The store has a lease that nobody has renewed here."""
        slot = self.slot(number)
        record = lease_record(lease_id, f"s{number}", slot.next_version(), ttl_ms, "", (b"x",))
        slot.apply(SlotWrite(number, slot.slot.leader_epoch, [record], [], []), self.now)

    def register(self, number: int, lease_id: str, ttl_ms: int) -> None:
        self.put(number, lease_id, ttl_ms)
        record = find_lease(self.slot(number), f"s{number}", lease_id)
        assert record is not None
        self.held.registered(self.slot(number), record, self.now)

    def due(self) -> set[tuple[str, str]]:
        self.held.look(self.now, ALL)
        found = self.held.due_before(self.now)
        return {(name, lease.lease_id) for name, service in found.items() for lease in service.leases}


@settings(max_examples=300)
@given(st.integers(0, 2**32), st.integers(10, 60))
def test_leases_are_due_exactly_when_a_dictionary_of_deadlines_says_so(seed: int, steps: int) -> None:
    rng, leased = random.Random(seed), Leased()
    ends: dict[tuple[str, str], tuple[float, float]] = {}
    for _ in range(steps):
        number, lease_id = rng.randrange(2), rng.choice("abcd")
        name, slot = f"s{number}", leased.slot(number)
        key = (name, lease_id)
        match rng.choice(["register", "renew", "end", "pass", "pass"]):
            case "register":
                ttl = rng.choice([1.0, 5.0, 20.0])
                leased.register(number, lease_id, round(1000 * ttl))
                ends[key] = (leased.now + DRIFT * ttl, DRIFT * ttl)
            case "renew":
                unknown = leased.held.renew(slot, name, [lease_id], leased.now)
                assert unknown == ([] if key in ends else [lease_id])
                if key in ends:
                    ends[key] = (leased.now + ends[key][1], ends[key][1])
            case "end":
                record = find_lease(slot, name, lease_id)
                if record is not None:
                    slot.store.purge(name, record.register_id)
                leased.held.ended(slot, name, lease_id)
                ends.pop(key, None)
            case "pass":
                leased.now += rng.choice([0.1, 0.9, 3.0, 8.0])
        due = leased.due()
        assert {key for key in ends if ends[key][0] <= leased.now - TICK_SECONDS} <= due
        assert due <= {key for key in ends if ends[key][0] <= leased.now}
        assert leased.held.count == len(ends)
        assert leased.held.due == len(due)


def test_a_lease_of_the_store_is_known_before_it_was_taken_over() -> None:
    leased = Leased()
    leased.put(0, "a", 5_000)
    assert leased.held.renew(leased.slot(0), "s0", ["a", "b"], leased.now) == ["b"]
    assert leased.held.count == 1


def test_to_take_a_slot_over_does_not_shorten_what_was_renewed_before() -> None:
    leased = Leased()
    leased.put(0, "a", 5_000)
    leased.held.renew(leased.slot(0), "s0", ["a"], leased.now + 4)
    record = find_lease(leased.slot(0), "s0", "a")
    assert record is not None
    leased.held.take_over(leased.slot(0), record, leased.now)
    leased.now += 5.0 * DRIFT + 2
    assert not leased.due()


def test_the_leases_of_a_slot_that_is_led_anew_are_forgotten_until_they_are_taken_over() -> None:
    leased = Leased()
    leased.register(0, "a", 5_000)
    leased.register(1, "b", 5_000)
    leased.now += 60
    assert len(leased.due()) == 2
    leased.slots.apply(a_table(2))
    leased.held.forget_former()
    assert (leased.held.count, leased.due()) == (0, set())


def test_what_is_due_waits_while_its_slot_does_not_serve() -> None:
    leased = Leased()
    leased.register(0, "a", 5_000)
    leased.slot(0).serving = False
    leased.now += 60
    assert not leased.due()
    leased.slot(0).serving = True
    assert leased.due() == {("s0", "a")}


# --- the guard -------------------------------------------------------------------------------------------------------


def due_leases(count: int, until: float, size: int, first: int = 0) -> DueService:
    slot = some_slots().held[0]
    return DueService([HeldLease(slot, "s", f"l{first + n}", 10.0, until) for n in range(count)], size)


def test_few_leases_end_whatever_their_share_is() -> None:
    guard = LeaseGuard(Brake(limits_of(RULES)))
    assert len(guard.release({"s": due_leases(3, 0.0, 3)}, lambda: 3, 0.0, 0.0)) == 3
    assert not guard.held


def test_a_large_share_of_a_service_is_held_and_ends_when_the_time_of_the_hold_is_over() -> None:
    guard = LeaseGuard(Brake(limits_of(RULES)))
    due = {"s": due_leases(5, 0.0, 20), "t": due_leases(2, 0.0, 100)}
    released = guard.release(due, lambda: 1000, 0.0, 0.0)
    assert (len(released), guard.held) == (2, {"s": 5})
    assert guard.release({"s": due["s"]}, lambda: 1000, 0.0, 29.9) == []
    assert len(guard.release({"s": due["s"]}, lambda: 1000, 0.0, 30.0)) == 5
    assert (guard.overdue, guard.held) == (5, {})


def test_a_small_share_of_a_service_ends() -> None:
    guard = LeaseGuard(Brake(limits_of(RULES)))
    assert len(guard.release({"s": due_leases(5, 0.0, 26)}, lambda: 26, 0.0, 0.0)) == 5


def test_a_large_share_of_all_leases_is_held_although_each_service_loses_few() -> None:
    guard = LeaseGuard(Brake(limits_of(RULES)))
    due = {f"s{n}": due_leases(1, 0.0, 10) for n in range(5)}
    assert guard.release(due, lambda: 20, 0.0, 0.0) == []
    assert sum(guard.held.values()) == 5


def test_what_ended_shortly_before_counts_too() -> None:
    guard = LeaseGuard(Brake(limits_of(RULES)))
    assert len(guard.release({"s": due_leases(3, 0.0, 10)}, lambda: 10, 0.0, 0.0)) == 3
    assert guard.release({"s": due_leases(1, 1.0, 7, 3)}, lambda: 7, 0.0, 1.0) == []
    assert len(guard.release({"s": due_leases(1, 1.0, 7, 3)}, lambda: 7, 0.0, 11.0)) == 1


def test_nothing_ends_while_nobody_is_heard_renewing_anything() -> None:
    guard = LeaseGuard(Brake(limits_of(RULES)))
    due = {"s": due_leases(1, 0.0, 1000)}
    assert guard.release(due, lambda: 1000, 6.0, 0.0) == []
    assert guard.held == {"s": 1}
    assert len(guard.release(due, lambda: 1000, 0.5, 1.0)) == 1


def test_nothing_ends_while_an_order_freezes_ends_and_then_the_guard_has_its_whole_time_again() -> None:
    brake = Brake(limits_of(RULES))
    guard = LeaseGuard(brake)
    many, few = {"s": due_leases(50, 0.0, 50)}, {"s": due_leases(1, 0.0, 50)}
    brake.freeze(True, 0.0)
    assert guard.release(few, lambda: 50, 0.0, 10_000.0) == []
    assert guard.held == {"s": 1}
    assert guard.release(many, lambda: 50, 0.0, 10_000.0) == []
    assert (guard.held, guard.overdue) == ({"s": 50}, 0)
    brake.freeze(False, 10_000.0)
    assert guard.release(many, lambda: 50, 0.0, 10_029.0) == []
    assert len(guard.release(many, lambda: 50, 0.0, 10_030.0)) == 50


@given(
    st.dictionaries(st.sampled_from("stuv"), st.tuples(st.integers(1, 6), st.integers(0, 40)), min_size=1),
    st.floats(0.0, 40.0),
    st.floats(0.0, 20.0),
)
def test_what_is_released_and_what_is_held_is_all_that_is_due_and_nothing_is_held_for_ever(
    services: dict[str, tuple[int, int]], age: float, silence: float
) -> None:
    guard = LeaseGuard(Brake(limits_of(RULES)))
    due = {name: due_leases(count, 100.0 - age, count + more) for name, (count, more) in services.items()}
    total = sum(service.size for service in due.values())
    released = guard.release(due, lambda: total, silence, 100.0)
    assert len(released) + sum(guard.held.values()) == sum(len(service.leases) for service in due.values())
    if age > RULES.brake_hold_seconds:
        assert not guard.held
    for name, held in guard.held.items():
        together = sum(len(service.leases) for service in due.values())
        is_large = held > 3 and held >= 0.2 * due[name].size
        assert is_large or (together > 3 and together >= 0.2 * total) or silence > 5.0


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_share_may_be_anything(share: float) -> None:
    guard = LeaseGuard(Brake(BrakeLimits(0, share, 10.0, 60.0)))
    released = guard.release({"s": due_leases(5, 0.0, 100)}, lambda: 100, 0.0, 0.0)
    assert len(released) == (5 if share else 0)
