"""The role LEADING: from nomination over the epoch handshake to an established leader with a lease. Pure.

Phases: GATHERING what voters have accepted -> PROMISING: an epoch is proposed -> SYNCING: the epoch is this server's
alone, followers take over its history -> ESTABLISHED: a quorum has the history, writes are taken. docs/fle.md,
sections 6.1, 6.3 and 8.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from slotreeve_machines.driver import Started, Tick
from slotreeve_machines.leadership import LeadershipChanged, Noted, ResignAsked

from slotreeve_election_fle.effects import AdmissionDue, Applied, Effect, EpochWon, HangUp, RoleEffect, RoleOver, Send
from slotreeve_election_fle.events import (
    FollowerReported,
    PeerDisconnected,
    Received,
    RoleEvent,
    StillWriting,
    VoteReceived,
    WriteAsked,
)
from slotreeve_election_fle.handshake import EpochProposal
from slotreeve_election_fle.learners import Learner, Learners, LearnerStage
from slotreeve_election_fle.lease import Promise
from slotreeve_election_fle.ledger import Ledger
from slotreeve_election_fle.links import SILENT_SECONDS
from slotreeve_election_fle.messages import (
    AtWork,
    Commit,
    EpochAck,
    FleMessage,
    LeaderInfo,
    NewLeaderAck,
    PeerPing,
    PeerPong,
    Propose,
    ProposeAck,
    SendWhole,
    StoodDown,
    SyncProgress,
)
from slotreeve_election_fle.proposals import Proposals
from slotreeve_election_fle.quorum import Quorum
from slotreeve_election_fle.synchronise import HistoryTransfer
from slotreeve_election_fle.timing import PINGS_IN_A_LEASE, FleTiming
from slotreeve_election_fle.vote import State


class Phase(IntEnum):
    """How far a nominated leader has come."""

    GATHERING = 0
    PROMISING = 1
    SYNCING = 2
    ESTABLISHED = 3


class Leading:
    """A nominated or established leader.

    Attributes:
        phase: how far it has come.
        epoch: the proposed epoch, from PROMISING on; the term once ESTABLISHED.
        followers: those that have reported.
        is_resigning: it leads only until the writes under way are done.
    """

    def __init__(
        self,
        sid: int,
        quorum: Quorum,
        ledger: Ledger,
        promise: Promise,
        timing: FleTiming,
        proposal: EpochProposal | None = None,
    ) -> None:
        """``proposal``: of the epoch; by default for ``quorum``, above what this server has accepted."""
        self._sid = sid
        self._quorum = quorum
        self._ledger = ledger
        self._promise = promise
        self._timing, self._lease = timing, timing.lease
        self._proposal = EpochProposal(sid, quorum, ledger.accepted_epoch) if proposal is None else proposal
        self.followers = self._learners = Learners(sid, quorum)
        self._phase_ends = 0.0
        self._is_held_back = False
        self._next_ping = 0.0
        self._ping_number = 0
        self._pings: dict[int, float] = {}
        self._renewed = self._learners.renewed_at()
        self._proposals: Proposals | None = None
        self.phase = Phase.GATHERING
        self.epoch = 0
        self.is_resigning = False

    @property
    def is_established(self) -> bool:
        """A quorum has acknowledged the epoch and holds the history."""
        return self.phase is Phase.ESTABLISHED

    @property
    def valid_until(self) -> float:
        """The end of the lease, until which the leader may act on its own; 0 before it is established, infinity where
        it is a quorum by itself."""
        return self._renewed + self._lease if self.is_established and self._renewed is not None else 0.0

    @property
    def deadline(self) -> float:
        """When to step with Tick."""
        if not self.is_established:
            due = self._promise.free_at(self._sid) if self._is_held_back else self._phase_ends
            return min(due, self._next_ping) if self._learners.at_stage() else due
        assert self._proposals is not None
        if self._proposals.is_ready:
            return 0.0
        owed = [since + self._timing.handshake for _, since in self._learners.debtors()]
        return min([self._next_ping, self.valid_until, *owed])

    def step(self, event: RoleEvent, now: float) -> Iterator[RoleEffect]:
        """Take one event; the effects, in order. The role is over after RoleOver.

        WriteAsked is for an established leader only, and while its lease holds.
        """
        match event:
            case Started():
                self._next_ping = now + min(self._timing.ping, self._lease / PINGS_IN_A_LEASE)
                self._enter(Phase.GATHERING, now)
                yield from self._settle_epoch(now)
            case StillWriting():
                self._wait_longer(now)
                for each in self._learners.at_stage():
                    each.extend_debt(now)  # what it was given may wait behind this server's disk
            case Received(sid, AtWork()):
                if sid in self._quorum.candidates:
                    self._wait_longer(now)
                if (follower := self._learners.get(sid)) is not None:
                    follower.extend_debt(now)
            case FollowerReported():
                yield from self._add(event, now)
            case Received(sid, message):
                learner = self._learners.get(sid)
                if learner is not None:
                    yield from self._receive(learner, message, now)
            case PeerDisconnected(sid):
                yield from self._remove(sid)
            case VoteReceived(sid, vote) if vote.state is State.LOOKING:
                yield from self._remove(sid)  # a server that looks for a leader does not follow this one
            case WriteAsked():
                assert self._proposals is not None
                refused = self._proposals.ask(event)
                if refused is not None:
                    yield refused
            case ResignAsked():
                self.is_resigning = True
            case Tick():
                yield from self._pass_time(now)
            case _:
                pass  # nothing that a leader depends on
        if self.is_resigning and (self._proposals is None or self._proposals.is_idle):
            yield RoleOver("resigned", resigned=True)

    def stand_down(self, cause: str) -> Iterator[Effect]:
        """The last effects: the followers are informed, and the writers answered."""
        for learner in self._learners.at_stage():
            yield Send(learner.sid, StoodDown(self.epoch, cause))
        if self._proposals is not None:
            yield from self._proposals.abandon(cause)

    def _receive(self, learner: Learner, message: FleMessage, now: float) -> Iterator[RoleEffect]:
        match message:
            case EpochAck(attempt=learner.attempt, epoch=self.epoch) if learner.stage is LearnerStage.REPORTED:
                yield from self._epoch_acked(learner, message, now)
            case SendWhole(attempt=learner.attempt, epoch=self.epoch) if learner.stage is LearnerStage.SENT:
                yield from self._send_history(learner, None, now)
            case SyncProgress(attempt=learner.attempt, epoch=self.epoch, number=number) if learner.transfer is not None:
                yield from self._progressed(learner, learner.transfer, number, now)
            case NewLeaderAck(attempt=learner.attempt, epoch=self.epoch) if learner.stage is LearnerStage.SENT:
                yield from self._history_acked(learner, message, now)
            case ProposeAck(epoch=self.epoch, zxid=zxid) if learner.stage is LearnerStage.ACTIVE:
                learner.acknowledge(zxid, self._ledger.last_zxid, now)
                yield from self._advance_commit()
            case PeerPong(epoch=self.epoch, number=number) if learner.stage is LearnerStage.ACTIVE:
                learner.answered_at = max(learner.answered_at, self._pings.get(number, 0.0))
                learner.heard_at = now
                self._renewed = self._learners.renewed_at()
                yield from self._settle_leadership(now)
            case _:
                pass  # of an earlier attempt or epoch: it never counts

    def _pass_time(self, now: float) -> Iterator[RoleEffect]:
        if not self.is_established:
            if self._is_held_back:
                yield from self._settle_epoch(now)
            elif now >= self._phase_ends:
                yield RoleOver(f"no quorum came while {self.phase.name.lower()}")
                return
            if now >= self._next_ping:
                yield from self._ping(now)
        elif now >= self.valid_until:
            yield RoleOver("lease expired: no quorum answered in time")
        else:
            if now >= self._next_ping:
                yield from self._ping(now)
            yield from self._hang_up_on_useless(now)
            yield from self._send_batch(now)

    # --- followers come and go ---------------------------------------------------------------------------------------

    def _add(self, report: FollowerReported, now: float) -> Iterator[RoleEffect]:
        sid, info = report.sid, report.info
        is_voter = sid in self._quorum.voters
        counts = is_voter and info.voting and report.trusted
        yield from self._remove(sid)
        self._learners.add(
            Learner(sid, info.attempt, counts, is_voter and not (counts and report.is_admitted), paced=info.paced)
        )
        if counts and info.lease and info.lease != self._timing.lease:
            # During a rolling change of the option: a promise may be shorter than this server's own lease.
            self._lease = min(self._lease, info.lease)
            yield Noted(
                f"election.fle.lease_ms is {1000 * info.lease:g} at server {sid} and {1000 * self._timing.lease:g} "
                f"here; this leader counts with {1000 * self._lease:g}; make them equal"
            )
        if self.phase is Phase.GATHERING:
            if counts:
                self._proposal.report(sid, info.accepted_epoch)
            yield from self._settle_epoch(now)
        elif info.accepted_epoch > self.epoch and counts:
            # It can never follow this epoch; only a higher one includes it again.
            yield RoleOver(f"higher epoch seen: server {sid} has accepted {info.accepted_epoch}")
        else:
            yield Send(sid, LeaderInfo(info.attempt, self.epoch))

    def _remove(self, sid: int) -> Iterator[RoleEffect]:
        """A server follows no more; none of its messages counts any longer."""
        if not self._learners.remove(sid):
            return
        self._renewed = self._learners.renewed_at()
        if not self.is_established:
            self._proposal.forget(sid)
        elif not self._learners.is_quorum():
            yield RoleOver("quorum lost: too few followers are connected")

    # --- the handshake -----------------------------------------------------------------------------------------------

    def _enter(self, phase: Phase, now: float) -> None:
        self.phase = phase
        self._phase_ends = now + self._timing.handshake

    def _wait_longer(self, now: float) -> None:
        """The handshake makes progress: a part of the history has arrived, or a disk is at work on it."""
        self._phase_ends = max(self._phase_ends, now + self._timing.handshake)

    def _settle_epoch(self, now: float) -> Iterator[RoleEffect]:
        """Fix the epoch once a quorum has reported, accept it like any voter, and propose it to all."""
        self._is_held_back = False
        epoch = self._proposal.proposal()
        if self.phase is not Phase.GATHERING or epoch is None:
            return
        self._is_held_back = now < self._promise.free_at(self._sid)
        if self._is_held_back:
            return
        yield from self._ledger.accept(epoch)
        self.epoch = epoch
        self._enter(Phase.PROMISING, now)
        self._proposal.acknowledge(self._sid)
        for learner in self._learners.at_stage():
            yield Send(learner.sid, LeaderInfo(learner.attempt, epoch))
        yield from self._settle_promises(now)

    def _epoch_acked(self, learner: Learner, ack: EpochAck, now: float) -> Iterator[RoleEffect]:
        learner.stage = LearnerStage.PROMISED
        learner.last_zxid = ack.last_zxid
        if self.phase is not Phase.PROMISING:
            yield from self._send_history(learner, learner.last_zxid, now)
            return
        is_ahead = (ack.current_epoch, ack.last_zxid) > (self._ledger.current_epoch, self._ledger.last_zxid)
        if is_ahead and learner.counts and learner.sid in self._quorum.candidates:
            self._proposal.forget(learner.sid)
            if self._proposal.proposal() is None:
                yield RoleOver(f"server {learner.sid} has a longer history ({ack.current_epoch}, {ack.last_zxid:#x})")
                return
            # A quorum without it may have what was ever acknowledged: then the rest of that history counts for nothing.
        elif ack.counted and learner.counts:
            self._proposal.acknowledge(learner.sid)
        yield from self._settle_promises(now)

    def _settle_promises(self, now: float) -> Iterator[RoleEffect]:
        """With a quorum's acknowledgement the epoch is this server's alone: send its history to the followers."""
        if not self._proposal.acknowledged:
            return
        yield EpochWon(self.epoch)
        yield from self._ledger.enter(self.epoch)
        self._enter(Phase.SYNCING, now)
        for learner in self._learners.at_stage(LearnerStage.PROMISED):
            yield from self._send_history(learner, learner.last_zxid, now)
        yield from self._settle_leadership(now)

    def _send_history(self, learner: Learner, follower_zxid: int | None, now: float) -> Iterator[RoleEffect]:
        """Begin to send what a follower lacks whose log ends with ``follower_zxid``; None: the entire state."""
        learner.transfer = HistoryTransfer(self._ledger, learner.attempt, self.epoch, follower_zxid, learner.paced)
        learner.stage = LearnerStage.SENDING
        if learner.wants_admission:
            yield AdmissionDue(learner.sid, learner.attempt, self.epoch)
        for message in learner.due_messages(now):
            yield Send(learner.sid, message)

    def _progressed(self, learner: Learner, transfer: HistoryTransfer, number: int, now: float) -> Iterator[RoleEffect]:
        transfer.arrived(number)
        if learner.counts:
            self._wait_longer(now)
        learner.extend_debt(now)
        for message in learner.due_messages(now):
            yield Send(learner.sid, message)

    def _history_acked(self, learner: Learner, ack: NewLeaderAck, now: float) -> Iterator[RoleEffect]:
        learner.stage = LearnerStage.ACTIVE
        learner.transfer = None
        learner.answered_at = learner.sent_at
        learner.heard_at = now
        self._renewed = self._learners.renewed_at()
        learner.acknowledge(ack.last_zxid, self._ledger.last_zxid, now)
        if not self.is_established:
            yield from self._settle_leadership(now)
            return
        yield Send(learner.sid, Commit(self.epoch, self._ledger.committed_zxid))
        yield from self._admit(learner)
        yield from self._advance_commit()

    def _admit(self, learner: Learner) -> Iterator[RoleEffect]:
        """A voter that had lost its disk holds the state again."""
        if learner.wants_admission:
            learner.wants_admission = False
            yield AdmissionDue(learner.sid, learner.attempt, self.epoch)

    def _settle_leadership(self, now: float) -> Iterator[RoleEffect]:
        """Once a quorum holds the history all of it is committed, and the leader serves."""
        if self.phase is not Phase.SYNCING or not self._learners.is_quorum():
            return
        if self._renewed is None or now - self._renewed > self._lease / 2:
            self._next_ping = now  # the disks took so long that the lease has to be renewed before it is used
            return
        self.phase = Phase.ESTABLISHED
        self._next_ping = now
        self._proposals = Proposals(self._ledger, self.epoch)
        yield from self._commit(self._ledger.last_zxid)
        yield LeadershipChanged(self._sid, self.epoch, True, "elected")
        for learner in self._learners.at_stage(LearnerStage.ACTIVE):
            yield from self._admit(learner)

    # --- established -------------------------------------------------------------------------------------------------

    def _send_batch(self, now: float) -> Iterator[RoleEffect]:
        """Send the waiting writes, then log them: the followers' disks work at the same time as this server's."""
        assert self._proposals is not None
        if not self._proposals.is_ready:
            return
        previous_zxid, entries = self._ledger.last_zxid, self._proposals.take_batch()
        for learner in self._learners.at_stage(LearnerStage.SENDING):
            learner.owes_since = now if learner.owes_since is None else learner.owes_since
            if learner.stage is LearnerStage.SENDING and learner.transfer is not None:
                learner.transfer.extend(entries)
            else:
                yield Send(learner.sid, Propose(self.epoch, previous_zxid, entries))
        yield from self._ledger.append(entries)
        yield from self._advance_commit()

    def _advance_commit(self) -> Iterator[RoleEffect]:
        """Commit what is on the disks of a quorum, this server's among them."""
        if self.is_established:
            zxid = self._learners.quorum_zxid(self._ledger.last_zxid)
            if zxid > self._ledger.committed_zxid:
                yield from self._commit(zxid)

    def _commit(self, zxid: int) -> Iterator[RoleEffect]:
        assert self._proposals is not None
        changes = self._ledger.commit(zxid)
        for learner in self._learners.at_stage(LearnerStage.ACTIVE):
            yield Send(learner.sid, Commit(self.epoch, self._ledger.committed_zxid))
        if changes:
            yield Applied(changes)
        yield from self._proposals.committed()
        if changes:
            yield from self._ledger.snapshot_if_due()

    def _ping(self, now: float) -> Iterator[RoleEffect]:
        self._ping_number += 1
        self._pings[self._ping_number] = now
        self._next_ping = now + min(self._timing.ping, self._lease / PINGS_IN_A_LEASE)
        oldest = now - self._lease
        self._pings = {number: sent for number, sent in self._pings.items() if sent >= oldest}
        for learner in self._learners.at_stage():
            is_active = learner.stage is LearnerStage.ACTIVE
            yield Send(learner.sid, PeerPing(self.epoch, self._ping_number) if is_active else AtWork(learner.attempt))

    def _hang_up_on_useless(self, now: float) -> Iterator[RoleEffect]:
        """A follower that answers pings but acknowledges nothing is of no use (docs/fle.md, S90), nor is a connection
        over which none is answered: after a fault that lost packets, TCP is silent for as long as the fault lasted."""
        silence = max(SILENT_SECONDS, self._timing.handshake)
        for learner in self._learners.silent(now - silence):
            yield HangUp(learner.sid, f"no ping answered for {silence:g} s")
        for learner, since in self._learners.debtors():
            if now >= since + self._timing.handshake:
                learner.owes_since = None
                text = f"nothing acknowledged for {self._timing.handshake:g} s"
                yield Noted(f"server {learner.sid}: {text}; hanging up")
                yield HangUp(learner.sid, text)
