"""One server of the ensemble: LOOKING, then LEADING or FOLLOWING, then LOOKING again. Pure.

The server keeps what outlives its roles: the ledger, the promise, what it knows of its peers. It answers votes while it
does not look for a leader itself, and passes everything else to its role. docs/fle.md, sections 1, 4 and 5.7;
ZooKeeper's QuorumPeer and WorkerReceiver.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from slotreeve.errors import NotLeader, StaleTerm
from slotreeve_machines.driver import NEVER, Started, Tick
from slotreeve_machines.leadership import LeadershipChanged, Noted, ResignAsked

from slotreeve_election_fle.effects import (
    Announce,
    Decided,
    Effect,
    HangUp,
    NotWritten,
    Probe,
    RoleOver,
    Send,
    VoteRegained,
)
from slotreeve_election_fle.events import (
    Event,
    FollowerReported,
    PeerConnected,
    PeerDead,
    PeerDisconnected,
    PeerUnreachable,
    Received,
    RoleEvent,
    StillWriting,
    VoteReceived,
    WriteAsked,
)
from slotreeve_election_fle.following import Following
from slotreeve_election_fle.handshake import EpochProposal
from slotreeve_election_fle.identity import Identity
from slotreeve_election_fle.leading import Leading
from slotreeve_election_fle.lease import Promise
from slotreeve_election_fle.ledger import Ledger
from slotreeve_election_fle.looking import Looking
from slotreeve_election_fle.messages import (
    Distrust,
    EpochAck,
    FollowerInfo,
    Greeting,
    LeaderInfo,
    Notification,
    NotLeading,
)
from slotreeve_election_fle.peers import GreetedPeers
from slotreeve_election_fle.quorum import Quorum
from slotreeve_election_fle.timing import FleTiming
from slotreeve_election_fle.vote import NOBODY, State, Vote


@dataclass(frozen=True)
class Place:
    """What is fixed for one server as long as it runs.

    Attributes:
        sid: its server id; NOBODY for one that is no member.
        observer: it takes no part in elections.
        quorum: the quorums of the ensemble.
        timing: the intervals of the protocol.
        recovers: votes of servers that have lost their directory count while all voters are connected.
    """

    sid: int
    observer: bool
    quorum: Quorum
    timing: FleTiming
    recovers: bool = False


class Member:
    """The whole of one server but for its connections, its disk and its timer.

    Attributes:
        term: epoch of the last leader known to be established; only rises.
    """

    def __init__(self, place: Place, ledger: Ledger, identity: Identity, rng: random.Random) -> None:
        self._sid, self._observer, self._quorum = place.sid, place.observer, place.quorum
        self._timing, self._recovers = place.timing, place.recovers
        self._peers = GreetedPeers(self._sid, self._quorum, identity, place.recovers)
        self._ledger = ledger
        self._identity = identity
        self._rng = rng
        self._promise = Promise()
        self._role: Looking | Leading | Following | None = None
        self._unreachable: set[int] = set()
        self._early: dict[int, FollowerInfo] = {}  # reports that came before this server knew that it leads
        self._unanswered: dict[int, tuple[float, Vote]] = {}  # votes that came while this server did not look, and when
        self._round = 0
        self._attempt = 0
        self._abstains_until = 0.0
        self._vote = self._own_vote(0.0)
        self._leader: int | None = None
        self.term = ledger.current_epoch

    @property
    def valid_until(self) -> float:
        """While this server leads: the end of its lease, until which it may act on its own; otherwise 0."""
        return self._role.valid_until if isinstance(self._role, Leading) else 0.0

    @property
    def deadline(self) -> float:
        """When to step with Tick."""
        if self._role is None:
            return NEVER
        if isinstance(self._role, Looking) and self._abstains_until > 0:
            return min(self._role.deadline, self._abstains_until)
        return self._role.deadline

    def step(self, event: Event, now: float) -> list[Effect]:
        """Take one event; the effects, in order."""
        return list(self._handle(event, now))

    def _handle(self, event: Event, now: float) -> Iterator[Effect]:
        match event:
            case Started():
                yield from self._start(now)
            case PeerConnected(sid):
                yield Send(sid, self._identity.greeting(self._ledger.accepted_epoch, self._observer))
            case PeerDisconnected(sid):
                yield from self._disconnected(sid, now)
            case PeerDead(sid):
                if sid not in self._peers:  # otherwise it lives again, and its own messages count
                    self._promise.release(sid)
            case PeerUnreachable(sid):
                self._unreachable.add(sid)
                yield from self._play(event, now)
            case Received(sid, Greeting() as greeting):
                yield from self._greeted(sid, greeting, now)
            case Received(sid) if sid not in self._peers:
                pass  # nothing counts before the greeting
            case Received(sid, Distrust(reason)):
                yield from self._distrusted(sid, reason, now)
            case Received(sid, Notification(vote)):
                yield from self._notified(sid, vote, now)
            case Received(sid, FollowerInfo() as info):
                self._peers.has_accepted(sid, info.accepted_epoch)
                yield from self._reported(sid, info, now)
            case Received(sid, EpochAck(epoch=epoch) | LeaderInfo(epoch=epoch)):
                self._peers.has_accepted(sid, epoch)
                yield from self._play(event, now)
            case Received():
                yield from self._play(event, now)
            case WriteAsked():
                yield from self._write(event, now)
            case ResignAsked() | StillWriting():
                yield from self._play(event, now)
            case Tick():
                yield from self._pass_time(now)

    def _start(self, now: float) -> Iterator[Effect]:
        if self._ledger.accepted_epoch > 0 or self._recovers:
            # The promises given before the restart are forgotten, but a leader may still count on them.
            self._promise.bind(self._quorum.voters - {self._sid}, now + self._timing.promise)
        yield from self._look(now)

    def _pass_time(self, now: float) -> Iterator[Effect]:
        if 0 < self._abstains_until <= now:
            self._abstains_until = 0.0
            if isinstance(self._role, Looking):
                yield from self._look(now)
                return
        yield from self._play(Tick(), now)

    # --- peers -------------------------------------------------------------------------------------------------------

    def _greeted(self, sid: int, peer: Greeting, now: float) -> Iterator[Effect]:
        misfit = self._identity.misfit(peer, self._ledger.accepted_epoch) or self._identity.replaced(sid, peer)
        if misfit is not None:
            yield HangUp(sid, misfit, for_good=True)
            return
        is_new, was_complete = sid not in self._peers, self._peers.is_complete
        is_voter = sid in self._quorum.voters and not peer.observer
        if is_voter and (joined := self._identity.join(peer, self._ledger.accepted_epoch)):
            yield from joined
            for other in self._peers:  # they may be of another ensemble
                yield HangUp(other, "this server has joined an ensemble, and greets again")
        self._peers.greeted(sid, is_voter and self._identity.trusts(sid, peer))
        if self._peers.trusts(sid):
            yield from self._identity.remember(sid, peer)
        elif is_voter:
            yield Noted(f"server {sid} has lost its promises (another data directory); its votes do not count")
            yield Send(sid, Distrust("you took part with another data directory, or a newer state of this one, before"))
        if is_new:
            self._unreachable.discard(sid)
            yield from self._play(PeerConnected(sid), now)
        yield from self._completeness_may_have_changed(was_complete, now)

    def _completeness_may_have_changed(self, was_complete: bool, now: float) -> Iterator[Effect]:
        if was_complete is not self._peers.is_complete and isinstance(self._role, Looking):
            yield from self._look(now)

    def _distrusted(self, sid: int, reason: str, now: float) -> Iterator[Effect]:
        """A voter remembers this server with another directory. That ends no leadership that a quorum supports."""
        if not self._identity.may_vote or not self._peers.trusts(sid) or self._leader is not None:
            return
        yield from self._identity.lose_vote()
        yield Noted(
            f"server {sid} does not count this server's votes: {reason}; not voting until a leader has brought this "
            "server up to date"
        )
        yield from self._leave_role(RoleOver("this server must not vote"), now)

    def _disconnected(self, sid: int, now: float) -> Iterator[Effect]:
        was_complete = self._peers.is_complete
        self._peers.left(sid)
        self._early.pop(sid, None)
        self._unanswered.pop(sid, None)
        if sid in self._quorum.voters:
            self._unreachable.add(sid)
        if self._promise.holds(sid):
            yield Probe(sid)
        role = self._role
        yield from self._play(PeerDisconnected(sid), now)
        if isinstance(role, Looking) and self._role is not role:
            yield from self._play(PeerDisconnected(sid), now)  # the election may have ended with this peer as leader
        yield from self._completeness_may_have_changed(was_complete, now)

    def _notified(self, sid: int, vote: Vote, now: float) -> Iterator[Effect]:
        """A vote arrived (docs/fle.md, section 4)."""
        if vote.state is not State.LEADING:
            self._promise.release(sid)  # by its own message it does not lead: whatever lease it held is over
            self._early.pop(sid, None)
        if isinstance(self._role, Leading):
            yield from self._play(VoteReceived(sid, vote), now)  # which may end the role
        if isinstance(self._role, Looking) and self._peers.counts(sid):
            yield from self._play(VoteReceived(sid, vote), now)
        elif vote.state is State.LOOKING:
            if not isinstance(self._role, Looking):
                self._unanswered[sid] = (now, vote)
            yield Send(sid, Notification(self._present_vote))

    def _reported(self, sid: int, info: FollowerInfo, now: float) -> Iterator[Effect]:
        if isinstance(self._role, Leading):
            reported = FollowerReported(sid, info, self._peers.counts(sid), self._peers.trusts(sid))
            yield from self._play(reported, now)
        elif isinstance(self._role, Following):
            yield Send(sid, NotLeading(info.attempt))
        else:
            self._early[sid] = info

    # --- writes ------------------------------------------------------------------------------------------------------

    def _write(self, asked: WriteAsked, now: float) -> Iterator[Effect]:
        refusal = self._refusal(asked, now)
        if refusal is None:
            yield from self._play(asked, now)
        else:
            yield NotWritten(asked.token, refusal)

    def _refusal(self, asked: WriteAsked, now: float) -> Exception | None:
        """Why this server cannot take a write; None if it can."""
        role = self._role
        if asked.term < self.term:
            return StaleTerm(f"write to {asked.key!r} under term {asked.term}, but the highest known is {self.term}")
        if not isinstance(role, Leading) or not role.is_established or asked.term != role.epoch:
            return NotLeader(f"write to {asked.key!r}: this node does not lead")
        if role.is_resigning:
            return NotLeader(f"write to {asked.key!r}: this node is resigning")
        if now >= role.valid_until:
            return NotLeader(f"write to {asked.key!r}: no quorum has answered this node for a lease")
        return None

    # --- roles -------------------------------------------------------------------------------------------------------

    @property
    def _votes(self) -> bool:
        return not self._observer and (self._identity.may_vote or self._peers.is_complete)

    @property
    def _present_vote(self) -> Vote:
        return self._role.proposal if isinstance(self._role, Looking) else self._vote

    def _own_vote(self, now: float) -> Vote:
        stands = self._votes and self._sid in self._quorum.candidates and now >= self._abstains_until
        candidate = self._sid if stands else NOBODY
        return Vote(candidate, self._ledger.last_zxid, self._ledger.current_epoch, self._round)

    def _play(self, event: RoleEvent, now: float) -> Iterator[Effect]:
        """Step the role; the effects, without those that are meant for this server."""
        if self._role is None:
            return
        for effect in self._role.step(event, now):
            match effect:
                case Announce(vote):
                    for sid in self._peers:
                        yield Send(sid, Notification(vote))
                case Decided(vote):
                    yield from self._take_role(vote, now)
                    return
                case RoleOver():
                    yield from self._leave_role(effect, now)
                    return
                case VoteRegained(epoch):
                    if not self._observer and not self._identity.may_vote:
                        yield from self._regain_vote(epoch, now)
                        return
                case LeadershipChanged(leader, term, is_leading):
                    self._establish(leader, term)
                    yield effect
                    if is_leading and not self._identity.may_vote:
                        yield from self._identity.regain_vote(term)
                        yield from self._greet_again()
                case _:
                    yield effect

    def _look(self, now: float, silent_peer: int | None = None) -> Iterator[Effect]:
        self._round += 1
        self._vote = self._own_vote(now)
        unreachable = self._unreachable if silent_peer is None else self._unreachable | {silent_peer}
        counted_as = self._sid if self._votes else NOBODY
        looking = Looking(counted_as, self._quorum, self._vote, unreachable, self._timing.patience, self._rng)
        self._role = looking
        yield from self._play(Started(), now)
        # A peer that lost the leader a moment earlier has announced its vote already and will not do so again soon.
        unanswered, self._unanswered = self._unanswered, {}
        for sid, (received_at, vote) in unanswered.items():
            if now - received_at < self._timing.promise and self._role is looking and self._peers.counts(sid):
                yield from self._play(VoteReceived(sid, vote), now)

    def _take_role(self, vote: Vote, now: float) -> Iterator[Effect]:
        """The election is over (docs/fle.md, 5.4, step 6)."""
        self._round = vote.round
        leads = vote.leader == self._sid
        state = State.LEADING if leads else State.FOLLOWING if self._votes else State.OBSERVING
        self._vote = Vote(vote.leader, vote.zxid, vote.peer_epoch, vote.round, state)
        yield Noted(f"elected: server {vote.leader} in round {vote.round}", warning=False)
        early, self._early = self._early, {}
        if leads:
            highest = max(self._ledger.accepted_epoch, self._peers.seen_epoch)
            proposal = EpochProposal(self._sid, self._peers.epoch_quorum(), highest)
            self._role = Leading(self._sid, self._quorum, self._ledger, self._promise, self._timing, proposal)
            yield from self._play(Started(), now)
        else:
            self._attempt += 1
            self._role = Following(vote.leader, self._attempt, self._votes, self._ledger, self._promise, self._timing)
            yield from self._play(Started(), now)
            if vote.leader in self._peers:
                yield from self._play(PeerConnected(vote.leader), now)
        for sid, info in early.items():
            yield from self._reported(sid, info, now)

    def _establish(self, leader: int | None, term: int) -> None:
        """All members of an ensemble send equal votes to a newcomer: the epoch of the vote is now the leader's
        (docs/fle.md, 5.7)."""
        self._leader = leader
        self.term = max(self.term, term)
        self._abstains_until = 0.0
        self._vote = Vote(self._vote.leader, self._vote.zxid, term, self._vote.round, self._vote.state)

    def _regain_vote(self, epoch: int, now: float) -> Iterator[Effect]:
        yield from self._identity.regain_vote(epoch)
        yield from self._greet_again()
        yield from self._leave_role(RoleOver("admitted again as a voter"), now)

    def _greet_again(self) -> Iterator[Effect]:
        for sid in self._peers:
            yield Send(sid, self._identity.greeting(self._ledger.accepted_epoch, False))

    def _leave_role(self, over: RoleOver, now: float) -> Iterator[Effect]:
        if isinstance(self._role, Leading):
            yield from self._role.stand_down(over.cause)
        if over.resigned:
            self._abstains_until = now + self._timing.handshake
        if self._leader is not None:
            self._leader = None
            yield LeadershipChanged(None, self.term, False, over.cause)
        yield Noted(f"looking for a leader: {over.cause}", warning=False)
        yield from self._look(now, over.silent_peer)
