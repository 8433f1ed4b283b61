"""Leader and follower in the handshake and after it (docs/fle.md, H), by S number; leases and promises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve_election_fle.effects import (
    AdmissionDue,
    AppendToLog,
    EpochWon,
    HangUp,
    RoleEffect,
    RoleOver,
    SaveEpochs,
    Send,
    Written,
)
from slotreeve_election_fle.entries import Entry
from slotreeve_election_fle.events import (
    FollowerReported,
    PeerConnected,
    PeerDisconnected,
    Received,
    StillWriting,
    WriteAsked,
)
from slotreeve_election_fle.following import Following
from slotreeve_election_fle.handshake import EpochProposal
from slotreeve_election_fle.leading import Leading
from slotreeve_election_fle.lease import Promise, renewed_at
from slotreeve_election_fle.links import SILENT_SECONDS
from slotreeve_election_fle.messages import (
    AtWork,
    Commit,
    EpochAck,
    FollowerInfo,
    LeaderInfo,
    NewLeader,
    NewLeaderAck,
    PeerPing,
    PeerPong,
    Propose,
    ProposeAck,
    RoleMessage,
    SyncPart,
)
from slotreeve_election_fle.quorum import Quorum
from slotreeve_election_fle.timing import FleTiming
from slotreeve_election_fle.vote import make_zxid
from slotreeve_machines.driver import Started, Tick
from slotreeve_machines.leadership import LeadershipChanged, Noted
from slotreeve_machines.storage import MemoryStorage

from tests.election_fle.durable import DurableLedger

TIMING = FleTiming()
QUORUM = Quorum([1, 2, 3])


def ledger(accepted: int = 0) -> DurableLedger:
    made = DurableLedger(MemoryStorage())
    if accepted:
        made.save(made.accept(accepted))
    return made


class Nominated:
    """A leader of servers 1, 2, 3 with sid 3, and what it does."""

    def __init__(self, accepted: int = 0) -> None:
        self.ledger = ledger(accepted)
        self.promise = Promise()
        self.role = Leading(3, QUORUM, self.ledger, self.promise, TIMING)
        list(self.role.step(Started(), 0.0))

    def report(self, sid: int, accepted: int = 0, now: float = 0.0, lease: float = 0.0) -> list[RoleEffect]:
        return list(self.role.step(FollowerReported(sid, FollowerInfo(1, accepted, True, lease=lease), True), now))

    def receive(self, sid: int, message: RoleMessage, now: float = 0.0) -> list[RoleEffect]:
        return list(self.role.step(Received(sid, message), now))

    def tick(self, now: float) -> list[RoleEffect]:
        return list(self.role.step(Tick(), now))

    def write(self, token: int = 1) -> list[RoleEffect]:
        return list(self.role.step(WriteAsked(token, "k", b"v", None, 1), 0.0))

    def establish(self, sid: int = 1, now: float = 0.0) -> list[RoleEffect]:
        self.report(sid, now=now)
        self.receive(sid, EpochAck(1, self.role.epoch, True, 0, 0), now)
        return self.receive(sid, NewLeaderAck(1, self.role.epoch, self.ledger.last_zxid), now)


class Elected:
    """A follower of server 3 that has reported to it."""

    def __init__(
        self, ledger: DurableLedger, promise: Promise | None = None, attempt: int = 1, now: float = 0.0
    ) -> None:
        self.role = Following(3, attempt, True, ledger, promise or Promise(), TIMING)
        list(self.role.step(Started(), now))
        self.reported = list(self.role.step(PeerConnected(3), now))

    def receive(self, message: RoleMessage, now: float = 0.0) -> list[RoleEffect]:
        return list(self.role.step(Received(3, message), now))

    def tick(self, now: float) -> list[RoleEffect]:
        return list(self.role.step(Tick(), now))


def sent(effects: list[RoleEffect]) -> list[object]:
    return [effect.message for effect in effects if isinstance(effect, Send)]


def test_s76_a_normal_run() -> None:
    leader = Nominated()
    assert sent(leader.report(1)) == [LeaderInfo(1, 1)]
    assert (leader.ledger.accepted_epoch, leader.ledger.current_epoch) == (1, 0)
    assert sent(leader.receive(1, EpochAck(1, 1, True, 0, 0))) == [NewLeader(1, 1, False, 0, 0, 0, 0)]
    assert leader.ledger.current_epoch == 1
    effects = leader.receive(1, NewLeaderAck(1, 1, 0))
    assert sent(effects) == [Commit(1, 0)]
    assert effects[-1] == LeadershipChanged(3, 1, True, "elected")


def test_a_voter_that_awaits_admission_counts_neither_for_the_lease_nor_for_a_write() -> None:
    leader = Nominated()
    leader.establish(1)
    leader.tick(TIMING.ping)  # a ping, which server 1 does not answer any more
    now = TIMING.ping
    report = FollowerReported(2, FollowerInfo(1, 1, False), trusted=False, is_admitted=False)
    list(leader.role.step(report, now))
    leader.receive(2, EpochAck(1, 1, False, 0, 0), now)
    assert AdmissionDue(2, 1, 1) in leader.receive(2, NewLeaderAck(1, 1, 0), now)
    leader.write()
    leader.tick(now)
    zxid = leader.ledger.last_zxid
    assert zxid > 0
    assert leader.receive(2, ProposeAck(1, zxid), now) == []
    leader.receive(2, PeerPong(1, 1), now)
    assert leader.role.valid_until == TIMING.lease
    leader.receive(1, PeerPong(1, 1), now)
    assert leader.role.valid_until == now + TIMING.lease
    assert Written(1, 1) in leader.receive(1, ProposeAck(1, zxid), now)


def test_s77_a_leader_behind_proposes_above_what_its_followers_accepted() -> None:
    assert sent(Nominated().report(1, accepted=20)) == [LeaderInfo(1, 21)]


def test_s79_s80_neither_reports_nor_acknowledgements_suffice_without_the_candidates_own() -> None:
    proposal = EpochProposal(3, QUORUM, 5)
    assert proposal.proposal() is None
    proposal.report(1, 0)
    assert proposal.proposal() == 6
    for sid in (1, 2):
        proposal.acknowledge(sid)
        assert not proposal.acknowledged
    proposal.acknowledge(3)
    assert proposal.acknowledged


def test_s81_without_acknowledgements_the_leader_gives_up() -> None:
    leader = Nominated()
    leader.report(1)
    assert leader.role.deadline == pytest.approx(TIMING.ping)
    assert sent(leader.tick(TIMING.ping)) == [AtWork(1)]
    (over,) = leader.tick(TIMING.handshake)
    assert over == RoleOver("no quorum came while promising")
    assert (leader.ledger.accepted_epoch, leader.ledger.current_epoch) == (1, 0)


def test_s82_an_epoch_is_acknowledged_at_most_once() -> None:
    voter = ledger(7)
    first = Elected(voter)
    assert sent(first.reported) == [FollowerInfo(1, 7, True, True, TIMING.lease)]
    assert sent(first.receive(LeaderInfo(1, 7))) == [EpochAck(1, 7, False, 0, 0)]
    (over,) = Elected(voter, attempt=2).receive(LeaderInfo(2, 6))
    assert isinstance(over, RoleOver)
    leader = Nominated()
    leader.report(1)
    assert leader.receive(1, EpochAck(1, 1, False, 0, 0)) == []  # not counted, so there is no quorum


def test_an_epoch_is_on_the_disk_before_its_acknowledgement_is_sent() -> None:
    assert Elected(ledger()).receive(LeaderInfo(1, 4)) == [SaveEpochs(4, 0), Send(3, EpochAck(1, 4, True, 0, 0))]
    leader = Nominated()
    assert leader.report(1)[0] == SaveEpochs(1, 0)
    assert leader.receive(1, EpochAck(1, 1, True, 0, 0))[:2] == [EpochWon(1), SaveEpochs(1, 1)]


@pytest.mark.parametrize("wrong", [EpochAck(2, 1, True, 0, 0), EpochAck(1, 2, True, 0, 0)])
def test_an_acknowledgement_of_another_attempt_or_epoch_does_not_count(wrong: EpochAck) -> None:
    leader = Nominated()
    leader.report(1)
    assert leader.receive(1, wrong) == []


def test_a_voter_with_a_longer_history_ends_the_nomination() -> None:
    leader = Nominated()
    leader.report(1)
    (over,) = leader.receive(1, EpochAck(1, 1, True, 0, 5))
    assert isinstance(over, RoleOver)
    assert "longer history" in over.cause


def test_a_write_is_sent_then_logged_and_answered_after_a_quorum() -> None:
    leader = Nominated()
    leader.establish()
    assert leader.write() == []
    assert leader.role.deadline == 0.0
    effects = leader.tick(0.0)
    (propose,) = (message for message in sent(effects) if isinstance(message, Propose))
    assert effects[-1] == AppendToLog(propose.entries)  # the followers write at the same time as the leader
    assert Written(1, 1) in leader.receive(1, ProposeAck(1, propose.entries[-1].zxid))


def test_a_follower_acknowledges_an_entry_after_it_is_on_the_disk() -> None:
    follower = Elected(ledger())
    follower.receive(LeaderInfo(1, 1))
    follower.receive(NewLeader(1, 1, False, 0, 0, 0, 0))
    entries = [Entry(make_zxid(1, 1), "k", b"v", 1)]
    assert follower.receive(Propose(1, 0, entries)) == [
        AppendToLog(entries),
        Send(3, ProposeAck(1, entries[-1].zxid)),
    ]


def test_s90_a_follower_that_acknowledges_nothing_is_hung_up_on() -> None:
    leader = Nominated()
    leader.establish(1)
    leader.establish(2)
    leader.write()
    leader.tick(0.0)
    leader.receive(1, ProposeAck(1, leader.ledger.last_zxid))
    now, hung_up = 0.0, []
    for number in range(1, 20):
        now += TIMING.ping
        for sid in (1, 2):
            leader.receive(sid, PeerPong(1, number), now)
        hung_up += [e.sid for e in leader.tick(now) if isinstance(e, HangUp)]
    assert hung_up == [2]


def test_a_connection_over_which_a_follower_answers_no_ping_is_ended() -> None:
    leader = Nominated()
    leader.establish(1)
    leader.establish(2)
    now, hung_up = 0.0, []
    for number in range(1, 2 + round(SILENT_SECONDS / TIMING.ping)):
        now += TIMING.ping
        ended = [e.sid for e in leader.tick(now) if isinstance(e, HangUp)]
        leader.receive(1, PeerPong(1, number), now)
        hung_up += ended
        for sid in ended:
            list(leader.role.step(PeerDisconnected(sid), now))
    assert hung_up == [2]
    assert leader.role.valid_until > now


def test_r6_the_lease_counts_from_before_the_ping_was_sent() -> None:
    leader = Nominated()
    leader.establish(now=10.0)
    assert leader.role.valid_until == 10.0 + TIMING.lease
    leader.tick(10.1)
    leader.receive(1, PeerPong(1, 1), now=10.4)
    assert leader.role.valid_until == pytest.approx(10.1 + TIMING.lease)
    (over,) = leader.tick(10.7)
    assert over == RoleOver("lease expired: no quorum answered in time")


@pytest.mark.parametrize(
    ("lease", "counted"), [(0.0, 1.0), (TIMING.lease, 1.0), (TIMING.lease / 2, 0.5), (2 * TIMING.lease, 1.0)]
)
def test_r6_the_lease_is_no_longer_than_the_shortest_promise_of_a_follower(lease: float, counted: float) -> None:
    leader = Nominated()
    reported = leader.report(2, lease=lease)
    assert any(isinstance(effect, Noted) for effect in reported) == (lease not in (0.0, TIMING.lease))
    leader.establish(now=10.0)
    assert leader.role.valid_until == 10.0 + counted * TIMING.lease
    leader.report(2, now=10.0)
    assert leader.role.valid_until == 10.0 + counted * TIMING.lease


def test_a_bound_voter_holds_back_its_acknowledgement_until_the_promise_has_run_out() -> None:
    promise = Promise()
    promise.bind([2], 5.0)
    follower = Elected(ledger(), promise, now=4.0)
    assert follower.receive(LeaderInfo(1, 1), 4.0) == []
    assert follower.role.deadline == 5.0
    assert follower.tick(4.9) == []
    assert sent(follower.tick(5.0)) == [EpochAck(1, 1, True, 0, 0)]


def test_a_bound_candidate_does_not_propose_and_gives_up_when_its_voters_left_meanwhile() -> None:
    leader = Nominated()
    leader.promise.bind([2], 0.5)
    assert leader.report(1) == []
    assert leader.role.deadline == TIMING.ping
    assert sent(leader.tick(0.45)) == [AtWork(1)]
    assert leader.role.deadline == 0.5
    list(leader.role.step(PeerDisconnected(1), 0.0))
    assert leader.tick(0.5) == []
    assert leader.role.deadline == pytest.approx(TIMING.handshake)  # and not the past, for ever
    assert sent(leader.report(1, now=0.6)) == [LeaderInfo(1, 1)]


def test_the_promise_of_a_follower_outlasts_the_lease_it_gives() -> None:
    promise = Promise()
    follower = Elected(ledger(), promise)
    follower.receive(LeaderInfo(1, 1))
    follower.receive(SyncPart(1, 1, [], []))
    assert sent(follower.receive(NewLeader(1, 1, False, 0, 0, 0, 0))) == [NewLeaderAck(1, 1, 0)]
    assert sent(follower.receive(PeerPing(1, 4), 7.0)) == [PeerPong(1, 4)]
    assert promise.free_at(2) > 7.0 + TIMING.lease
    assert promise.free_at(3) == 0.0
    assert follower.role.deadline == promise.free_at(2)


@given(st.dictionaries(st.integers(1, 5), st.floats(0, 100)), st.integers(1, 5), st.integers(1, 7))
def test_a_lease_rests_on_the_oldest_answer_of_the_newest_quorum(
    answered: dict[int, float], leader: int, size: int
) -> None:
    quorum = Quorum(range(1, size + 1))
    voters = {sid: sent for sid, sent in answered.items() if sid != leader and sid <= size}
    own = 1 if leader <= size else 0
    needed = size // 2 + 1 - own
    newest = sorted(voters.values(), reverse=True)
    expected = float("inf") if needed <= 0 else newest[needed - 1] if needed <= len(newest) else None
    assert renewed_at(quorum, leader, voters) == expected


def test_a_candidate_waits_longer_while_its_own_disk_or_a_followers_is_at_work() -> None:
    leader = Nominated()
    leader.report(1)
    list(leader.role.step(StillWriting(), 0.9))
    assert sent(leader.tick(1.5)) == [AtWork(1)]
    list(leader.role.step(Received(1, AtWork(1)), 1.8))
    assert sent(leader.tick(2.7)) == [AtWork(1)]
    (over,) = leader.tick(2.9)
    assert over == RoleOver("no quorum came while promising")


def test_a_follower_waits_longer_while_a_disk_is_at_work_but_not_for_an_established_leader() -> None:
    follower = Elected(ledger())
    assert sent(list(follower.role.step(StillWriting(), 0.9))) == [AtWork(1)]
    assert follower.role.deadline == pytest.approx(0.9 + TIMING.handshake)
    follower.receive(AtWork(1), 1.5)
    follower.receive(AtWork(7), 1.9)  # of another attempt
    assert follower.role.deadline == pytest.approx(1.5 + TIMING.handshake)
    follower.receive(LeaderInfo(1, 1), 2.0)
    follower.receive(NewLeader(1, 1, False, 0, 0, 0, 0), 2.0)
    follower.receive(Commit(1, 0), 2.0)
    assert follower.role.deadline == pytest.approx(2.0 + TIMING.promise)
    assert sent(list(follower.role.step(StillWriting(), 2.1))) == [AtWork(1)]
    assert follower.role.deadline == pytest.approx(2.0 + TIMING.promise)


def test_a_leader_whose_lease_ran_out_while_the_disks_worked_renews_it_before_it_leads() -> None:
    leader = Nominated()
    leader.report(1)
    leader.receive(1, EpochAck(1, 1, True, 0, 0))
    assert not any(isinstance(e, LeadershipChanged) for e in leader.receive(1, NewLeaderAck(1, 1, 0), 0.8))
    (ping,) = sent(leader.tick(0.8))
    assert isinstance(ping, PeerPing)
    established = leader.receive(1, PeerPong(1, ping.number), 0.85)
    assert any(isinstance(effect, LeadershipChanged) for effect in established)
    assert leader.role.valid_until == pytest.approx(0.8 + TIMING.lease)
