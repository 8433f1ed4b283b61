"""The followers of a leader, as the leader sees them: how far each has come, and what a quorum of them has. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from slotreeve_election_fle.lease import renewed_at
from slotreeve_election_fle.messages import NewLeader, SyncPart
from slotreeve_election_fle.quorum import Quorum
from slotreeve_election_fle.synchronise import HistoryTransfer


class LearnerStage(IntEnum):
    """How far a follower has come."""

    REPORTED = 0
    PROMISED = 1
    SENDING = 2
    SENT = 3
    ACTIVE = 4


@dataclass
class Learner:
    """A follower as its leader sees it; dropped with its connection.

    Attributes:
        counts: it is a voter, and its messages count.
        wants_admission: it is a voter that lost its disk.
        paced: it reports its progress while it is sent the history.
        stage: REPORTED to the leader -> PROMISED: it has accepted the epoch -> SENDING: the history is on its way to it
            -> SENT: so is NewLeader -> ACTIVE: it has acknowledged the history.
        transfer: the history, from SENDING on.
        last_zxid: the end of its log when it acknowledged the epoch.
        sent_at: when NewLeader was sent; its acknowledgement renews the lease as a ping does.
        answered_at: when the newest ping that it answered was sent, for the lease. ``heard_at``: when it last answered
            one, however old, or acknowledged the history.
        acked_zxid: everything up to it is on its disk.
        owes_since: since when it has not acknowledged an entry that it was sent; None if it owes nothing.
    """

    sid: int
    attempt: int
    counts: bool
    wants_admission: bool
    stage: LearnerStage = LearnerStage.REPORTED
    last_zxid: int = 0
    sent_at: float = 0.0
    answered_at: float = 0.0
    heard_at: float = 0.0
    acked_zxid: int = 0
    owes_since: float | None = None
    paced: bool = False
    transfer: HistoryTransfer | None = field(default=None, repr=False)

    def acknowledge(self, zxid: int, last_zxid: int, now: float) -> None:
        """Everything up to ``zxid`` is on its disk; ``last_zxid``: the leader's last entry."""
        self.acked_zxid = max(self.acked_zxid, min(zxid, last_zxid))
        self.owes_since = None if self.acked_zxid >= last_zxid else now

    def extend_debt(self, now: float) -> None:
        """A disk is at work: what the follower owes is counted from now."""
        if self.owes_since is not None:
            self.owes_since = now

    def due_messages(self, now: float) -> list[SyncPart | NewLeader]:
        """While it is SENDING: as many parts of the history as may be under way now, and NewLeader after the last."""
        if self.stage is not LearnerStage.SENDING or self.transfer is None:
            return []
        self.owes_since = now
        due: list[SyncPart | NewLeader] = []
        while (part := self.transfer.next_part()) is not None:
            due.append(part)
        if self.transfer.is_complete:
            self.stage, self.sent_at = LearnerStage.SENT, now
            due.append(self.transfer.end())
        return due


class Learners:
    """All followers of the leader ``sid``."""

    def __init__(self, sid: int, quorum: Quorum) -> None:
        self._sid = sid
        self._quorum = quorum
        self._by_sid: dict[int, Learner] = {}

    def add(self, learner: Learner) -> None:
        """A follower has reported."""
        self._by_sid[learner.sid] = learner

    def remove(self, sid: int) -> bool:
        """Drop a follower; whether there was one."""
        return self._by_sid.pop(sid, None) is not None

    def get(self, sid: int) -> Learner | None:
        """One follower."""
        return self._by_sid.get(sid)

    def counts(self, sid: int) -> bool:
        """Whether a server follows, and its acknowledgements count."""
        learner = self._by_sid.get(sid)
        return learner is not None and learner.counts

    def is_active(self, sid: int) -> bool:
        """Whether a server follows, and holds the history."""
        learner = self._by_sid.get(sid)
        return learner is not None and learner.stage is LearnerStage.ACTIVE

    def at_stage(self, stage: LearnerStage = LearnerStage.REPORTED) -> list[Learner]:
        """The followers that have come at least so far, in the order of their reports."""
        return [learner for learner in self._by_sid.values() if learner.stage >= stage]

    def is_quorum(self, zxid: int = 0) -> bool:
        """Whether the leader is a quorum together with the voters that follow it and have everything up to ``zxid``."""
        return self._quorum.contains({self._sid} | {x.sid for x in self._active_voters() if x.acked_zxid >= zxid})

    def quorum_zxid(self, last_zxid: int) -> int:
        """The highest number up to which a quorum has everything, the leader with ``last_zxid`` included; 0 if none."""
        zxids = {last_zxid} | {min(learner.acked_zxid, last_zxid) for learner in self._active_voters()}
        return next((zxid for zxid in sorted(zxids, reverse=True) if self.is_quorum(zxid)), 0)

    def renewed_at(self) -> float | None:
        """When the newest pings were sent that a quorum has answered; see :func:`.lease.renewed_at`."""
        return renewed_at(self._quorum, self._sid, {x.sid: x.answered_at for x in self._active_voters()})

    def debtors(self) -> Iterable[tuple[Learner, float]]:
        """The followers that owe an acknowledgement, and since when."""
        return [(x, x.owes_since) for x in self._by_sid.values() if x.owes_since is not None]

    def silent(self, since: float) -> list[Learner]:
        """The followers that have the history, and have answered nothing after then."""
        return [learner for learner in self.at_stage(LearnerStage.ACTIVE) if learner.heard_at < since]

    def _active_voters(self) -> list[Learner]:
        return [learner for learner in self.at_stage(LearnerStage.ACTIVE) if learner.counts]
