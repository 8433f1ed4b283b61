"""The followers of a leader, counted: against a dumb twin."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from slotreeve_election_fle.learners import Learner, Learners, LearnerStage
from slotreeve_election_fle.quorum import Quorum

LEADER = 1
followers = st.dictionaries(
    st.integers(2, 7), st.tuples(st.sampled_from(LearnerStage), st.booleans(), st.integers(0, 6)), max_size=6
)


def learners_of(quorum: Quorum, states: dict[int, tuple[LearnerStage, bool, int]], answered: float = 0.0) -> Learners:
    learners = Learners(LEADER, quorum)
    for sid, (stage, counts, acked) in states.items():
        learners.add(Learner(sid, 1, counts, False, stage, acked_zxid=acked, answered_at=answered))
    return learners


@given(st.integers(1, 7), followers, st.integers(0, 6))
def test_a_quorum_has_what_more_than_half_of_the_voters_have(
    size: int, states: dict[int, tuple[LearnerStage, bool, int]], last_zxid: int
) -> None:
    learners = learners_of(Quorum(range(1, size + 1)), states)
    active = [(sid, zxid) for sid, (stage, counts, zxid) in states.items() if stage is LearnerStage.ACTIVE and counts]
    acked = [zxid for sid, zxid in active if sid <= size]
    held = [zxid for zxid in range(last_zxid + 1) if 2 * (1 + sum(each >= zxid for each in acked)) > size]
    assert learners.quorum_zxid(last_zxid) == max(held, default=0)
    assert learners.is_quorum() is (2 * (1 + len(acked)) > size)


def test_only_active_voters_renew_the_lease() -> None:
    quorum = Quorum([1, 2, 3])
    assert learners_of(quorum, {2: (LearnerStage.SENT, True, 0)}, answered=5.0).renewed_at() is None
    assert learners_of(quorum, {2: (LearnerStage.ACTIVE, False, 0)}, answered=5.0).renewed_at() is None
    assert learners_of(quorum, {2: (LearnerStage.ACTIVE, True, 0)}, answered=5.0).renewed_at() == 5.0


def test_a_follower_owes_until_it_has_acknowledged_the_last_entry() -> None:
    learners = Learners(LEADER, Quorum([1, 2, 3]))
    learner = Learner(2, 1, True, False)
    learners.add(learner)
    assert list(learners.debtors()) == []
    learner.owes_since = 1.0
    assert list(learners.debtors()) == [(learner, 1.0)]
    learner.acknowledge(3, last_zxid=5, now=2.0)
    assert list(learners.debtors()) == [(learner, 2.0)]
    learner.acknowledge(9, last_zxid=5, now=3.0)
    assert list(learners.debtors()) == []
    assert learner.acked_zxid == 5


def test_a_follower_is_dropped_once() -> None:
    learners = learners_of(Quorum([1, 2]), {2: (LearnerStage.ACTIVE, True, 0)})
    assert learners.get(2) is not None
    assert learners.remove(2)
    assert not learners.remove(2)
    assert learners.at_stage() == []
