"""Order of proposals, counting, quorums (fle-scenarios.md A, B): by S number, and against dumb twins."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve_election_fle.quorum import Quorum
from slotreeve_election_fle.vote import NOBODY, State, Vote, agree, epoch_of, make_zxid, outranks, supporters

small = st.integers(0, 3)
votes = st.builds(Vote, small, small, small, small, st.sampled_from(State))


def proposal(sid: int, zxid: int, epoch: int) -> Vote:
    return Vote(sid, zxid, epoch, 1)


@pytest.mark.parametrize(
    ("new", "current", "expected"),
    [
        pytest.param((4, 0, 0), (3, 0, 2), False, id="S1 a lower epoch loses though the id is higher"),
        pytest.param((0, 0, 1), (1, 0, 0), True, id="S2 a higher epoch wins"),
        pytest.param((0, 1, 0), (1, 0, 0), True, id="S3 a higher zxid wins"),
        pytest.param((1, 1, 0), (0, 1, 0), True, id="S4 a higher id wins"),
        pytest.param((2, 5, 3), (2, 5, 3), False, id="S5 identical proposals never win"),
        pytest.param((0, 0, 0), (NOBODY, NOBODY, NOBODY), True, id="S8 anybody beats nobody"),
        pytest.param((NOBODY, 9, 9), (0, 0, 0), False, id="nobody never wins, whatever its history"),
    ],
)
def test_the_order_of_proposals(new: tuple[int, int, int], current: tuple[int, int, int], expected: bool) -> None:
    assert outranks(proposal(*new), proposal(*current)) is expected


@given(st.lists(st.tuples(small, small, small), min_size=1, max_size=6))
def test_whoever_wins_a_tournament_is_the_maximum_by_epoch_zxid_and_id(candidates: list[tuple[int, int, int]]) -> None:
    best = proposal(*candidates[0])
    for candidate in candidates[1:]:
        new = proposal(*candidate)
        best = new if outranks(new, best) else best
    assert (best.peer_epoch, best.zxid, best.leader) == max((e, z, s) for s, z, e in candidates)


@given(votes, votes)
def test_agreement_is_symmetric_and_strict_only_while_somebody_looks(one: Vote, other: Vote) -> None:
    assert agree(one, other) is agree(other, one)
    same = (one.leader, one.peer_epoch) == (other.leader, other.peer_epoch)
    if State.LOOKING in (one.state, other.state):
        same = same and (one.zxid, one.round) == (other.zxid, other.round)
    assert agree(one, other) is same


def z(epoch: int, counter: int) -> int:
    return make_zxid(epoch, counter)


S9 = {
    0: Vote(4, z(1, 1), 2, 1, State.FOLLOWING),
    1: Vote(4, z(1, 2), 2, 1, State.FOLLOWING),
    3: Vote(4, z(2, 1), 2, 2, State.FOLLOWING),
    4: Vote(4, z(2, 1), 2, 2, State.LEADING),
}
S11 = {sid: Vote(4, z(2, 1), 1, 1) for sid in (0, 1, 3)} | {4: Vote(4, z(2, 1), 1, 1, State.LEADING)}
S12 = {
    0: Vote(4, z(1, 1), 2, 1),
    1: Vote(4, z(2, 1), 2, 2),
    3: Vote(4, z(2, 1), 2, 3),
    4: Vote(4, z(2, 1), 2, 3, State.LEADING),
}


@pytest.mark.parametrize(
    ("recorded", "vote", "expected"),
    [
        pytest.param(S9, S9[4], {0, 1, 3, 4}, id="S9 out of election zxid and round do not count"),
        pytest.param(S11, S11[0], {0, 1, 3, 4}, id="S11 looking and equal"),
        pytest.param(S12, S12[1], {1}, id="S12 looking votes compare all four fields"),
    ],
)
def test_who_supports_a_vote(recorded: dict[int, Vote], vote: Vote, expected: set[int]) -> None:
    assert supporters(recorded, vote) == expected


def test_s14_strangers_are_not_counted() -> None:
    quorum = Quorum([1, 2, 3, 4, 5])
    assert not quorum.contains({1, 2})
    assert not quorum.contains({1, 2, 6})
    assert quorum.contains({1, 2, 6, 3})
    assert not quorum.contains(())


@given(st.integers(1, 7))
def test_any_two_majorities_share_a_voter(size: int) -> None:
    quorum = Quorum(range(size))
    sets = [set(c) for k in range(size + 1) for c in combinations(range(size), k) if quorum.contains(c)]
    assert sets
    assert all(one & other for one in sets for other in sets)


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**32 - 1))
def test_a_zxid_names_its_epoch(epoch: int, counter: int) -> None:
    assert epoch_of(make_zxid(epoch, counter)) == epoch
