"""One server of the ensemble: LOOKING, then LEADING or FOLLOWING, then LOOKING again. Pure.

The server keeps what outlives its roles: the ledger, the promise, what it knows of its peers. It answers votes while it
does not look for a leader itself, and passes everything else to its role. docs/fle.md, sections 1, 4 and 5.7;
ZooKeeper's QuorumPeer and WorkerReceiver.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator

import msgspec
from slotreeve_machines.driver import NEVER, Started, Tick
from slotreeve_machines.leadership import LeadershipChanged, Noted, ResignAsked

from slotreeve_election_fle.effects import (
    AdmissionDue,
    Announce,
    Decided,
    Effect,
    EpochWon,
    HangUp,
    NotWritten,
    Probe,
    RoleOver,
    Send,
    VoteRegained,
)
from slotreeve_election_fle.electorate import Electorate
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
    Hears,
    LeaderInfo,
    Notification,
    NotLeading,
)
from slotreeve_election_fle.peers import GreetedPeers
from slotreeve_election_fle.place import Place
from slotreeve_election_fle.refusals import refusal
from slotreeve_election_fle.unled import Unled
from slotreeve_election_fle.vote import NOBODY, State, Vote


class Member:
    """The whole of one server but for its connections, its disk and its timer.

    Attributes:
        term: epoch of the last leader known to be established; only rises.
    """

    def __init__(self, place: Place, ledger: Ledger, identity: Identity, rng: random.Random) -> None:
        self._sid, self._observer, self._quorum = place.sid, place.observer, place.quorum
        self._timing, self._recovers = place.timing, place.allowance.recovers
        self._peers = GreetedPeers(self._sid, self._quorum, identity, place.allowance)
        self._electorate = Electorate(self._sid, self._observer, self._quorum, identity, self._peers, ledger)
        self._unled = Unled(self._sid, self._quorum, self._peers)
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
        self._looks_as = self._standing(0.0)  # of the present election
        self._vote = self._own_vote(0.0)
        self._leader: int | None = None
        self._waits_for = ""
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
        due = min(self._role.deadline, self._unled.deadline)
        return min(due, self._abstains_until) if isinstance(self._role, Looking) and self._abstains_until > 0 else due

    def step(self, event: Event, now: float) -> list[Effect]:
        """Take one event; the effects, in order."""
        if isinstance(event, Received):
            self._unled.links.heard(event.sid, now)
        return list(self._handle(event, now))

    def _handle(self, event: Event, now: float) -> Iterator[Effect]:
        match event:
            case Started():
                yield from self._start(now)
            case PeerConnected(sid):
                yield self._electorate.connect(sid)
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
            case Received(sid, Hears(sids, asks)):
                yield from self._told(sid, sids, asks, now)
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
            case WriteAsked(token):
                refused = refusal(event, self._role, self.term, now)
                yield from self._play(event, now) if refused is None else [NotWritten(token, refused)]
            case ResignAsked() | StillWriting():
                yield from self._play(event, now)
            case Tick():
                yield from self._pass_time(now)

    def _start(self, now: float) -> Iterator[Effect]:
        if self._ledger.accepted_epoch > 0 or self._recovers:
            # The promises given before the restart are forgotten, but a leader may still count on them.
            self._promise.bind(self._quorum.voters - {self._sid}, now + self._timing.promise)
        self._unled.begin(now)
        yield from self._look(now)

    def _pass_time(self, now: float) -> Iterator[Effect]:
        if self._unled.beat(now):
            yield from self._beat(now)
        if 0 < self._abstains_until <= now:
            self._abstains_until = 0.0
            if isinstance(self._role, Looking):
                yield from self._look(now)
                return
        yield from self._play(Tick(), now)

    def _beat(self, now: float) -> Iterator[Effect]:
        """No leader is known: find out with whom messages are exchanged, and say what this server waits for."""
        for sid in [peer for peer in self._peers if peer in self._quorum.voters]:
            yield from self._unled.look_at(sid, now)
        yield from self._reconsider(now)
        waits_for = "" if self._observer else self._unled.waits_for(now)
        if waits_for and waits_for != self._waits_for:
            yield Noted(waits_for)
            yield LeadershipChanged(None, self.term, False, waits_for)
        self._waits_for = waits_for

    # --- peers -------------------------------------------------------------------------------------------------------

    def _greeted(self, sid: int, peer: Greeting, now: float) -> Iterator[Effect]:
        refusal = self._electorate.refuses(sid, peer)
        if refusal is not None:
            yield HangUp(sid, refusal, for_good=True)
            return
        is_new = sid not in self._peers
        for effect in self._electorate.take(sid, peer, isinstance(self._role, Leading)):
            yield from self._regain_vote(effect.epoch, now) if isinstance(effect, VoteRegained) else [effect]
        if is_new:
            self._unreachable.discard(sid)
            if self._unled.is_lasting(now) and sid in self._quorum.voters:
                yield from self._unled.report(sid, now)
            yield from self._play(PeerConnected(sid), now)
        yield from self._end_admissions()
        yield from self._reconsider(now)

    def _told(self, sid: int, sids: Collection[int], asks: bool, now: float) -> Iterator[Effect]:
        """A peer has told whom it hears: one that looks for a leader, and ``asks`` the same, or as an answer. Voters
        that look report to each other by themselves, and to no observer."""
        was_linked = self._unled.is_linked(sid, now)
        self._unled.links.told(sid, sids, now)
        becomes_linked = not was_linked and self._unled.is_linked(sid, now)
        reports_anyway = self._leader is None and sid in self._quorum.voters
        if (asks and not reports_anyway) or becomes_linked:
            yield from self._unled.report(sid, now)
        if becomes_linked and isinstance(self._role, Looking):
            yield from self._reconsider(now)
            yield from self._play(PeerConnected(sid), now)  # what was sent before did not count

    def _reconsider(self, now: float) -> Iterator[Effect]:
        """Begin an election again where something has changed that it rests on."""
        if isinstance(self._role, Looking) and self._looks_as != self._standing(now):
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
        self._peers.left(sid)
        self._electorate.left(sid)
        self._unled.links.left(sid)
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
        yield from self._reconsider(now)

    def _notified(self, sid: int, vote: Vote, now: float) -> Iterator[Effect]:
        """A vote arrived (docs/fle.md, section 4)."""
        if vote.state is not State.LEADING:
            self._promise.release(sid)  # by its own message it does not lead: whatever lease it held is over
            self._early.pop(sid, None)
        if isinstance(self._role, Leading):
            yield from self._play(VoteReceived(sid, vote), now)  # which may end the role
        if isinstance(self._role, Looking) and self._peers.counts(sid):
            if vote.state is not State.LOOKING or self._unled.is_linked(sid, now):
                yield from self._play(VoteReceived(sid, vote), now)
        elif vote.state is State.LOOKING and not isinstance(self._role, Looking):
            self._unanswered[sid] = (now, vote)
            yield Send(sid, Notification(self._vote))
        elif vote.state is State.LOOKING and isinstance(self._role, Looking) and not self._peers.is_voter(sid):
            yield Send(sid, Notification(self._role.proposal))  # two voters that do not count would answer for ever

    def _reported(self, sid: int, info: FollowerInfo, now: float) -> Iterator[Effect]:
        if isinstance(self._role, Leading):
            reported = FollowerReported(sid, info, self._peers.counts(sid), self._peers.trusts(sid))
            yield from self._play(reported, now)
        elif isinstance(self._role, Following):
            yield Send(sid, NotLeading(info.attempt))
        else:
            self._early[sid] = info
            # A quorum may wait for this server already, though a vote of a higher round came before it knew (5.5).
            waiting = {peer for peer, each in self._early.items() if each.voting and self._peers.counts(peer)}
            if isinstance(self._role, Looking) and self._quorum.contains(waiting | {self._sid}):
                own = msgspec.structs.replace(self._own_vote(now), round=self._role.round)
                if own.leader == self._sid:
                    yield from self._take_role(own, now)

    # --- roles -------------------------------------------------------------------------------------------------------

    @property
    def _votes(self) -> bool:
        return self._electorate.votes

    def _standing(self, now: float) -> tuple[bool, bool, bool]:
        """Whether this server's votes count, those of all count, and its links are enough to lead."""
        return self._votes, self._peers.is_complete, self._unled.may_stand(now)

    def _own_vote(self, now: float) -> Vote:
        stands = all([self._votes, self._sid in self._quorum.candidates, now >= self._abstains_until])
        stands = stands and self._unled.may_stand(now)
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
                case EpochWon(epoch):
                    yield from self._electorate.win(epoch)
                case AdmissionDue(sid, attempt, epoch):
                    yield from self._electorate.begin_admission(sid, attempt, epoch)
                    yield from self._end_admissions()
                case LeadershipChanged(leader, term):
                    self._establish(leader, term)
                    yield effect
                case _:
                    yield effect

    def _look(self, now: float, silent_peer: int | None = None) -> Iterator[Effect]:
        self._round += 1
        self._looks_as = self._standing(now)
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
            self._electorate.stand()
            for sid in self._peers:  # one that is connected with no quorum cannot know it otherwise
                yield Send(sid, Notification(self._vote))
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
        self._waits_for = ""
        self._unled.end()
        self._vote = Vote(self._vote.leader, self._vote.zxid, term, self._vote.round, self._vote.state)

    def _regain_vote(self, epoch: int, now: float) -> Iterator[Effect]:
        yield from self._electorate.regain_vote(epoch)
        if isinstance(self._role, Following) and not self._role.voting:
            yield from self._leave_role(RoleOver("admitted again as a voter"), now)

    def _end_admissions(self) -> Iterator[Effect]:
        if isinstance(self._role, Leading) and self._role.is_established:
            yield from self._electorate.end_admissions(self._role.epoch, self._role.followers)

    def _leave_role(self, over: RoleOver, now: float) -> Iterator[Effect]:
        if isinstance(self._role, Leading):
            self._electorate.end_leading()
            yield from self._role.stand_down(over.cause)
        if over.resigned:
            self._abstains_until = now + self._timing.handshake
        if self._leader is not None:
            self._leader = None
            self._unled.begin(now)
            yield LeadershipChanged(None, self.term, False, over.cause)
        yield Noted(f"looking for a leader: {over.cause}", warning=False)
        yield from self._look(now, over.silent_peer)
