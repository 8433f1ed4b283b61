"""The role LOOKING: one election, seen from one server (docs/fle.md, section 5). Pure.

A server announces whom it proposes, adopts better proposals, and counts the servers that propose the same. Seconds
throughout; ``now`` is monotonic.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from slotreeve_machines.driver import Started, Tick
from slotreeve_machines.leadership import Noted

from slotreeve_election_fle.effects import Announce, Decided, RoleEffect, Send
from slotreeve_election_fle.events import PeerConnected, PeerDisconnected, PeerUnreachable, RoleEvent, VoteReceived
from slotreeve_election_fle.messages import Notification
from slotreeve_election_fle.quorum import Quorum
from slotreeve_election_fle.vote import NOBODY, State, Vote, outranks, supporters


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
    """An election in progress.

    Attributes:
        round: the logical clock: the number of the election (docs/fle.md, 5.6).
        proposal: the vote that this server gives now.
    """

    def __init__(
        self,
        sid: int,
        quorum: Quorum,
        initial: Vote,
        unreachable: Iterable[int],
        patience: Patience,
        rng: random.Random,
    ) -> None:
        """``initial`` is the server's own vote and names the round; NOBODY for a server that is no candidate."""
        self._sid = sid
        self._quorum = quorum
        self._patience = patience
        self._rng = rng
        self._initial = initial
        self._unreachable = set(unreachable)
        self._votes: dict[int, Vote] = {}
        self._established: dict[int, Vote] = {}
        self._finalize_at: float | None = None
        self._resend_wait = self._resend_at = 0.0
        self.round = initial.round
        self.proposal = initial

    @property
    def deadline(self) -> float:
        """When to step with Tick."""
        return self._resend_at if self._finalize_at is None else min(self._resend_at, self._finalize_at)

    def step(self, event: RoleEvent, now: float) -> Iterator[RoleEffect]:
        """Take one event; the effects, in order. The election is over after Decided."""
        match event:
            case Started():
                self._reset_resend(now)
                yield Announce(self.proposal)
                yield from self._conclude(now)
            case VoteReceived(sid, vote):
                yield from self._count(sid, vote, now)
            case PeerConnected(sid):
                self._unreachable.discard(sid)
                yield from self._conclude(now)
                yield Send(sid, Notification(self.proposal))
            case PeerDisconnected(sid) | PeerUnreachable(sid) if sid in self._quorum.voters:
                self._unreachable.add(sid)
                yield from self._conclude(now)
            case Tick() if now >= self.deadline:
                decided = list(self._conclude(now))
                yield from decided
                if not decided and now >= self._resend_at:
                    self._schedule_resend(now)
                    yield Announce(self.proposal)
            case _:
                pass  # nothing that an election depends on

    # --- votes -------------------------------------------------------------------------------------------------------

    def _count(self, sid: int, vote: Vote, now: float) -> Iterator[RoleEffect]:
        objection = self._objection(sid, vote)
        if objection is not None:
            yield Noted(f"vote of server {sid} ignored: {objection}", warning=False)
            return
        self._unreachable.discard(sid)
        if vote.state is State.LOOKING:
            yield from self._count_looking(sid, vote, now)
        else:
            yield from self._count_established(sid, vote)

    def _objection(self, sid: int, vote: Vote) -> str | None:
        """Why a vote is not counted; None if it is."""
        if sid not in self._quorum.voters:
            return "it is not a voter"
        if vote.leader != NOBODY and vote.leader not in self._quorum.candidates:
            return f"its candidate {vote.leader} is not a voter, or has no weight"
        if vote.state is State.OBSERVING:
            return "it observes"
        if vote.state is State.LOOKING and vote.zxid == -1:
            return "zxid -1: it has not read its log yet"
        return None

    def _count_looking(self, sid: int, vote: Vote, now: float) -> Iterator[RoleEffect]:
        """A peer that looks for a leader too (docs/fle.md, 5.4)."""
        if vote.round < self.round:
            if self._sid != NOBODY:  # a vote that is not counted need not be caught up with, and would be answered
                yield Send(sid, Notification(self.proposal))
            return
        if vote.round > self.round:
            self._enter_round(vote, now)
            yield Announce(self.proposal)
        elif outranks(vote, self.proposal):
            self._propose(vote)
            yield Announce(self.proposal)
        self._votes[sid] = vote
        yield from self._conclude(now)

    def _count_established(self, sid: int, vote: Vote) -> Iterator[RoleEffect]:
        """A peer that follows or leads already (docs/fle.md, 5.5). No finalize wait.

        A vote of this server's own round is counted together with those of the peers that look, and its own.
        """
        if vote.round == self.round:
            self._votes[sid] = vote
            if self._joinable({**self._votes, self._sid: self.proposal}, vote):
                yield Decided(vote)
                return
        self._established[sid] = vote
        if self._joinable(self._established, vote) or self._claims(sid, vote):
            yield Decided(vote)

    def _joinable(self, votes: dict[int, Vote], vote: Vote) -> bool:
        """Whether a quorum follows ``vote.leader``, and it still leads ("checkLeader"; docs/fle.md, 5.5).

        The votes of its followers are not enough, or a leader that died would be elected again from their memory.
        Votes of peers that follow this server count in its own round only.
        """
        if not self._quorum.contains(supporters(votes, vote)):
            return False
        if vote.leader == self._sid:
            return vote.round == self.round
        return vote.leader in votes and votes[vote.leader].state is State.LEADING

    def _claims(self, sid: int, vote: Vote) -> bool:
        """Whether the peer itself reports that it leads, and nothing better is in sight here: this server has no other
        candidate, or is behind, or has announced one in vain. The peer was given the votes of a quorum; this server may
        be connected with it alone."""
        if vote.state is not State.LEADING or vote.leader != sid:
            return False
        is_behind = vote.peer_epoch > self._initial.peer_epoch
        return self.proposal.leader in (NOBODY, sid) or is_behind or self._resend_wait > self._patience.resend_min

    # --- the proposal ------------------------------------------------------------------------------------------------

    def _enter_round(self, vote: Vote, now: float) -> None:
        """A higher round makes earlier votes void. The vote is compared with the server's own *initial* vote, since
        the present proposal may rest on one of them."""
        self.round = vote.round
        self._votes.clear()
        self._reset_resend(now)
        initial = self._in_this_round(self._initial)
        self._propose(vote if outranks(vote, initial) else initial)

    def _propose(self, vote: Vote) -> None:
        self.proposal = self._in_this_round(vote)
        self._finalize_at = None

    def _in_this_round(self, vote: Vote) -> Vote:
        return Vote(vote.leader, vote.zxid, vote.peer_epoch, self.round)

    def _conclude(self, now: float) -> Iterator[RoleEffect]:
        """Decide where a quorum agrees, and no voter that might still outrank the proposal is left or was waited for
        long enough."""
        agreeing = supporters(self._votes, self.proposal) | {self._sid}
        if self.proposal.leader == NOBODY or not self._quorum.contains(agreeing):
            self._finalize_at = None
            return
        if self._finalize_at is None:
            self._finalize_at = now + self._patience.finalize_wait
        if now >= self._finalize_at or not self._outstanding():
            yield Decided(self.proposal)

    def _outstanding(self) -> set[int]:
        """Candidates that could outrank the proposal: they have sent no vote in this round, and are not known to be
        unreachable."""
        known = self._votes.keys() | self._unreachable | {self._sid}
        return set(self._quorum.candidates - known)

    # --- sending again -----------------------------------------------------------------------------------------------

    def _reset_resend(self, now: float) -> None:
        self._resend_wait = self._patience.resend_min
        self._resend_at = now + self._lengthened(self._resend_wait)

    def _schedule_resend(self, now: float) -> None:
        self._resend_wait = min(2 * self._resend_wait, self._patience.resend_max)
        self._resend_at = now + self._lengthened(self._resend_wait)

    def _lengthened(self, seconds: float) -> float:
        return seconds * (1 + self._patience.jitter * self._rng.random())
