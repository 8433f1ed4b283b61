"""Writes on their way: numbered in order, batched, answered once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from slotreeve.errors import ElectionError, NotLeader, VersionConflict
from slotreeve_election_fle import proposals
from slotreeve_election_fle.effects import NotWritten, Written
from slotreeve_election_fle.events import WriteAsked
from slotreeve_election_fle.ledger import Ledger, LedgerContent
from slotreeve_election_fle.proposals import Proposals
from slotreeve_election_fle.vote import make_zxid


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(LedgerContent(accepted_epoch=3), 1_000)


def asked(token: int, key: str = "k", expected: int | None = None, value: bytes = b"v") -> WriteAsked:
    return WriteAsked(token, key, value, expected, 3)


def commit_all(ledger: Ledger, writes: Proposals) -> Sequence[Written | NotWritten]:
    ledger.append(writes.take_batch())
    ledger.commit(ledger.last_zxid)
    return writes.committed()


def test_writes_are_numbered_in_order_and_share_a_batch(ledger: Ledger) -> None:
    writes = Proposals(ledger, 3)
    for token, key in ((1, "a"), (2, "b"), (3, "a")):
        assert writes.ask(asked(token, key)) is None
    assert writes.is_ready
    batch = writes.take_batch()
    assert [(entry.zxid, entry.key, entry.version) for entry in batch] == [
        (make_zxid(3, 1), "a", 1),
        (make_zxid(3, 2), "b", 1),
        (make_zxid(3, 3), "a", 2),
    ]


def test_while_a_batch_is_under_way_later_writes_wait(ledger: Ledger) -> None:
    writes = Proposals(ledger, 3)
    writes.ask(asked(1))
    first = writes.take_batch()
    writes.ask(asked(2))
    assert not writes.is_ready
    ledger.append(first)
    ledger.commit(ledger.last_zxid)
    assert writes.committed() == [Written(1, 1)]
    assert writes.is_ready
    assert commit_all(ledger, writes) == [Written(2, 2)]
    assert writes.is_idle


def test_a_batch_ends_before_it_is_too_large(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposals, "BATCH_BYTES", 100)
    writes = Proposals(ledger, 3)
    for token in (1, 2, 3):
        writes.ask(asked(token, value=b"x" * 60))
    assert [len(commit_all(ledger, writes)) for _ in range(3)] == [1, 1, 1]


def test_the_expected_version_counts_writes_that_are_still_under_way(ledger: Ledger) -> None:
    writes = Proposals(ledger, 3)
    assert writes.ask(asked(1, expected=0)) is None
    assert writes.ask(asked(2, expected=1)) is None
    assert commit_all(ledger, writes) == [Written(1, 1), Written(2, 2)]
    refused = writes.ask(asked(3, expected=1))
    assert isinstance(refused, NotWritten)
    assert isinstance(refused.error, VersionConflict)


def test_a_value_that_is_too_large_is_refused(ledger: Ledger) -> None:
    refused = Proposals(ledger, 3).ask(asked(1, value=bytes(proposals.LARGEST_VALUE + 1)))
    assert refused is not None
    assert type(refused.error) is ElectionError


def test_at_the_end_of_a_term_every_writer_is_answered_once(ledger: Ledger) -> None:
    writes = Proposals(ledger, 3)
    writes.ask(asked(1))
    writes.take_batch()
    writes.ask(asked(2))
    answers = writes.abandon("lease expired")
    assert [answer.token for answer in answers] == [1, 2]
    assert all(isinstance(answer.error, NotLeader) for answer in answers)
    assert "term 3 (lease expired)" in str(answers[0].error)
    assert writes.abandon("again") == []


def test_a_conflict_with_a_write_under_way_is_answered_once_that_one_is_committed(ledger: Ledger) -> None:
    writes = Proposals(ledger, 3)
    assert writes.ask(asked(1, expected=0)) is None
    assert writes.ask(asked(2, expected=0)) is None
    assert writes.ask(asked(3, key="other")) is None
    first, second, third = commit_all(ledger, writes)
    assert (first, second) == (Written(1, 1), Written(3, 1))
    assert isinstance(third, NotWritten)
    assert third.token == 2
    assert isinstance(third.error, VersionConflict)
    assert commit_all(ledger, writes) == []


def test_a_conflict_with_a_write_that_may_be_lost_is_not_known_to_be_one(ledger: Ledger) -> None:
    writes = Proposals(ledger, 3)
    writes.ask(asked(1, expected=0))
    writes.ask(asked(2, expected=0))
    answers = writes.abandon("quorum lost")
    assert [answer.token for answer in answers] == [1, 2]
    assert all(isinstance(answer.error, NotLeader) for answer in answers)
    assert writes.is_idle
