"""The roles FOLLOWING and OBSERVING: from the report to an elected leader to that leader's end. Pure.

Stages: CONNECTING to the leader -> REPORTED to it -> PROMISED: its epoch is accepted -> ACTIVE: its history is this
server's too, its proposals are logged, its pings answered. docs/fle.md, sections 6.1, 6.3 and 8.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from slotreeve_machines.driver import Started, Tick
from slotreeve_machines.leadership import LeadershipChanged

from slotreeve_election_fle.effects import Applied, RoleEffect, RoleOver, Send, VoteRegained
from slotreeve_election_fle.events import PeerConnected, PeerDisconnected, Received, RoleEvent, StillWriting
from slotreeve_election_fle.handshake import EpochVerdict, judge
from slotreeve_election_fle.lease import Promise
from slotreeve_election_fle.ledger import Ledger
from slotreeve_election_fle.messages import (
    Admitted,
    AtWork,
    Commit,
    EpochAck,
    FleMessage,
    FollowerInfo,
    LeaderInfo,
    NewLeader,
    NewLeaderAck,
    NotLeading,
    PeerPing,
    PeerPong,
    Propose,
    ProposeAck,
    SendWhole,
    StoodDown,
    SyncPart,
    SyncProgress,
)
from slotreeve_election_fle.synchronise import NotMyHistory, take_over
from slotreeve_election_fle.timing import FleTiming


class FollowerStage(IntEnum):
    """How far a follower has come with its leader."""

    CONNECTING = 0
    REPORTED = 1
    PROMISED = 2
    ACTIVE = 3


class Following:
    """One attempt to follow one leader.

    Attributes:
        leader: server id of the leader.
        epoch: the epoch that the leader proposed; 0 before it did.
        stage: how far the attempt has come.
        voting: this server's votes and acknowledgements count.
    """

    def __init__(
        self, leader: int, attempt: int, voting: bool, ledger: Ledger, promise: Promise, timing: FleTiming
    ) -> None:
        """``attempt``: unique within the process."""
        self._attempt = attempt
        self.voting = voting
        self._ledger = ledger
        self._promise = promise
        self._timing = timing
        self._held_back: LeaderInfo | None = None
        self._parts: list[SyncPart] = []
        self._is_announced = False
        self._gives_up_at = 0.0
        self.leader = leader
        self.epoch = 0
        self.stage = FollowerStage.CONNECTING

    @property
    def deadline(self) -> float:
        """When to step with Tick."""
        return self._gives_up_at if self._held_back is None else self._promise.free_at(self.leader)

    def step(self, event: RoleEvent, now: float) -> Iterator[RoleEffect]:
        """Take one event; the effects, in order. The attempt is over after RoleOver."""
        match event:
            case Started():
                # There may be no connection to the elected leader yet; it is not waited for longer than a voter is.
                self._gives_up_at = now + self._timing.patience.finalize_wait
            case PeerConnected(self.leader):
                yield from self._report(now)
            case PeerDisconnected(self.leader):
                yield RoleOver("connection lost")
            case Received(self.leader, message):
                yield from self._receive(message, now)
            case StillWriting() if self.stage is not FollowerStage.CONNECTING:
                self._wait_longer(now)
                yield Send(self.leader, AtWork(self._attempt))
            case Tick() if now >= self.deadline:
                yield from self._give_up(now)
            case _:
                pass  # nothing that this attempt depends on

    def _receive(self, message: FleMessage, now: float) -> Iterator[RoleEffect]:
        match message:
            case LeaderInfo(attempt=self._attempt) if self.stage is FollowerStage.REPORTED:
                yield from self._epoch_proposed(message, now)
            case SyncPart(attempt=self._attempt, epoch=self.epoch) if self.stage is FollowerStage.PROMISED:
                self._parts.append(message)
                self._gives_up_at = now + self._timing.handshake
                if message.number:
                    yield Send(self.leader, SyncProgress(self._attempt, self.epoch, message.number))
            case NewLeader(attempt=self._attempt, epoch=self.epoch) if self.stage is FollowerStage.PROMISED:
                yield from self._history_complete(message, now)
            case Propose(epoch=self.epoch) if self.stage is FollowerStage.ACTIVE:
                yield from self._proposed(message)
            case Commit(epoch=self.epoch) if self.stage is FollowerStage.ACTIVE:
                yield from self._committed(message, now)
            case PeerPing(epoch=self.epoch, number=number) if self.stage is FollowerStage.ACTIVE:
                self._promise_again(now)
                yield Send(self.leader, PeerPong(self.epoch, number))
            case AtWork(attempt=self._attempt):
                self._wait_longer(now)
            case StoodDown(epoch=self.epoch, cause=cause):
                self._promise.release(self.leader)
                yield RoleOver(f"leader stood down: {cause}")
            case NotLeading(attempt=self._attempt):
                yield RoleOver("the elected server follows another")
            case Admitted(attempt=self._attempt, epoch=self.epoch) if self.stage is FollowerStage.ACTIVE:
                yield VoteRegained(self.epoch)
            case _:
                pass  # of an earlier attempt or epoch: it never counts

    # --- the handshake -----------------------------------------------------------------------------------------------

    def _report(self, now: float) -> Iterator[RoleEffect]:
        self.stage = FollowerStage.REPORTED
        self._gives_up_at = now + self._timing.handshake
        accepted, lease = self._ledger.accepted_epoch, self._timing.lease
        yield Send(self.leader, FollowerInfo(self._attempt, accepted, self.voting, True, lease))

    def _epoch_proposed(self, info: LeaderInfo, now: float) -> Iterator[RoleEffect]:
        self.epoch = info.epoch
        verdict = judge(self._ledger.accepted_epoch, info.epoch)
        is_bound = self.voting or info.epoch < self._ledger.current_epoch
        if verdict is EpochVerdict.REFUSE and is_bound:
            yield RoleOver(f"epoch {info.epoch} is below {self._ledger.accepted_epoch}, which was accepted before")
            return
        if verdict is EpochVerdict.ACCEPT:
            if now < self._promise.free_at(self.leader):
                self._held_back = info  # until the promise to the earlier leader has run out
                return
            yield from self._ledger.accept(info.epoch)
        self.stage = FollowerStage.PROMISED
        self._gives_up_at = now + self._timing.handshake
        counted = verdict is EpochVerdict.ACCEPT and self.voting
        ack = EpochAck(self._attempt, info.epoch, counted, self._ledger.current_epoch, self._ledger.last_zxid)
        yield Send(self.leader, ack)

    def _history_complete(self, end: NewLeader, now: float) -> Iterator[RoleEffect]:
        parts, self._parts = self._parts, []
        try:
            writes, changes = take_over(self._ledger, parts, end)
        except NotMyHistory:
            self._gives_up_at = now + self._timing.handshake
            yield Send(self.leader, SendWhole(self._attempt, self.epoch))
            return
        yield from writes
        yield from self._ledger.enter(self.epoch)
        self.stage = FollowerStage.ACTIVE
        self._promise_again(now)
        if changes:
            yield Applied(changes)
        yield Send(self.leader, NewLeaderAck(self._attempt, self.epoch, self._ledger.last_zxid))

    def _promise_again(self, now: float) -> None:
        """The promise to the leader runs from here, and as long as it runs the leader may be silent."""
        self._gives_up_at = now + self._timing.promise
        if self.voting:
            self._promise.bind([self.leader], self._gives_up_at)

    def _wait_longer(self, now: float) -> None:
        """The leader, or this server's own disk, is at work on the attempt."""
        if not self._is_announced:
            self._gives_up_at = max(self._gives_up_at, now + self._timing.handshake)

    # --- established -------------------------------------------------------------------------------------------------

    def _proposed(self, propose: Propose) -> Iterator[RoleEffect]:
        if propose.previous_zxid != self._ledger.last_zxid:
            yield RoleOver(
                f"out of step with the leader: its entry after {propose.previous_zxid:#x} came, "
                f"this log ends with {self._ledger.last_zxid:#x}"
            )
            return
        yield from self._ledger.append(propose.entries)
        yield Send(self.leader, ProposeAck(self.epoch, self._ledger.last_zxid))

    def _committed(self, commit: Commit, now: float) -> Iterator[RoleEffect]:
        changes = self._ledger.commit(commit.zxid)
        if changes:
            yield Applied(changes)
            yield from self._ledger.snapshot_if_due()
        if not self._is_announced:
            self._is_announced = True
            self._gives_up_at = now + self._timing.promise  # an established leader has to ping
            yield LeadershipChanged(self.leader, self.epoch, False, "elected")

    # --- the end -----------------------------------------------------------------------------------------------------

    def _give_up(self, now: float) -> Iterator[RoleEffect]:
        if self._held_back is not None:
            held_back, self._held_back = self._held_back, None
            yield from self._epoch_proposed(held_back, now)
        elif self.stage is FollowerStage.ACTIVE:
            yield RoleOver(f"leader silent for {self._timing.promise:g} s", silent_peer=self.leader)
        else:
            cause = f"the elected leader did not go on while {self.stage.name.lower()}"
            yield RoleOver(cause, silent_peer=self.leader)
