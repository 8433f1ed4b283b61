"""What of the changes of registrations is written down."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.model.publisher import Publisher
from slotreeve_events.changed_services import BASE_AGAIN, ChangedServices, HeldRecords, ServiceRow

A = "com.example.A#@#i#@#g"
Services = dict[str, dict[str, Publisher]]


def record(register_id: str, content: int, version: int = 1, service: str = A) -> Publisher:
    return Publisher(register_id, service, version, 1, "session-1@a", "", (b"%d" % content,))


def put(changed: ChangedServices, services: Services, new: Publisher, at_ms: int, epoch: int = 1) -> None:
    changed.comes(new, HeldRecords(services, epoch), at_ms)
    services.setdefault(new.data_info_id, {})[new.register_id] = new


def end(changed: ChangedServices, services: Services, register_id: str, at_ms: int, epoch: int = 1) -> None:
    changed.ends(A, register_id, HeldRecords(services, epoch), at_ms, "it ended")
    services.get(A, {}).pop(register_id, None)


def state(rows: list[ServiceRow]) -> dict[str, tuple[bytes, ...]]:
    """What a reader of these rows believes, from the last row that stands alone."""
    found: dict[str, tuple[bytes, ...]] = {}
    for row in rows:
        if row.base is not None:
            found = {each.register_id: each.data or () for each in row.base}
        for change in row.changes:
            if change.is_gone:
                found.pop(change.register_id, None)
            else:
                found[change.register_id] = change.data
    return found


def contents(services: Mapping[str, Mapping[str, Publisher]]) -> dict[str, tuple[bytes, ...]]:
    return {name: each.data or () for name, each in services.get(A, {}).items()}


STEP = st.tuples(
    st.sampled_from(("put", "end", "take", "one", "anew", "epoch")), st.sampled_from("abc"), st.integers(0, 2)
)


@given(st.lists(STEP, max_size=60), st.integers(0, 3))
def test_a_reader_of_the_rows_knows_every_state_that_was_there_when_they_were_taken(
    steps: list[tuple[str, str, int]], already: int
) -> None:
    changed, services, rows, epoch = ChangedServices(), Services(), list[ServiceRow](), 1
    services[A] = {name: record(name, 7) for name in "abc"[:already]}
    for number, (what, register_id, content) in enumerate(steps):
        if what == "put":
            put(changed, services, record(register_id, content, number), number, epoch)
        elif what == "end":
            end(changed, services, register_id, number, epoch)
        elif what == "anew":
            changed.begin_anew()
        elif what == "epoch":
            epoch += 1
        else:
            rows += changed.take(1 if what == "one" else 100)
            assert changed or rows == [] or state(rows) == contents(services)
            begun_anew = [row for row in rows if row.base is not None]
            assert rows == [] or begun_anew


def test_a_registration_that_is_only_repeated_is_not_written() -> None:
    changed, services = ChangedServices(), Services()
    put(changed, services, record("a", 1), 10)
    assert [len(row.changes) for row in changed.take(10)] == [1]
    put(changed, services, record("a", 1, version=2), 20)
    assert changed.take(10) == []
    assert not changed


def test_a_provider_that_flaps_between_two_writes_is_one_change_that_says_how_often_it_ended() -> None:
    changed, services = ChangedServices(), Services()
    put(changed, services, record("a", 1), 10)
    changed.take(10)
    for at in range(3):
        end(changed, services, "a", 20 + at)
        put(changed, services, record("a", 1, version=3 + at), 21 + at)
    (row,) = changed.take(10)
    (change,) = row.changes
    assert (change.is_gone, change.ends, change.reason, change.at_ms) == (False, 3, "it ended", 23)


def test_a_registration_that_came_and_went_between_two_writes_is_told_with_what_it_was() -> None:
    changed, services = ChangedServices(), Services()
    put(changed, services, record("a", 5), 10)
    end(changed, services, "a", 11)
    (row,) = changed.take(10)
    (change,) = row.changes
    assert (change.is_gone, change.data, row.base) == (True, (b"5",), [])


def test_what_does_not_fit_waits_and_keeps_the_time_and_the_state_of_its_own() -> None:
    changed, services = ChangedServices(), Services()
    for number in range(5):
        put(changed, services, record("a", number, service=f"s{number}#@#i#@#g"), number)
    assert [row.data_info_id[:2] for row in changed.take(2)] == ["s0", "s1"]
    put(changed, services, record("a", 9, 2, service="s4#@#i#@#g"), 50)
    rows = changed.take(100)
    assert [row.data_info_id[:2] for row in rows] == ["s2", "s3", "s4"]
    assert [(c.data, c.at_ms) for c in rows[-1].changes] == [((b"9",), 50)]


def test_a_service_that_changes_much_is_written_whole_now_and_then() -> None:
    changed, services = ChangedServices(), Services()
    rows = []
    for number in range(2 * BASE_AGAIN + 10):
        put(changed, services, record("a", number, number), number)
        rows += changed.take(10)
    assert 2 <= sum(row.base is not None for row in rows) <= 3


def test_more_changes_than_may_wait_are_counted_until_they_are_few_again() -> None:
    changed, services = ChangedServices(most=10), Services()
    assert changed.has_room(6, 100)
    put(changed, services, record("a", 1), 100)
    assert changed.has_room(4, 101)
    assert not changed.has_room(1, 102)
    assert not changed.has_room(50, 103)
    assert changed.take(100) == []
    assert changed.end_gap(500, few=20) is None
    assert not changed.has_room(5, 600)
    assert changed.end_gap(1000, few=20) == (100, 1000, 66)
    assert changed.end_gap(1500, few=20) is None
    assert changed.has_room(1, 1600)
    put(changed, services, record("b", 2), 1600)
    (row,) = changed.take(100)
    assert row.base == [services[A]["a"]], "after a gap a row stands alone"


def test_changes_that_are_written_in_time_make_no_gap_however_many_they_are() -> None:
    changed, services = ChangedServices(most=10), Services()
    for number in range(100):
        assert changed.has_room(4, number)
        for register_id in "abcd":
            put(changed, services, record(register_id, number, number), number)
        assert changed.end_gap(number, few=1) is None
        assert len(changed.take(100)[0].changes) == 4


def test_a_tombstone_that_comes_too_late_ends_nothing() -> None:
    changed, services = ChangedServices(), Services()
    put(changed, services, record("a", 1, version=5), 10)
    changed.take(10)
    held = HeldRecords(services, 1)
    late = record("a", 1, version=4).tombstone()
    elsewhere = msgspec.structs.replace(record("a", 1, version=5).tombstone(), session="session-2@b")
    changed.buried(late, held, 20, "unpublished", client_left=False)
    changed.buried(late, held, 20, "left", client_left=True)
    changed.buried(elsewhere, held, 20, "left there", client_left=True)
    assert changed.take(10) == []
    changed.buried(record("a", 1, version=5).tombstone(), held, 30, "left", client_left=True)
    services[A].clear()
    ((change,),) = [row.changes for row in changed.take(10)]
    assert (change.is_gone, change.ends, change.reason) == (True, 1, "left")
