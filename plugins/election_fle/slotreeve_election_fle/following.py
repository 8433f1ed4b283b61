"""The FOLLOWING (and OBSERVING) state: from the report to an elected leader to its death. Pure but for the ledger.

Stages: REPORTED to the leader -> PROMISED: its epoch is accepted -> ACTIVE: its history is this server's too, its
proposals are logged, its pings answered. Spec sections 6.1, 6.3 and 8.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from slotreeve_election_fle import effects
from slotreeve_election_fle.effects import Applied, Effect, LeadershipChanged, RoleOver, Send
from slotreeve_election_fle.handshake import Verdict, judge
from slotreeve_election_fle.lease import Promise
from slotreeve_election_fle.ledger import Ledger
from slotreeve_election_fle.messages import (
    Admitted,
    Commit,
    EpochAck,
    FollowerInfo,
    LeaderInfo,
    NewLeader,
    NewLeaderAck,
    NotLeading,
    Ping,
    Pong,
    Propose,
    ProposeAck,
    RoleMessage,
    SendWhole,
    StoodDown,
    SyncPart,
)
from slotreeve_election_fle.synchronise import NotMyHistory, take_over
from slotreeve_election_fle.timing import Timing


class Stage(IntEnum):
    """How far a follower has come with its leader."""

    CONNECTING = 0
    REPORTED = 1
    PROMISED = 2
    ACTIVE = 3


class Following:
    """One attempt to follow one leader.

    Attributes:
        leader: whom.
        epoch: the epoch the leader proposed; 0 before it did.
        stage: how far it has come.
    """

    def __init__(
        self, leader: int, attempt: int, voting: bool, ledger: Ledger, promise: Promise, timing: Timing, now: float
    ) -> None:
        self._attempt = attempt
        self._voting = voting
        self._ledger = ledger
        self._promise = promise
        self._timing = timing
        self._held: LeaderInfo | None = None
        self._parts: list[SyncPart] = []
        self._announced = False
        self.leader = leader
        self.epoch = 0
        self.stage = Stage.CONNECTING
        # Elected without a connection to it: it may be about to connect, but is no reason to wait for long.
        self._gives_up_at = now + timing.patience.finalize_wait

    @property
    def deadline(self) -> float:
        """When :meth:`pass_time` is due."""
        return self._gives_up_at if self._held is None else self._promise.free_at(self.leader)

    @property
    def is_active(self) -> bool:
        """In sync with an acknowledged leader."""
        return self.stage is Stage.ACTIVE

    # --- events ------------------------------------------------------------------------------------------------------

    def connected(self, now: float) -> Iterator[Effect]:
        """The channel to the leader is open."""
        self.stage = Stage.REPORTED
        self._gives_up_at = now + self._timing.handshake
        yield Send(self.leader, FollowerInfo(self._attempt, self._ledger.accepted_epoch, self._voting))

    def receive(self, message: RoleMessage, now: float) -> Iterator[Effect]:
        """A message of the leader."""
        match message:
            case LeaderInfo(attempt=self._attempt) if self.stage is Stage.REPORTED:
                yield from self._epoch_proposed(message, now)
            case SyncPart(attempt=self._attempt, epoch=self.epoch) if self.stage is Stage.PROMISED:
                self._parts.append(message)
                self._gives_up_at = now + self._timing.handshake
            case NewLeader(attempt=self._attempt, epoch=self.epoch) if self.stage is Stage.PROMISED:
                yield from self._history_complete(message, now)
            case Propose(epoch=self.epoch) if self.is_active:
                yield from self._proposed(message)
            case Commit(epoch=self.epoch) if self.is_active:
                yield from self._committed(message)
            case Ping(epoch=self.epoch, number=number) if self.is_active:
                self._heard(now)
                yield Send(self.leader, Pong(self.epoch, number))
            case StoodDown(epoch=self.epoch, cause=cause):
                self._promise.release(self.leader)
                yield RoleOver(f"leader stood down: {cause}")
            case NotLeading(attempt=self._attempt):
                yield RoleOver("the elected server follows another")
            case Admitted(attempt=self._attempt, epoch=self.epoch) if self.is_active and not self._voting:
                yield effects.Admitted(self.epoch)
            case _:
                pass  # of an earlier attempt or epoch: it never counts

    def pass_time(self, now: float) -> Iterator[Effect]:
        """The deadline was reached."""
        if now < self.deadline:
            return
        if self._held is not None:
            held, self._held = self._held, None
            yield from self._epoch_proposed(held, now)
        elif self.is_active:
            yield RoleOver(f"leader silent for {self._timing.promise:g} s", silent_peer=self.leader)
        else:
            yield RoleOver(f"the elected leader did not go on while {self.stage.name.lower()}", silent_peer=self.leader)

    # --- the handshake -----------------------------------------------------------------------------------------------

    def _epoch_proposed(self, info: LeaderInfo, now: float) -> Iterator[Effect]:
        self.epoch = info.epoch
        verdict = judge(self._ledger.accepted_epoch, info.epoch)
        if verdict is Verdict.REFUSE:
            yield RoleOver(f"epoch {info.epoch} is below {self._ledger.accepted_epoch}, which was accepted before")
            return
        if verdict is Verdict.ACCEPT:
            if now < self._promise.free_at(self.leader):
                self._held = info
                return
            self._ledger.accept(info.epoch)
        self.stage = Stage.PROMISED
        self._gives_up_at = now + self._timing.handshake
        counted = verdict is Verdict.ACCEPT and self._voting
        yield Send(
            self.leader,
            EpochAck(self._attempt, info.epoch, counted, self._ledger.current_epoch, self._ledger.last_zxid),
        )

    def _history_complete(self, end: NewLeader, now: float) -> Iterator[Effect]:
        parts, self._parts = self._parts, []
        try:
            changes = take_over(self._ledger, parts, end)
        except NotMyHistory:
            self._gives_up_at = now + self._timing.handshake
            yield Send(self.leader, SendWhole(self._attempt, self.epoch))
            return
        self._ledger.enter(self.epoch)
        self.stage = Stage.ACTIVE
        self._heard(now)
        if changes:
            yield Applied(changes)
        yield Send(self.leader, NewLeaderAck(self._attempt, self.epoch, self._ledger.last_zxid))

    def _heard(self, now: float) -> None:
        """The promise runs from here, and with it the patience with the leader's silence."""
        self._gives_up_at = now + self._timing.promise
        if self._voting:
            self._promise.bind([self.leader], self._gives_up_at)

    # --- established -------------------------------------------------------------------------------------------------

    def _proposed(self, propose: Propose) -> Iterator[Effect]:
        if propose.previous_zxid != self._ledger.last_zxid:
            yield RoleOver(
                f"out of step with the leader: its entry after {propose.previous_zxid:#x} came, "
                f"this log ends with {self._ledger.last_zxid:#x}"
            )
            return
        self._ledger.append(propose.entries)
        yield Send(self.leader, ProposeAck(self.epoch, self._ledger.last_zxid))

    def _committed(self, commit: Commit) -> Iterator[Effect]:
        changes = self._ledger.commit(commit.zxid)
        if changes:
            yield Applied(changes)
        if not self._announced:
            self._announced = True
            yield LeadershipChanged(self.leader, self.epoch, False, "elected")
