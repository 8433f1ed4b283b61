"""The records of one slot: order, tombstones, digests, differences."""

from __future__ import annotations

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from slotreeve.model.publisher import Publisher
from slotreeve_protocol.slot_messages import SlotDigests
from slotreeve_servers.node.deltas import size_of
from slotreeve_servers.node.digests import sync_hash
from slotreeve_servers.node.records import FEW_RECORDS, PARTS_PER_ANSWER, START, SlotStore, Stored, StoreDifference

from tests.servers.sync_digest import sync_digest

RECORDS = st.builds(
    lambda key, version, incarnation, session, data: Publisher(
        key, f"s{ord(key) % 2}", version, incarnation, session, "", data
    ),
    st.sampled_from("abc"),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from(["p", "q"]),
    st.one_of(st.none(), st.lists(st.sampled_from([b"1", b"22"]), max_size=2).map(tuple)),
)


def test_the_hash_of_a_record_depends_on_its_id_version_and_incarnation_and_on_nothing_else() -> None:
    record = Publisher("r", "s", 1, 1, "p", "", (b"x",))
    changes: list[dict[str, object]] = [{"register_id": "q"}, {"version": 2}, {"incarnation": 2}]
    others = [structs.replace(record, **change) for change in changes]
    assert len({sync_hash(each) for each in (record, *others)}) == 4
    assert sync_hash(record) == sync_hash(structs.replace(record, data=(b"y",), zone="east", session="q"))
    assert sync_hash(record) == 8093459093312886689, "servers of two versions must agree on it"


@given(st.lists(RECORDS, max_size=30))
def test_the_greatest_version_and_incarnation_wins_in_whatever_order_records_come(records: list[Publisher]) -> None:
    """The dumb twin keeps the first of the greatest for each register id."""
    store, twin = SlotStore(), dict[str, Publisher]()
    for record in records:
        old = twin.get(record.register_id)
        newer = old is None or (record.version, record.incarnation) > (old.version, old.incarnation)
        stored = store.put(record, 0.0)
        assert bool(stored) is newer
        if newer:
            visible = (record.data is None) != (old is None or old.data is None) or (
                record.data is not None and old is not None and old.data != record.data
            )
            assert (stored is Stored.CHANGED) is visible
            twin[record.register_id] = record
    live = {key: r for key, r in twin.items() if r.data is not None}
    assert {r.register_id: r for r in store.records()} == live
    expected = {
        name: sync_digest([r for r in live.values() if r.data_info_id == name])
        for name in {r.data_info_id for r in live.values()}
    }
    assert store.digests() == (expected, {})


VERSIONS = st.integers(1, 1_000)
MANY_RECORDS = st.builds(
    lambda key, version, session, data: Publisher(f"m{key}", "many", version, 1, session, "", data),
    st.integers(0, FEW_RECORDS + 4),
    VERSIONS,
    st.sampled_from(["p", "q"]),
    st.one_of(st.none(), st.just((b"1",))),
)
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "look", "purge", "put", "look", "gone", "replace"]),
        st.one_of(RECORDS, MANY_RECORDS),
    ),
    max_size=60,
)


@given(st.integers(0, 2 * FEW_RECORDS), CHANGES, st.sampled_from([16, 16_000, 1 << 20]))
def test_running_digests_equal_those_of_all_records_whatever_changed(
    size: int, changes: list[tuple[str, Publisher]], part_bytes: int
) -> None:
    """The dumb twin hashes every record of every part. A look comes after any number of changes. ``size``: records of
    the larger service in the beginning."""
    store = SlotStore(part_bytes)
    for number in range(size):
        store.put(Publisher(f"m{number}", "many", 0, 1, "p", "", (b"0",)), 0.0)
    for kind, record in [*changes, ("look", Publisher("a", "s", 1, 1, "p", "", None))]:
        if kind == "put":
            store.put(record, 0.0)
        elif kind == "purge":
            store.purge(record.data_info_id, record.register_id)
        elif kind == "gone":
            store.put_gone(record.tombstone(), 0.0)
        elif kind == "replace":
            store.replace(record.data_info_id, [record] if record.data is not None else [])
        live = list(store.records())
        assert (store.size, store.payload) == (len(live), sum(len(part) for r in live for part in r.data or ()))
        for session in (None, "p", "q") if kind == "look" else ():
            whole, parts = store.digests(session)
            records = [r for r in store.records() if session in (None, r.session)]
            names = {r.data_info_id for r in records}
            assert whole.keys() | {name for name, found in parts.items() if found.digests} == names
            for name, digest in whole.items():
                assert digest == sync_digest([r for r in records if r.data_info_id == name])
            for name, found in parts.items():
                numbers = {r: crc32(r.register_id.encode()) % found.count for r in records if r.data_info_id == name}
                assert found.digests == {
                    number: sync_digest([r for r, n in numbers.items() if n == number])
                    for number in set(numbers.values())
                }


def asked(store: SlotStore) -> SlotDigests:
    return SlotDigests(0, 1, *store.digests())


def take(found: StoreDifference, follower: SlotStore) -> None:
    for name, records in found.records.items():
        follower.replace(name, records)
    for part in found.parts:
        follower.replace_part(part)


def copied(source: SlotStore, follower: SlotStore, limit: int) -> tuple[int, int, int]:
    """Compare until the follower has all; returns the number of answers, their bytes, and their cost in bytes."""
    answers = size = cost = 0
    while True:
        found = source.difference(asked(follower), limit)
        answers += 1
        sent = [*found.records.values(), *(part.records for part in found.parts)]
        size += sum(size_of(record) for records in sent for record in records)
        cost += found.cost
        assert answers < 5_000
        take(found, follower)
        if found.complete:
            return answers, size, cost


MANY = st.lists(
    st.builds(
        lambda number, version, service: Publisher(f"r{number}", service, version, 1, "p", "", (b"x",)),
        st.integers(0, 60),
        st.integers(1, 3),
        st.sampled_from(["s", "t", "large", "large", "large"]),
    ),
    max_size=80,
    unique_by=lambda r: r.register_id,
)
PART_BYTES = st.sampled_from([16, 1_600, 8_000, 1 << 20])


@given(MANY, MANY, PART_BYTES, PART_BYTES, st.sampled_from([1, 500, 1 << 20]))
def test_a_comparison_makes_the_other_side_equal_in_a_bounded_number_of_answers(
    ours: list[Publisher], theirs: list[Publisher], our_parts: int, their_parts: int, limit: int
) -> None:
    """The dumb twin is a copy of all records."""
    mine, other = SlotStore(our_parts), SlotStore(their_parts)
    for record in ours:
        mine.put(record, 0.0)
    for record in theirs:
        other.put(record, 0.0)
    answers, size, cost = copied(mine, other, limit)
    assert mine.services == other.services
    assert (mine.size, mine.payload) == (other.size, other.payload)
    assert {r.register_id: r for r in other.records()} == {r.register_id: r for r in mine.records()}
    whole = sum(size_of(r) for r in ours)
    assert answers <= 5 + (cost // limit if limit > 1 else len(ours) + len(theirs))
    assert size <= 2 * whole
    assert copied(mine, other, limit) == (1, 0, 0)


def large(number: int, version: int = 1) -> Publisher:
    return Publisher(f"r{number}", "s", version, 1, "p", "", (b"x" * 20,))


def test_one_difference_in_a_large_service_costs_one_part_of_it() -> None:
    mine, other = SlotStore(16_000), SlotStore(16_000)
    for number in range(5_000):
        mine.put(large(number), 0.0)
        other.put(large(number), 0.0)
    whole = 5_000 * size_of(large(0))
    other.purge("s", "r77")
    other.put(large(99, 2), 0.0)
    answers, size, _ = copied(mine, other, 16_000)
    assert answers == 1
    assert 0 < size <= 2 * 16_000 / PARTS_PER_ANSWER * 3 < whole / 15
    assert mine.services == other.services


@pytest.mark.parametrize("names", [1, 2_000])
def test_what_the_other_side_must_remove_comes_in_bounded_answers_too(names: int) -> None:
    """Seen with 300,000 instances: one answer named every part as empty, and to remove them took 2.7 s in one turn."""
    mine, other = SlotStore(16_000), SlotStore(16_000)
    for number in range(8_000):
        other.put(structs.replace(large(number), data_info_id=f"s{number % names}"), 0.0)
    removed: list[int] = []
    found = StoreDifference(complete=False)
    while not found.complete:
        before = sum(1 for _ in other.records())
        found = mine.difference(asked(other), 16_000)
        take(found, other)
        removed.append(before - sum(1 for _ in other.records()))
    assert sum(removed) == 8_000
    assert len(removed) > 7
    assert max(removed) < 1_500


def test_a_large_service_is_copied_over_several_answers_although_it_changes_meanwhile() -> None:
    mine, other = SlotStore(16_000), SlotStore(16_000)
    for number in range(5_000):
        mine.put(large(number), 0.0)
    answers = 0
    complete = False
    while not complete:
        found = mine.difference(asked(other), 16_000)
        assert found.cost < 2 * 16_000
        for part in found.parts:
            other.replace_part(part)
        mine.put(large(answers, 2), 0.0)
        other.put(large(answers, 2), 0.0)
        complete = found.complete
        answers += 1
    assert answers < 2 * 5_000 * size_of(large(0)) / 16_000
    assert copied(mine, other, 16_000)[0] == 1
    assert mine.services == other.services


def test_differences_that_stay_do_not_keep_a_comparison_from_its_end() -> None:
    """A leader may hold records back that the session server no longer has; each answer goes on behind the last one."""
    mine, other = SlotStore(1_600), SlotStore(1_600)
    for number in range(300):
        mine.put(large(number), 0.0)
        mine.put(Publisher(f"q{number}", f"t{number}", 1, 1, "p", "", (b"x",)), 0.0)
    after, seen = START, list[str]()
    for _ in range(200):
        found = mine.difference(structs.replace(asked(other), after=after), 1_600)
        seen += [r.register_id for records in found.records.values() for r in records]
        for part in found.parts:
            seen += [r.register_id for r in part.records]
            other.part("s", part.count, part.number)
        if found.complete:
            break
        after = found.upto
    assert found.complete
    assert set(seen) == {r.register_id for r in mine.records()}
    assert len(seen) < 650


def record(version: int = 1, incarnation: int = 1, session: str = "p") -> Publisher:
    return Publisher("r", "s", version, incarnation, session, "", (b"x",))


def test_a_departure_removes_only_a_record_that_is_no_newer_and_of_the_same_process() -> None:
    for held, removed in ((record(), True), (record(incarnation=2), False), (record(session="q"), False)):
        store = SlotStore()
        store.put(held, 0.0)
        assert store.put_gone(record().tombstone(), 0.0) is removed
        assert bool(list(store.records())) is not removed


def test_a_purged_record_may_come_back_and_a_buried_one_only_newer() -> None:
    store = SlotStore()
    store.put(record(), 0.0)
    assert store.purge("s", "r")
    assert not store.purge("s", "r")
    assert store.put(record(), 0.0)
    store.put(record(version=2).tombstone(), 0.0)
    assert not store.put(record(), 1.0)
    store.compact(before=0.5)
    assert store.put(record(), 1.0)


def test_digests_of_one_process_leave_the_others_out() -> None:
    store = SlotStore()
    store.put(record(), 0.0)
    store.put(Publisher("o", "t", 1, 1, "q", "", (b"x",)), 0.0)
    assert list(store.digests("p")[0]) == ["s"]
    assert sorted(store.digests()[0]) == ["s", "t"]
