"""The LEADING state: from nomination over the epoch handshake to an established leader with a lease. Pure but for
the ledger. Spec sections 6.1, 6.3 and 8.1.

Phases: GATHERING what voters have accepted -> PROMISING: an epoch is proposed -> SYNCING: it is this server's alone,
followers take over its history -> ESTABLISHED: a quorum has it, writes are taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from slotreeve_election_fle.effects import (
    Applied,
    Effect,
    HangUp,
    LeadershipChanged,
    Noted,
    RoleOver,
    Send,
    WriteAsked,
)
from slotreeve_election_fle.handshake import EpochProposal
from slotreeve_election_fle.lease import Promise, renewed_at
from slotreeve_election_fle.ledger import Ledger
from slotreeve_election_fle.messages import (
    Admitted,
    Commit,
    EpochAck,
    FollowerInfo,
    LeaderInfo,
    NewLeader,
    NewLeaderAck,
    Ping,
    Pong,
    Propose,
    ProposeAck,
    RoleMessage,
    SendWhole,
    StoodDown,
    SyncPart,
)
from slotreeve_election_fle.proposals import Proposals
from slotreeve_election_fle.quorum import Quorum
from slotreeve_election_fle.synchronise import difference, whole
from slotreeve_election_fle.timing import Timing


class Phase(IntEnum):
    """How far a nominated leader has come."""

    GATHERING = 0
    PROMISING = 1
    SYNCING = 2
    ESTABLISHED = 3


class Stage(IntEnum):
    """How far a follower has come."""

    REPORTED = 0
    PROMISED = 1
    SENT = 2
    ACTIVE = 3


@dataclass
class Learner:
    """A follower as its leader sees it; gone with its connection.

    Attributes:
        counts: it is a voter whose word counts.
        sent_at: when NewLeader was sent; its acknowledgement renews the lease as a ping does.
        answered_at: when the newest ping that it answered was sent.
        acked_zxid: everything up to it is on its disk.
        owes_since: since when it has not acknowledged an entry that it was sent; None if it owes nothing.
    """

    sid: int
    attempt: int
    counts: bool
    wants_admission: bool
    stage: Stage = Stage.REPORTED
    last_zxid: int = 0
    sent_at: float = 0.0
    answered_at: float = 0.0
    acked_zxid: int = 0
    owes_since: float | None = None


class Leading:
    """A nominated or established leader.

    Attributes:
        phase: how far it has come.
        epoch: the proposed epoch, from PROMISING on; the term once ESTABLISHED.
    """

    def __init__(self, sid: int, quorum: Quorum, ledger: Ledger, promise: Promise, timing: Timing, now: float) -> None:
        self._sid = sid
        self._quorum = quorum
        self._ledger = ledger
        self._promise = promise
        self._timing = timing
        self._proposal = EpochProposal(sid, quorum, ledger.accepted_epoch)
        self._learners: dict[int, Learner] = {}
        self._phase_ends = now + timing.handshake
        self._is_held = False
        self._next_ping = now
        self._ping_number = 0
        self._pings: dict[int, float] = {}
        self._proposals: Proposals | None = None
        self.phase = Phase.GATHERING
        self.epoch = 0

    # --- what the server asks ----------------------------------------------------------------------------------------

    @property
    def is_established(self) -> bool:
        """A quorum has acknowledged the epoch and holds the history."""
        return self.phase is Phase.ESTABLISHED

    @property
    def is_idle(self) -> bool:
        """No write is waiting or under way."""
        return self._proposals is None or self._proposals.is_idle

    @property
    def valid_until(self) -> float:
        """Until when the leader may act without asking anybody; 0 before it is established, infinity where it is a
        quorum by itself."""
        renewed = self._renewed_at()
        return renewed + self._timing.lease if self.is_established and renewed is not None else 0.0

    @property
    def deadline(self) -> float:
        """When :meth:`pass_time` is due."""
        if not self.is_established:
            return self._promise.free_at(self._sid) if self._is_held else self._phase_ends
        assert self._proposals is not None
        if self._proposals.must_log or self._proposals.is_ready:
            return 0.0
        owed = [x.owes_since + self._timing.handshake for x in self._learners.values() if x.owes_since is not None]
        return min([self._next_ping, self.valid_until, *owed])

    # --- events ------------------------------------------------------------------------------------------------------

    def begin(self, now: float) -> Iterator[Effect]:
        """Just nominated."""
        yield from self._settle_epoch(now)

    def receive(self, sid: int, message: RoleMessage, now: float) -> Iterator[Effect]:
        """A message of a follower."""
        yield from self._log_batch()
        learner = self._learners.get(sid)
        if learner is None:
            return
        match message:
            case EpochAck(attempt=learner.attempt, epoch=self.epoch) if learner.stage is Stage.REPORTED:
                yield from self._epoch_acked(learner, message, now)
            case SendWhole(attempt=learner.attempt, epoch=self.epoch) if learner.stage is Stage.SENT:
                yield from self._send_history(learner, whole(self._ledger, learner.attempt, self.epoch), now)
            case NewLeaderAck(attempt=learner.attempt, epoch=self.epoch) if learner.stage is Stage.SENT:
                yield from self._history_acked(learner, message, now)
            case ProposeAck(epoch=self.epoch, zxid=zxid) if learner.stage is Stage.ACTIVE:
                learner.acked_zxid = max(learner.acked_zxid, min(zxid, self._ledger.last_zxid))
                learner.owes_since = None if learner.acked_zxid >= self._ledger.last_zxid else now
                yield from self._advance_commit()
            case Pong(epoch=self.epoch, number=number) if learner.stage is Stage.ACTIVE:
                learner.answered_at = max(learner.answered_at, self._pings.get(number, 0.0))
            case _:
                pass  # of an earlier attempt or epoch: it never counts

    def report(self, sid: int, info: FollowerInfo, trusted: bool, now: float) -> Iterator[Effect]:
        """A server wants to follow; ``trusted``: it has not lost its disk, as far as is known."""
        yield from self._log_batch()
        is_voter = sid in self._quorum.voters
        counts = is_voter and info.voting and trusted
        yield from self.lose(sid)
        self._learners[sid] = Learner(sid, info.attempt, counts, is_voter and not counts)
        if self.phase is Phase.GATHERING:
            if counts:
                self._proposal.report(sid, info.accepted_epoch)
            yield from self._settle_epoch(now)
        elif info.accepted_epoch > self.epoch:
            # It can never follow this epoch; only a higher one includes it again.
            yield RoleOver(f"higher epoch seen: server {sid} has accepted {info.accepted_epoch}")
        else:
            yield Send(sid, LeaderInfo(info.attempt, self.epoch))

    def lose(self, sid: int) -> Iterator[Effect]:
        """A follower's connection ended, or it said that it follows no more; nothing it said counts any longer."""
        if self._learners.pop(sid, None) is None:
            return
        if not self.is_established:
            self._proposal.forget(sid)
        elif not self._quorum.contains(self._active()):
            yield RoleOver("quorum lost: too few followers are connected")

    def write(self, asked: WriteAsked) -> Iterator[Effect]:
        """Take a write; only when established and while the lease holds."""
        assert self._proposals is not None
        refused = self._proposals.ask(asked)
        if refused is not None:
            yield refused

    def pass_time(self, now: float) -> Iterator[Effect]:
        """The deadline was reached."""
        yield from self._log_batch()
        if not self.is_established:
            if self._is_held:
                yield from self._settle_epoch(now)
            elif now >= self._phase_ends:
                yield RoleOver(f"no quorum came while {self.phase.name.lower()}")
            return
        if now >= self.valid_until:
            yield RoleOver("lease expired: no quorum answered in time")
            return
        if now >= self._next_ping:
            yield from self._ping(now)
        yield from self._hang_up_on_debtors(now)
        yield from self._send_batch(now)

    def stand_down(self, cause: str) -> Iterator[Effect]:
        """The role is over: tell the followers, answer the writers."""
        for learner in self._learners.values():
            yield Send(learner.sid, StoodDown(self.epoch, cause))
        if self._proposals is not None:
            yield from self._proposals.abandon(cause)

    # --- the handshake -----------------------------------------------------------------------------------------------

    def _settle_epoch(self, now: float) -> Iterator[Effect]:
        """Fix the epoch once a quorum has reported, accept it like any voter, and propose it to all."""
        self._is_held = False
        epoch = self._proposal.proposal()
        if self.phase is not Phase.GATHERING or epoch is None:
            return
        self._is_held = now < self._promise.free_at(self._sid)
        if self._is_held:
            return
        self._ledger.accept(epoch)
        self.epoch = epoch
        self._enter(Phase.PROMISING, now)
        self._proposal.acknowledge(self._sid)
        for learner in self._learners.values():
            yield Send(learner.sid, LeaderInfo(learner.attempt, epoch))
        yield from self._settle_promises(now)

    def _epoch_acked(self, learner: Learner, ack: EpochAck, now: float) -> Iterator[Effect]:
        learner.stage = Stage.PROMISED
        learner.last_zxid = ack.last_zxid
        if self.phase is not Phase.PROMISING:
            yield from self._synchronise(learner, now)
            return
        is_ahead = (ack.current_epoch, ack.last_zxid) > (self._ledger.current_epoch, self._ledger.last_zxid)
        if is_ahead and learner.counts:
            yield RoleOver(f"server {learner.sid} has a longer history ({ack.current_epoch}, {ack.last_zxid:#x})")
            return
        if ack.counted and learner.counts:
            self._proposal.acknowledge(learner.sid)
        yield from self._settle_promises(now)

    def _settle_promises(self, now: float) -> Iterator[Effect]:
        """With a quorum's acknowledgement the epoch is this server's alone: hand out its history."""
        if not self._proposal.acknowledged:
            return
        self._ledger.enter(self.epoch)
        self._enter(Phase.SYNCING, now)
        for learner in list(self._learners.values()):
            if learner.stage is Stage.PROMISED:
                yield from self._synchronise(learner, now)
        yield from self._settle_leadership(now)

    def _synchronise(self, learner: Learner, now: float) -> Iterator[Effect]:
        parts = difference(self._ledger, learner.attempt, self.epoch, learner.last_zxid)
        yield from self._send_history(learner, parts, now)

    def _send_history(self, learner: Learner, parts: Sequence[SyncPart | NewLeader], now: float) -> Iterator[Effect]:
        learner.stage = Stage.SENT
        learner.sent_at = learner.owes_since = now
        for part in parts:
            yield Send(learner.sid, part)

    def _history_acked(self, learner: Learner, ack: NewLeaderAck, now: float) -> Iterator[Effect]:
        learner.stage = Stage.ACTIVE
        learner.answered_at = learner.sent_at
        learner.acked_zxid = ack.last_zxid
        learner.owes_since = None if ack.last_zxid >= self._ledger.last_zxid else now
        if not self.is_established:
            yield from self._settle_leadership(now)
            return
        yield Send(learner.sid, Commit(self.epoch, self._ledger.committed_zxid))
        yield from self._admit(learner)
        yield from self._advance_commit()

    def _admit(self, learner: Learner) -> Iterator[Effect]:
        """A voter that had lost its disk holds the state again."""
        if learner.wants_admission:
            learner.wants_admission = False
            yield Send(learner.sid, Admitted(learner.attempt, self.epoch))

    def _settle_leadership(self, now: float) -> Iterator[Effect]:
        """A quorum holds the history, so all of it is committed, and the leader serves."""
        if self.phase is not Phase.SYNCING or not self._quorum.contains(self._active()):
            return
        self.phase = Phase.ESTABLISHED
        self._next_ping = now
        self._proposals = Proposals(self._ledger, self.epoch)
        yield from self._apply(self._ledger.last_zxid)
        yield LeadershipChanged(self._sid, self.epoch, True, "elected")
        for learner in self._at_stage(Stage.ACTIVE):
            yield from self._admit(learner)

    # --- established -------------------------------------------------------------------------------------------------

    def _send_batch(self, now: float) -> Iterator[Effect]:
        """Send the waiting writes; the own disk's turn comes next (:meth:`_log_batch`), at the same time as theirs."""
        assert self._proposals is not None
        if not self._proposals.is_ready:
            return
        propose = Propose(self.epoch, self._ledger.last_zxid, self._proposals.take_batch())
        for learner in self._at_stage(Stage.SENT):
            learner.owes_since = now if learner.owes_since is None else learner.owes_since
            yield Send(learner.sid, propose)

    def _log_batch(self) -> Iterator[Effect]:
        """Before anything else happens the batch that was sent goes to the own log."""
        if self._proposals is not None and self._proposals.must_log:
            self._proposals.log_batch()
            yield from self._advance_commit()

    def _advance_commit(self) -> Iterator[Effect]:
        """Commit what is on the disks of a quorum, this server's among them."""
        if not self.is_established:
            return
        zxids = {self._ledger.last_zxid} | {x.acked_zxid for x in self._at_stage(Stage.ACTIVE)}
        for zxid in sorted(zxids, reverse=True):
            if zxid <= self._ledger.committed_zxid:
                return
            if self._quorum.contains(self._active(zxid)):
                yield from self._apply(zxid)
                return

    def _apply(self, zxid: int) -> Iterator[Effect]:
        assert self._proposals is not None
        changes = self._ledger.commit(zxid)
        for learner in self._at_stage(Stage.ACTIVE):
            yield Send(learner.sid, Commit(self.epoch, self._ledger.committed_zxid))
        if changes:
            yield Applied(changes)
        yield from self._proposals.committed()

    def _ping(self, now: float) -> Iterator[Effect]:
        self._ping_number += 1
        self._pings[self._ping_number] = now
        self._next_ping = now + self._timing.ping
        oldest = now - self._timing.lease
        self._pings = {number: sent for number, sent in self._pings.items() if sent >= oldest}
        for learner in self._at_stage(Stage.ACTIVE):
            yield Send(learner.sid, Ping(self.epoch, self._ping_number))

    def _hang_up_on_debtors(self, now: float) -> Iterator[Effect]:
        """A follower that answers pings but acknowledges nothing holds up nobody and helps nobody (S90)."""
        for learner in list(self._learners.values()):
            if learner.owes_since is not None and now >= learner.owes_since + self._timing.handshake:
                learner.owes_since = None
                text = f"nothing acknowledged for {self._timing.handshake:g} s"
                yield Noted(f"server {learner.sid}: {text}; hanging up")
                yield HangUp(learner.sid, text)

    # --- counting ----------------------------------------------------------------------------------------------------

    def _enter(self, phase: Phase, now: float) -> None:
        self.phase = phase
        self._phase_ends = now + self._timing.handshake

    def _at_stage(self, stage: Stage) -> list[Learner]:
        """Followers that have come at least so far."""
        return [learner for learner in self._learners.values() if learner.stage >= stage]

    def _active(self, zxid: int = 0) -> set[int]:
        """Voters that follow and have everything up to ``zxid``; this server is one of them."""
        own = {self._sid} if self._ledger.last_zxid >= zxid else set()
        return own | {x.sid for x in self._at_stage(Stage.ACTIVE) if x.counts and x.acked_zxid >= zxid}

    def _renewed_at(self) -> float | None:
        answered = {x.sid: x.answered_at for x in self._at_stage(Stage.ACTIVE) if x.counts}
        return renewed_at(self._quorum, self._sid, answered)
