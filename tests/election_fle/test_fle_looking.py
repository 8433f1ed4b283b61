"""One election seen from one server (docs/fle.md, C and D), by S number."""

from __future__ import annotations

import random

import pytest
from slotreeve_election_fle.effects import Announce, Decided, RoleEffect, Send
from slotreeve_election_fle.events import PeerConnected, PeerUnreachable, VoteReceived
from slotreeve_election_fle.looking import Looking, Patience
from slotreeve_election_fle.messages import Notification
from slotreeve_election_fle.quorum import Quorum
from slotreeve_election_fle.vote import NOBODY, State, Vote, make_zxid
from slotreeve_machines.driver import Started, Tick
from slotreeve_machines.leadership import Noted

QUIET = Patience(jitter=0.0)


def begun(own: Vote, quorum: Quorum, unreachable: list[int], patience: Patience = QUIET, sid: int = 0) -> Looking:
    machine = Looking(sid, quorum, own, unreachable, patience, random.Random(0))
    list(machine.step(Started(), 0.0))
    return machine


def looking(own: Vote, voters: list[int], patience: Patience = QUIET) -> Looking:
    return begun(own, Quorum(voters), [], patience, own.leader)


def vote(leader: int, round: int = 1, epoch: int = 0, zxid: int = 0, state: State = State.LOOKING) -> Vote:
    return Vote(leader, zxid, epoch, round, state)


def count(machine: Looking, sid: int, received: Vote, now: float = 0.0) -> list[RoleEffect]:
    return list(machine.step(VoteReceived(sid, received), now))


def tick(machine: Looking, now: float) -> list[RoleEffect]:
    return list(machine.step(Tick(), now))


def test_s19_s20_a_leader_that_has_not_reported_itself_is_not_joined() -> None:
    machine = looking(vote(3), [0, 1, 2, 3, 4])
    for sid in (0, 1, 2):
        assert count(machine, sid, vote(4, round=7, epoch=2, state=State.FOLLOWING)) == []
    leads = vote(4, round=7, epoch=2, state=State.LEADING)
    assert count(machine, 4, leads) == [Decided(leads)]


def test_s22_a_dead_leader_is_not_elected_from_the_memory_of_its_follower() -> None:
    machine = looking(vote(0), [0, 1, 2])
    assert count(machine, 1, vote(2, state=State.FOLLOWING)) == []
    list(machine.step(PeerUnreachable(2), 0.0))
    effects = count(machine, 1, vote(1, round=1), 0.1)
    assert effects == [Announce(vote(1)), Decided(vote(1))]


def test_s23_votes_of_followers_of_this_server_count_in_its_own_round_only() -> None:
    machine = looking(vote(0), [0, 1, 2])
    assert count(machine, 1, vote(0, epoch=1, state=State.FOLLOWING)) == []
    decided = count(machine, 2, vote(0, epoch=1, state=State.FOLLOWING))
    assert decided == [Decided(vote(0, epoch=1, state=State.FOLLOWING))]
    machine = looking(vote(0), [0, 1, 2])
    for sid in (1, 2):
        assert count(machine, sid, vote(0, round=5, epoch=1, state=State.FOLLOWING)) == []


def test_s26_a_higher_round_clears_the_votes_and_compares_with_the_own_initial_vote() -> None:
    own = vote(1, zxid=5)
    machine = looking(own, [1, 2, 3])
    count(machine, 3, vote(3, zxid=9))
    assert machine.proposal.leader == 3
    effects = count(machine, 2, vote(2, round=7, zxid=3))
    assert effects == [Announce(vote(1, round=7, zxid=5))]
    assert machine.round == 7


def test_s28_a_lower_round_is_answered_and_not_counted() -> None:
    own = vote(1, round=7)
    machine = looking(own, [1, 2, 3])
    assert count(machine, 2, vote(2, round=3, epoch=9, zxid=make_zxid(9, 9))) == [Send(2, Notification(own))]
    assert machine.proposal == own


def test_s29_a_vote_that_is_not_better_is_recorded_and_nothing_is_sent() -> None:
    machine = looking(vote(3), [1, 2, 3])
    assert count(machine, 2, vote(2)) == []


def test_s30_a_better_vote_within_the_finalize_wait_is_taken() -> None:
    """Unlike ZooKeeper, there is no wait once every voter has sent its vote."""
    machine = looking(vote(2), [1, 2, 3])
    assert count(machine, 1, vote(2)) == []
    assert tick(machine, 0.15) == []
    assert count(machine, 3, vote(3), 0.15) == [Announce(vote(3)), Decided(vote(3))]


def test_s31_an_undisturbed_finalize_wait_ends_the_election() -> None:
    machine = looking(vote(2), [1, 2, 3])
    assert count(machine, 1, vote(2)) == []
    assert machine.deadline == pytest.approx(0.2)
    assert tick(machine, 0.19) == []
    assert tick(machine, 0.2) == [Decided(vote(2))]


def test_a_vote_that_is_not_better_does_not_begin_the_finalize_wait_again() -> None:
    """Unlike ZooKeeper; docs/fle.md, 5.4, has the reason."""
    machine = looking(vote(4), [1, 2, 3, 4, 5])
    assert count(machine, 1, vote(4)) == []
    assert count(machine, 2, vote(4)) == []
    assert machine.deadline == pytest.approx(0.2)
    assert count(machine, 3, vote(3), 0.15) == []
    assert machine.deadline == pytest.approx(0.2)
    assert tick(machine, 0.2) == [Decided(vote(4))]


def test_a_voter_that_cannot_be_reached_is_not_waited_for() -> None:
    machine = looking(vote(2), [1, 2, 3])
    list(machine.step(PeerUnreachable(3), 0.0))
    assert count(machine, 1, vote(2)) == [Decided(vote(2))]


def test_a_voter_without_weight_is_not_waited_for() -> None:
    machine = begun(vote(2), Quorum([1, 2, 3], {3: 0}), [], sid=2)
    assert count(machine, 1, vote(2)) == [Decided(vote(2))]


def test_s7_a_server_that_weighs_nothing_is_never_elected() -> None:
    machine = begun(vote(1), Quorum([1, 2, 3], {3: 0}), [], sid=1)
    (ignored,) = count(machine, 2, vote(3, epoch=9))
    assert isinstance(ignored, Noted)
    assert machine.proposal == vote(1)


def test_s25_a_lost_reply_is_made_up_for_by_the_vote_of_a_peer_that_follows_already() -> None:
    machine = looking(vote(1), [0, 1, 2])
    assert count(machine, 0, vote(0)) == []
    assert count(machine, 0, vote(1, state=State.FOLLOWING)) == [Decided(vote(1, state=State.FOLLOWING))]


def test_s38_a_leader_is_joined_though_its_followers_remember_other_rounds_and_zxids() -> None:
    machine = looking(vote(2), [0, 1, 2])
    assert count(machine, 0, vote(1, round=101, epoch=1, zxid=100, state=State.FOLLOWING)) == []
    leads = vote(1, round=1, epoch=1, state=State.LEADING)
    assert count(machine, 1, leads) == [Decided(leads)]


def test_s68_the_longest_history_wins() -> None:
    histories = {1: (4, make_zxid(4, 10)), 2: (4, make_zxid(4, 12)), 3: (3, make_zxid(3, 99))}
    for own, (epoch, zxid) in histories.items():
        machine = looking(vote(own, epoch=epoch, zxid=zxid), [1, 2, 3])
        for sid, (other_epoch, other_zxid) in histories.items():
            if sid != own:
                count(machine, sid, vote(sid, epoch=other_epoch, zxid=other_zxid))
        assert machine.proposal.leader == 2


def test_s33_a_zxid_of_minus_one_is_ignored_entirely() -> None:
    machine = looking(vote(1), [1, 2, 3])
    (ignored,) = count(machine, 2, vote(2, round=9, zxid=-1))
    assert isinstance(ignored, Noted)
    assert machine.round == 1


def test_s34_strangers_neither_vote_nor_stand() -> None:
    machine = looking(vote(1), [1, 2, 3])
    for sid, received in ((9, vote(2)), (2, vote(9))):
        (ignored,) = count(machine, sid, received)
        assert isinstance(ignored, Noted)
    assert machine.proposal == vote(1)


def test_s37_the_proposal_is_repeated_at_doubling_intervals() -> None:
    machine = looking(vote(1), [1, 2, 3], Patience(resend_min=0.05, resend_max=0.3, jitter=0.0))
    now, waits = 0.0, []
    for _ in range(5):
        waits.append(round(machine.deadline - now, 6))
        now = machine.deadline
        assert tick(machine, now) == [Announce(vote(1))]
    assert waits == [0.05, 0.1, 0.2, 0.3, 0.3]


def test_a_server_alone_decides_at_once() -> None:
    machine = Looking(0, Quorum([0]), vote(0), [], QUIET, random.Random(0))
    assert list(machine.step(Started(), 0.0)) == [Announce(vote(0)), Decided(vote(0))]


def test_a_server_that_is_no_candidate_votes_for_the_best_of_the_others_and_decides_with_them() -> None:
    own = Vote(NOBODY, make_zxid(9, 9), 9, 1)
    machine = begun(own, Quorum([1, 2, 3]), [1], sid=3)
    assert count(machine, 2, vote(2)) == [Announce(vote(2)), Decided(vote(2))]


def test_a_peer_that_connects_is_sent_the_present_vote_and_is_waited_for_again() -> None:
    machine = begun(vote(2), Quorum([1, 2, 3]), [3], sid=2)
    assert list(machine.step(PeerConnected(3), 0.0)) == [Send(3, Notification(vote(2)))]
    assert count(machine, 1, vote(2)) == []
