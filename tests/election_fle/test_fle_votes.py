"""Order of proposals, counting, quorums (docs/fle.md, A and B): by S number, and against dumb twins."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import ConfigError
from slotreeve_election_fle.quorum import Quorum, Weighing
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
        pytest.param((0, 0, 0), (NOBODY, NOBODY, NOBODY), True, id="S8 every candidate beats nobody"),
        pytest.param((NOBODY, 9, 9), (0, 0, 0), False, id="nobody never wins, whatever its history"),
    ],
)
def test_the_order_of_proposals(new: tuple[int, int, int], current: tuple[int, int, int], expected: bool) -> None:
    assert outranks(proposal(*new), proposal(*current)) is expected


@given(st.lists(st.tuples(small, small, small), min_size=1, max_size=6))
def test_the_winner_of_a_tournament_is_the_maximum_by_epoch_zxid_and_id(candidates: list[tuple[int, int, int]]) -> None:
    best = proposal(*candidates[0])
    for candidate in candidates[1:]:
        new = proposal(*candidate)
        best = new if outranks(new, best) else best
    assert (best.peer_epoch, best.zxid, best.leader) == max((e, z, s) for s, z, e in candidates)


@given(votes, votes)
def test_agreement_is_symmetric_and_strict_only_while_one_side_looks(one: Vote, other: Vote) -> None:
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


def test_s16_a_quorum_is_half_the_weight_in_half_the_groups_that_weigh_anything() -> None:
    nine = Quorum(range(9), dict.fromkeys(range(3, 9), 0), [{0, 1, 2}, {3, 4, 5}, {6, 7, 8}])
    assert nine.contains({0, 1})
    for too_few in ({0}, {3, 4, 5, 6, 7, 8}, set[int]()):
        assert not nine.contains(too_few)
    assert nine.candidates == {0, 1, 2}
    three_zones = Quorum(range(9), {}, [{0, 1, 2}, {3, 4, 5}, {6, 7, 8}])
    assert three_zones.contains({0, 1, 3, 4})  # four of nine, but two zones of three
    assert not three_zones.contains({0, 1, 2, 3, 6})  # five of nine, but one zone


def test_weights_are_counted_not_heads() -> None:
    heavy = Quorum([1, 2, 3], {1: 3})
    assert heavy.contains({1})
    assert not heavy.contains({2, 3})


@st.composite
def quorums(draw: st.DrawFn) -> Quorum:
    """Any weights, any partition, of up to six voters, at least one of which weighs something."""
    voters = range(draw(st.integers(1, 6)))
    weights = {sid: draw(st.integers(0, 3)) for sid in voters}
    weights[draw(st.sampled_from(list(voters)))] = 1
    places = [draw(st.integers(0, 2)) for _ in voters]
    groups = [{sid for sid in voters if places[sid] == place} for place in sorted(set(places))]
    return Quorum(voters, weights, draw(st.sampled_from([[], groups])))


@given(quorums())
def test_any_two_quorums_share_a_candidate_whatever_the_weights_and_groups(quorum: Quorum) -> None:
    subsets = [set(c) for k in range(len(quorum.voters) + 1) for c in combinations(sorted(quorum.voters), k)]
    sets = [one for one in subsets if quorum.contains(one)]
    assert sets
    assert all(one & other & quorum.candidates for one in sets for other in sets)


@given(st.integers(1, 7), st.data())
def test_without_weights_a_quorum_is_more_than_half(size: int, data: st.DataObject) -> None:
    sids = data.draw(st.sets(st.integers(0, 9)))
    assert Quorum(range(size)).contains(sids) is (2 * len(sids & set(range(size))) > size)


BY_NAME = {"meta-1": 0, "meta-2": 1, "meta-3": 2}


@pytest.mark.parametrize(
    ("weights", "groups", "message"),
    [
        ({"meta-9": 2}, {}, r"election.fle.weights: 'meta-9' is no meta server; \[cluster.meta\] has meta-1, meta-2"),
        ({}, {"east": ["meta-1", "x"]}, "election.fle.groups.east: 'x' is no meta server"),
        ({}, {"east": ["meta-1"], "west": ["meta-2"]}, "election.fle.groups: meta-3 is in no group"),
        ({}, {"east": list(BY_NAME), "west": ["meta-2"]}, "election.fle.groups: meta-2 is in 2 groups"),
        (dict.fromkeys(BY_NAME, 0), {}, "election.fle.weights: no meta server weighs anything"),
    ],
)
def test_weights_and_groups_that_do_not_fit_the_members_are_refused(
    weights: dict[str, int], groups: dict[str, list[str]], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Weighing(weights, groups).quorum(BY_NAME)


def test_the_same_weighing_reads_the_same_however_it_is_written() -> None:
    one = Weighing({"b": 2, "a": 1}, {"x": ["b", "a"], "y": ["c"]})
    assert str(one) == str(Weighing({"b": 2}, {"left": ["c"], "right": ["a", "b"]})) == "b=2 (a b) (c)"
    assert str(Weighing({"a": 1}, {"all": ["a", "b"]})) == ""


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**32 - 1))
def test_a_zxid_names_its_epoch(epoch: int, counter: int) -> None:
    assert epoch_of(make_zxid(epoch, counter)) == epoch
