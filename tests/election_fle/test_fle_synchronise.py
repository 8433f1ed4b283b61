"""A follower takes over the leader's history, whatever its own is, in memory and on disk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import ElectionError
from slotreeve_election_fle import synchronise
from slotreeve_election_fle.entries import Entry
from slotreeve_election_fle.messages import NewLeader, SyncPart
from slotreeve_election_fle.synchronise import NotMyHistory, difference, take_over, whole
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


def split(messages: list[SyncPart | NewLeader]) -> tuple[list[SyncPart], NewLeader]:
    *parts, end = messages
    assert isinstance(end, NewLeader)
    return [part for part in parts if isinstance(part, SyncPart)], end


@given(keys, keys, keys, st.integers(1, 8), st.booleans())
def test_a_follower_ends_with_the_leaders_history_and_keeps_it_over_a_restart(
    common: list[str], surplus: list[str], newer: list[str], snapshot_every: int, committed: bool
) -> None:
    shared = entries(1, common)
    commit_to = shared[-1].zxid if committed and shared else 0
    leader = ledger_of(shared, entries(3, newer), commit_to=commit_to, snapshot_every=snapshot_every)
    follower = ledger_of(shared, entries(2, surplus))
    messages = difference(leader, 1, 9, follower.last_zxid)
    try:
        writes, _ = take_over(follower, *split(messages))
    except NotMyHistory:
        writes, _ = take_over(follower, *split(whole(leader, 1, 9)))
    follower.save(writes)
    for ledger in (follower, DurableLedger(follower.disk._storage)):
        assert (ledger.last_zxid, ledger.last_chain) == (leader.last_zxid, leader.last_chain)
    follower.commit(leader.last_zxid)
    leader.commit(leader.last_zxid)
    assert follower.table == leader.table


def test_a_part_is_not_larger_than_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synchronise, "PART_BYTES", 80)
    leader = ledger_of(entries(1, list("abcabc")))
    parts, _ = split(difference(leader, 1, 9, 0))
    assert [len(part.entries) for part in parts] == [2, 2, 2]


def test_a_history_that_is_not_the_leaders_is_an_error() -> None:
    leader, follower = ledger_of(entries(1, ["a", "b"])), ledger_of()
    parts, end = split(difference(leader, 1, 9, 0))
    with pytest.raises(ElectionError, match="the history received ends with"):
        take_over(follower, [SyncPart(1, 9, [], parts[0].entries[:1])], end)
