"""The records of one slot: order, tombstones, digests, differences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from slotreeve.model.datum import sync_digest
from slotreeve.model.publisher import Publisher
from slotreeve_servers.node.records import SlotStore, Stored

RECORDS = st.builds(
    lambda key, version, incarnation, session, data: Publisher(
        key, f"s{ord(key) % 2}", version, incarnation, session, "", data
    ),
    st.sampled_from("abc"),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from(["p", "q"]),
    st.one_of(st.none(), st.tuples(st.sampled_from([b"1", b"2"]))),
)


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
    assert store.digests() == {
        name: sync_digest([r for r in live.values() if r.data_info_id == name])
        for name in {r.data_info_id for r in live.values()}
    }


@given(st.lists(RECORDS, max_size=10), st.lists(RECORDS, max_size=10))
def test_what_differs_makes_the_other_side_equal(ours: list[Publisher], theirs: list[Publisher]) -> None:
    mine, other = SlotStore(), SlotStore()
    for record in ours:
        mine.put(record, 0.0)
    for record in theirs:
        other.put(record, 0.0)
    for _ in range(10):
        different, complete = mine.difference(other.digests(), 1)
        for name, records in different.items():
            other.replace(name, records)
        if complete:
            break
    assert complete
    assert other.digests() == mine.digests()


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
    assert list(store.digests("p")) == ["s"]
    assert sorted(store.digests()) == ["s", "t"]
