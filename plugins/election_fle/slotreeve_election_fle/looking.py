"""One election: the LOOKING state of fast leader election as a pure state machine (spec section 5).

``step(event, now)`` takes what happened and returns what is to be done. Seconds throughout; ``now`` is monotonic.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from slotreeve_election_fle.quorum import Quorum
from slotreeve_election_fle.vote import NOBODY, State, Vote, outranks, supporters


@dataclass(frozen=True, slots=True)
class Heard:
    """A notification arrived."""

    sid: int
    vote: Vote


@dataclass(frozen=True, slots=True)
class Reachability:
    """A peer is now known to be unreachable (connection closed or refused, leader silent), or no longer is."""

    sid: int
    unreachable: bool


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Nothing arrived; ``deadline`` may have been reached."""


@dataclass(frozen=True, slots=True)
class Announce:
    """Send the proposal to every other voter."""

    vote: Vote


@dataclass(frozen=True, slots=True)
class Answer:
    """Send the proposal to one server that lags behind."""

    sid: int
    vote: Vote


@dataclass(frozen=True, slots=True)
class Decided:
    """The election is over: ``vote.leader`` is nominated. The machine must not be stepped any more."""

    vote: Vote


@dataclass(frozen=True, slots=True)
class Ignored:
    """A notification was not taken into account, and why."""

    sid: int
    reason: str


LookingEvent = Heard | Reachability | TimePassed
LookingEffect = Announce | Answer | Decided | Ignored


@dataclass(frozen=True)
class Patience:
    """How long an election waits.

    Attributes:
        finalize_wait: seconds that a quorum waits for voters that might still outrank its proposal.
        resend_min, resend_max: seconds before the proposal is sent again; doubled each time.
        jitter: share by which the re-send time is lengthened at random, so that servers do not move in step.
    """

    finalize_wait: float = 0.2
    resend_min: float = 0.2
    resend_max: float = 60.0
    jitter: float = 0.05


class Looking:
    """An election in progress, seen from one server.

    Attributes:
        round: the logical clock.
        proposal: whom this server proposes now.
        deadline: when :class:`TimePassed` is due.
    """

    def __init__(
        self,
        sid: int,
        quorum: Quorum,
        initial: Vote,
        unreachable: Iterable[int],
        patience: Patience,
        rng: random.Random,
        now: float,
    ) -> None:
        """``initial`` is the server's own vote and names the round; NOBODY for one that does not stand."""
        self._sid = sid
        self._quorum = quorum
        self._patience = patience
        self._rng = rng
        self._initial = initial
        self._unreachable = set(unreachable)
        self._votes: dict[int, Vote] = {}
        self._established: dict[int, Vote] = {}
        self._finalize_at: float | None = None
        self.round = initial.round
        self.proposal = initial
        self._reset_resend(now)

    @property
    def deadline(self) -> float:
        """When to step with :class:`TimePassed`."""
        return self._resend_at if self._finalize_at is None else min(self._resend_at, self._finalize_at)

    def begin(self, now: float) -> list[LookingEffect]:
        """The first effects: announce the own vote (and decide, where it is a quorum by itself)."""
        return [Announce(self.proposal), *self._conclude(now)]

    def step(self, event: LookingEvent, now: float) -> list[LookingEffect]:
        """Take one event; what is to be done, in order."""
        match event:
            case Heard(sid, vote):
                return self._hear(sid, vote, now)
            case Reachability(sid, unreachable):
                if unreachable:
                    self._unreachable.add(sid)
                else:
                    self._unreachable.discard(sid)
                return self._conclude(now)
            case TimePassed():
                return self._pass_time(now)

    def _hear(self, sid: int, vote: Vote, now: float) -> list[LookingEffect]:
        if sid not in self._quorum.voters:
            return [Ignored(sid, f"server {sid} is not a voter")]
        if vote.leader != NOBODY and vote.leader not in self._quorum.candidates:
            return [Ignored(sid, f"its candidate {vote.leader} is not a voter, or weighs nothing")]
        self._unreachable.discard(sid)
        match vote.state:
            case State.LOOKING:
                return self._hear_looking(sid, vote, now)
            case State.FOLLOWING | State.LEADING:
                return self._hear_established(sid, vote)
            case State.OBSERVING:
                return [Ignored(sid, "an observer's vote does not count")]

    def _hear_looking(self, sid: int, vote: Vote, now: float) -> list[LookingEffect]:
        """Spec 5.4."""
        if vote.zxid == -1:
            return [Ignored(sid, "zxid -1: it has not read its log yet")]
        effects: list[LookingEffect] = []
        if vote.round < self.round:
            return [Answer(sid, self.proposal)]
        if vote.round > self.round:
            self._enter_round(vote, now)
            effects.append(Announce(self.proposal))
        elif outranks(vote, self.proposal):
            self._propose(vote)
            effects.append(Announce(self.proposal))
        self._votes[sid] = vote
        return effects + self._conclude(now)

    def _hear_established(self, sid: int, vote: Vote) -> list[LookingEffect]:
        """Spec 5.5: somebody follows or leads already. No finalize wait. In its own round this server's own vote
        counts as well."""
        if vote.round == self.round:
            self._votes[sid] = vote
            if self._joinable({**self._votes, self._sid: self.proposal}, vote):
                return [Decided(vote)]
        self._established[sid] = vote
        if self._joinable(self._established, vote):
            return [Decided(vote)]
        return []

    def _pass_time(self, now: float) -> list[LookingEffect]:
        effects = self._conclude(now)
        if not effects and now >= self._resend_at:
            self._schedule_resend(now)
            effects.append(Announce(self.proposal))
        return effects

    def _enter_round(self, vote: Vote, now: float) -> None:
        """A higher round: earlier votes are void. The comparison is with the own *initial* vote, since the present
        proposal may rest on one of them."""
        self.round = vote.round
        self._votes.clear()
        self._reset_resend(now)
        initial = self._in_this_round(self._initial)
        self.proposal = self._in_this_round(vote) if outranks(vote, initial) else initial
        self._finalize_at = None

    def _propose(self, vote: Vote) -> None:
        self.proposal = self._in_this_round(vote)
        self._finalize_at = None

    def _conclude(self, now: float) -> list[LookingEffect]:
        """Decide where a quorum agrees and nobody who might still outrank the proposal is left, or waited for long
        enough."""
        agreeing = supporters(self._votes, self.proposal) | {self._sid}
        if self.proposal.leader == NOBODY or not self._quorum.contains(agreeing):
            self._finalize_at = None
            return []
        if self._finalize_at is None:
            self._finalize_at = now + self._patience.finalize_wait
        if now < self._finalize_at and self._outstanding():
            return []
        return [Decided(self.proposal)]

    def _outstanding(self) -> set[int]:
        """Candidates that could outrank the proposal for all this server knows: not heard in this round, not known
        to be unreachable."""
        known = self._votes.keys() | self._unreachable | {self._sid}
        return set(self._quorum.candidates - known)

    def _joinable(self, votes: dict[int, Vote], vote: Vote) -> bool:
        """A quorum follows ``vote.leader``, and it still leads (spec "checkLeader").

        Its followers' word alone is not enough, or a leader that died would be elected again from memory. That I
        lead myself is believed only in my own round.
        """
        if not self._quorum.contains(supporters(votes, vote)):
            return False
        if vote.leader == self._sid:
            return vote.round == self.round
        return vote.leader in votes and votes[vote.leader].state is State.LEADING

    def _in_this_round(self, vote: Vote) -> Vote:
        return Vote(vote.leader, vote.zxid, vote.peer_epoch, self.round)

    def _reset_resend(self, now: float) -> None:
        self._resend_wait = self._patience.resend_min
        self._resend_at = now + self._lengthened(self._resend_wait)

    def _schedule_resend(self, now: float) -> None:
        self._resend_wait = min(2 * self._resend_wait, self._patience.resend_max)
        self._resend_at = now + self._lengthened(self._resend_wait)

    def _lengthened(self, seconds: float) -> float:
        return seconds * (1 + self._patience.jitter * self._rng.random())
