"""A follower takes over the leader's history, whatever its own is, in memory and on disk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import ElectionError
from slotreeve_election_fle import synchronise
from slotreeve_election_fle.entries import Entry
from slotreeve_election_fle.messages import NewLeader, SyncPart
from slotreeve_election_fle.synchronise import HistoryTransfer, NotMyHistory, take_over
from slotreeve_election_fle.vote import make_zxid
from slotreeve_machines.storage import MemoryStorage

from tests.election_fle.durable import DurableLedger

keys = st.lists(st.sampled_from("abc"), max_size=6)


def entries(epoch: int, of_keys: list[str], first: int = 1) -> list[Entry]:
    return [Entry(make_zxid(epoch, first + n), key, b"%d" % epoch, n + 1) for n, key in enumerate(of_keys)]


def ledger_of(*histories: list[Entry], commit_to: int = 0, snapshot_every: int = 1_000) -> DurableLedger:
    ledger = DurableLedger(MemoryStorage(), snapshot_every)
    ledger.save(ledger.accept(9))
    for history in histories:
        ledger.save(ledger.append(history))
    ledger.commit(commit_to)
    ledger.save(ledger.snapshot_if_due())
    return ledger


def split(transfer: HistoryTransfer) -> tuple[list[SyncPart], NewLeader]:
    parts = []
    while (part := transfer.next_part()) is not None:
        parts.append(part)
        transfer.arrived(part.number)
    return parts, transfer.end()


@given(keys, keys, keys, st.integers(1, 8), st.booleans(), st.booleans())
def test_a_follower_ends_with_the_leaders_history_and_keeps_it_over_a_restart(
    common: list[str], surplus: list[str], newer: list[str], snapshot_every: int, committed: bool, paced: bool
) -> None:
    shared = entries(1, common)
    commit_to = shared[-1].zxid if committed and shared else 0
    leader = ledger_of(shared, entries(3, newer), commit_to=commit_to, snapshot_every=snapshot_every)
    follower = ledger_of(shared, entries(2, surplus))
    transfer = HistoryTransfer(leader, 1, 9, follower.last_zxid, paced)
    try:
        writes, _ = take_over(follower, *split(transfer))
    except NotMyHistory:
        writes, _ = take_over(follower, *split(HistoryTransfer(leader, 1, 9, None, paced)))
    follower.save(writes)
    for ledger in (follower, DurableLedger(follower.disk._storage)):
        assert (ledger.last_zxid, ledger.last_chain) == (leader.last_zxid, leader.last_chain)
    follower.commit(leader.last_zxid)
    leader.commit(leader.last_zxid)
    assert follower.table == leader.table


def test_a_part_is_not_larger_than_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synchronise, "PART_BYTES", 80)
    leader = ledger_of(entries(1, list("abcabc")))
    parts, _ = split(HistoryTransfer(leader, 1, 9, 0, False))
    assert [len(part.entries) for part in parts] == [2, 2, 2]


def test_a_history_that_is_not_the_leaders_is_an_error() -> None:
    leader, follower = ledger_of(entries(1, ["a", "b"])), ledger_of()
    parts, end = split(HistoryTransfer(leader, 1, 9, 0, False))
    with pytest.raises(ElectionError, match="the history received ends with"):
        take_over(follower, [SyncPart(1, 9, [], parts[0].entries[:1])], end)


def test_no_more_parts_are_under_way_than_the_window_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synchronise, "PART_BYTES", 40)
    leader = ledger_of(entries(1, list("abcabcabc")))
    transfer = HistoryTransfer(leader, 1, 9, 0, True)
    first = [transfer.next_part() for _ in range(synchronise.WINDOW)]
    assert [part.number for part in first if part is not None] == [1, 2, 3, 4]
    assert transfer.next_part() is None
    transfer.arrived(2)
    assert [part is not None for part in (transfer.next_part(), transfer.next_part(), transfer.next_part())] == [
        True,
        True,
        False,
    ]
    transfer.arrived(99)  # more than was sent
    assert transfer.next_part() is not None


@given(st.lists(st.integers(0, 300), min_size=1, max_size=6), st.integers(0, 6), st.integers(20, 120), st.booleans())
def test_values_larger_than_a_part_arrive_whole(sizes: list[int], committed: int, part_bytes: int, late: bool) -> None:
    history = [Entry(make_zxid(1, n + 1), f"k{n}", bytes(range(256)) * 2, 1) for n in range(len(sizes))]
    history = [Entry(e.zxid, e.key, e.value[:size], 1) for e, size in zip(history, sizes, strict=True)]
    leader, follower = ledger_of(history, commit_to=make_zxid(1, committed)), ledger_of()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(synchronise, "PART_BYTES", part_bytes)
        transfer = HistoryTransfer(leader, 1, 9, None, True)
        if late:  # a write that the leader logs while the history is on its way
            newer = [Entry(make_zxid(9, 1), "late", b"x" * 500, 1)]
            leader.save(leader.append(newer))
            transfer.extend(newer)
        parts, end = split(transfer)
    for part in parts:
        assert sum(len(item.value) for item in part.items) + sum(len(x.value) for x in part.entries) <= part_bytes
    follower.save(take_over(follower, parts, end)[0])
    assert (follower.last_zxid, follower.last_chain) == (leader.last_zxid, leader.last_chain)
    follower.commit(leader.last_zxid)
    leader.commit(leader.last_zxid)
    assert follower.table == leader.table


def test_a_history_that_begins_within_a_value_is_an_error() -> None:
    leader, follower = ledger_of(entries(1, ["a"])), ledger_of()
    parts, end = split(HistoryTransfer(leader, 1, 9, 0, False))
    with pytest.raises(ElectionError, match="begins with the second piece"):
        take_over(follower, [SyncPart(1, 9, [], parts[0].entries, 1, True)], end)
