"""One server of the ensemble as a pure state machine: LOOKING, then LEADING or FOLLOWING, then LOOKING again.

``step(event, now)`` takes what happened and returns what is to be done, in order; anything durable has been done by
then. It raises StorageError where the disk refuses: the machine must not be stepped any more then, and a new one is
made from what is on the disk. Spec sections 1, 4 (WorkerReceiver) and 5.7; ZooKeeper's QuorumPeer.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from slotreeve.errors import NotLeader, StaleTerm

from slotreeve_election_fle.effects import (
    Admitted,
    Closed,
    Effect,
    Event,
    Gone,
    HangUp,
    LeadershipChanged,
    Noted,
    NotWritten,
    Opened,
    Probe,
    Received,
    ResignAsked,
    RoleOver,
    Send,
    Started,
    Tick,
    Unreachable,
    WriteAsked,
)
from slotreeve_election_fle.following import Following
from slotreeve_election_fle.introduction import Identity
from slotreeve_election_fle.leading import Leading
from slotreeve_election_fle.lease import Promise
from slotreeve_election_fle.ledger import Ledger
from slotreeve_election_fle.looking import (
    Announce,
    Answer,
    Decided,
    Heard,
    Ignored,
    Looking,
    LookingEffect,
    Reachability,
    TimePassed,
)
from slotreeve_election_fle.messages import Distrust, FollowerInfo, Introduce, Notification, NotLeading, RoleMessage
from slotreeve_election_fle.quorum import Quorum
from slotreeve_election_fle.timing import Timing
from slotreeve_election_fle.vote import NOBODY, State, Vote


class Member:
    """The whole of one server but for its connections and timers.

    Attributes:
        term: epoch of the last leader known to be established; only rises.
        deadline: when to step with :class:`Tick`; infinity: never.
    """

    def __init__(
        self,
        sid: int,
        observer: bool,
        quorum: Quorum,
        ledger: Ledger,
        identity: Identity,
        timing: Timing,
        rng: random.Random,
    ) -> None:
        self._sid = sid
        self._observer = observer
        self._quorum = quorum
        self._ledger = ledger
        self._identity = identity
        self._timing = timing
        self._rng = rng
        self._promise = Promise()
        self._role: Looking | Leading | Following | None = None
        self._counts: dict[int, bool] = {}  # the peers that have introduced themselves, and whether their votes count
        self._unreachable: set[int] = set()
        self._early: dict[int, FollowerInfo] = {}  # reports to a leader that does not know yet that it is one
        self._overheard: dict[int, tuple[float, Vote]] = {}  # who looked while this server did not, and when
        self._round = 0
        self._attempt = 0
        self._abstains_until = 0.0
        self._vote = self._own_vote(0.0)
        self._resigning = False
        self._leader: int | None = None
        self.term = ledger.current_epoch

    @property
    def valid_until(self) -> float:
        """While this server leads: until when it may act without asking anybody; otherwise 0."""
        return self._role.valid_until if isinstance(self._role, Leading) else 0.0

    @property
    def deadline(self) -> float:
        """When to step with :class:`Tick`."""
        if self._role is None:
            return float("inf")
        if isinstance(self._role, Looking) and self._abstains_until > 0:
            return min(self._role.deadline, self._abstains_until)
        return self._role.deadline

    def step(self, event: Event, now: float) -> list[Effect]:
        """Take one event; what is to be done, in order. Raises StorageError."""
        return list(self._handle(event, now))

    # --- events ------------------------------------------------------------------------------------------------------

    def _handle(self, event: Event, now: float) -> Iterator[Effect]:
        match event:
            case Started():
                yield from self._start(now)
            case Opened(sid):
                yield Send(sid, self._identity.introduce(self._ledger.accepted_epoch, self._observer))
            case Closed(sid):
                yield from self._closed(sid, now)
            case Gone(sid):
                if sid not in self._counts:  # else it is alive again, and can speak for itself
                    self._promise.release(sid)
            case Unreachable(sid):
                yield from self._reachable(sid, False, now)
            case Received(sid, Introduce() as message):
                yield from self._introduced(sid, message, now)
            case Received(sid, Distrust(reason)):
                yield from self._distrusted(sid, reason, now)
            case Received(sid, message) if sid in self._counts:
                assert not isinstance(message, Introduce | Distrust)
                yield from self._received(sid, message, now)
            case Received():
                pass  # before its introduction a peer has nothing to say
            case WriteAsked():
                yield from self._write(event, now)
            case ResignAsked():
                yield from self._resign(now)
            case Tick():
                yield from self._pass_time(now)

    def _start(self, now: float) -> Iterator[Effect]:
        if self._ledger.accepted_epoch > 0:
            # The promises given before the restart are forgotten, but a leader may still count on them.
            self._promise.bind(self._quorum.voters - {self._sid}, now + self._timing.promise)
        yield from self._look(now)

    def _introduced(self, sid: int, peer: Introduce, now: float) -> Iterator[Effect]:
        misfit = self._identity.misfit(peer)
        if misfit is not None:
            yield HangUp(sid, misfit)
            return
        is_new = sid not in self._counts
        is_voter = sid in self._quorum.voters and not peer.observer
        self._counts[sid] = is_voter and self._identity.trusts(sid, peer)
        if is_voter and not self._counts[sid]:
            yield Noted(f"server {sid} has lost its promises (another data directory); its votes do not count")
            yield Send(sid, Distrust("you took part with another data directory, or a newer state of this one, before"))
        if not is_new:
            return
        yield from self._reachable(sid, True, now)
        if isinstance(self._role, Looking):
            yield Send(sid, Notification(self._role.proposal))
        elif isinstance(self._role, Following) and self._role.leader == sid:
            yield from self._do(self._role.connected(now), now)

    def _distrusted(self, sid: int, reason: str, now: float) -> Iterator[Effect]:
        if not self._votes:
            return
        self._identity.lose_vote()
        yield Noted(f"server {sid} says: {reason}; not voting until a leader has brought this server up to date")
        yield from self._leave_role(RoleOver("this server must not vote"), now)

    def _closed(self, sid: int, now: float) -> Iterator[Effect]:
        self._counts.pop(sid, None)
        self._early.pop(sid, None)
        self._overheard.pop(sid, None)
        if self._promise.holds(sid):
            yield Probe(sid)
        yield from self._reachable(sid, False, now)
        if isinstance(self._role, Leading):
            yield from self._do(self._role.lose(sid), now)
        elif isinstance(self._role, Following) and self._role.leader == sid:
            yield from self._leave_role(RoleOver("connection lost"), now)

    def _reachable(self, sid: int, reachable: bool, now: float) -> Iterator[Effect]:
        if reachable:
            self._unreachable.discard(sid)
        else:
            self._unreachable.add(sid)
        if isinstance(self._role, Looking):
            yield from self._do_looking(self._role.step(Reachability(sid, not reachable), now), now)

    def _received(self, sid: int, message: Notification | RoleMessage, now: float) -> Iterator[Effect]:
        match message:
            case Notification(vote):
                yield from self._notified(sid, vote, now)
            case FollowerInfo():
                yield from self._reported(sid, message, now)
            case _ if isinstance(self._role, Leading):
                yield from self._do(self._role.receive(sid, message, now), now)
            case _ if isinstance(self._role, Following) and self._role.leader == sid:
                yield from self._do(self._role.receive(message, now), now)
            case _:
                pass  # of a role that has ended

    def _notified(self, sid: int, vote: Vote, now: float) -> Iterator[Effect]:
        if vote.state is not State.LEADING:
            self._promise.release(sid)  # it said so itself: whatever lease it held is over
            self._early.pop(sid, None)
        is_looking = vote.state is State.LOOKING
        if is_looking and isinstance(self._role, Leading):
            yield from self._do(self._role.lose(sid), now)  # who looks for a leader does not follow this one
        if isinstance(self._role, Looking):
            if self._counts[sid]:
                yield from self._do_looking(self._role.step(Heard(sid, vote), now), now)
            elif is_looking:
                yield Send(sid, Notification(self._role.proposal))
        elif is_looking:
            self._overheard[sid] = (now, vote)
            yield Send(sid, Notification(self._vote))

    def _reported(self, sid: int, info: FollowerInfo, now: float) -> Iterator[Effect]:
        if isinstance(self._role, Leading):
            yield from self._do(self._role.report(sid, info, self._counts[sid], now), now)
        elif isinstance(self._role, Following):
            yield Send(sid, NotLeading(info.attempt))
        else:
            self._early[sid] = info

    def _write(self, asked: WriteAsked, now: float) -> Iterator[Effect]:
        leading = self._role if isinstance(self._role, Leading) else None
        if asked.term < self.term:
            text = f"write to {asked.key!r} under term {asked.term}, but the highest seen is {self.term}"
            yield NotWritten(asked.token, StaleTerm(text))
        elif leading is None or not leading.is_established or asked.term != leading.epoch:
            yield NotWritten(asked.token, NotLeader(f"write to {asked.key!r}: this node does not lead"))
        elif self._resigning or now >= leading.valid_until:
            why = "is resigning" if self._resigning else "has not heard from a quorum for a lease"
            yield NotWritten(asked.token, NotLeader(f"write to {asked.key!r}: this node {why}"))
        else:
            yield from leading.write(asked)

    def _resign(self, now: float) -> Iterator[Effect]:
        """What is under way is finished first, so that no follower finds itself behind its predecessor."""
        if isinstance(self._role, Leading):
            self._resigning = True
            yield from self._resign_when_idle(now)

    def _pass_time(self, now: float) -> Iterator[Effect]:
        if 0 < self._abstains_until <= now:
            self._abstains_until = 0.0
            if isinstance(self._role, Looking):
                yield from self._look(now)
                return
        if isinstance(self._role, Looking):
            if now >= self._role.deadline:
                yield from self._do_looking(self._role.step(TimePassed(), now), now)
        elif self._role is not None:
            yield from self._do(self._role.pass_time(now), now)

    # --- roles -------------------------------------------------------------------------------------------------------

    @property
    def _votes(self) -> bool:
        return not self._observer and self._identity.may_vote

    def _own_vote(self, now: float) -> Vote:
        stands = self._votes and self._sid in self._quorum.candidates and now >= self._abstains_until
        candidate = self._sid if stands else NOBODY
        return Vote(candidate, self._ledger.last_zxid, self._ledger.current_epoch, self._round)

    def _look(self, now: float, silent_peer: int | None = None) -> Iterator[Effect]:
        self._round += 1
        self._vote = self._own_vote(now)
        unreachable = self._unreachable if silent_peer is None else self._unreachable | {silent_peer}
        counted_as = self._sid if self._votes else NOBODY
        looking = Looking(counted_as, self._quorum, self._vote, unreachable, self._timing.patience, self._rng, now)
        self._role = looking
        yield from self._do_looking(looking.begin(now), now)
        # Whoever missed the leader a moment earlier has announced its vote already and will not do so again soon.
        overheard, self._overheard = self._overheard, {}
        for sid, (heard_at, vote) in overheard.items():
            if now - heard_at < self._timing.promise and self._role is looking and self._counts[sid]:
                yield from self._do_looking(looking.step(Heard(sid, vote), now), now)

    def _do_looking(self, todo: Iterable[LookingEffect], now: float) -> Iterator[Effect]:
        for effect in todo:
            match effect:
                case Announce(vote):
                    for sid in self._counts:
                        yield Send(sid, Notification(vote))
                case Answer(sid, vote):
                    yield Send(sid, Notification(vote))
                case Ignored(sid, reason):
                    yield Noted(f"vote of server {sid} ignored: {reason}", warning=False)
                case Decided(vote):
                    yield from self._take_role(vote, now)

    def _take_role(self, vote: Vote, now: float) -> Iterator[Effect]:
        """Spec 5.4.6."""
        self._round = vote.round
        leads = vote.leader == self._sid
        state = State.LEADING if leads else State.FOLLOWING if self._votes else State.OBSERVING
        self._vote = Vote(vote.leader, vote.zxid, vote.peer_epoch, vote.round, state)
        yield Noted(f"elected: server {vote.leader} in round {vote.round}", warning=False)
        early, self._early = self._early, {}
        if leads:
            leading = Leading(self._sid, self._quorum, self._ledger, self._promise, self._timing, now)
            self._role = leading
            yield from self._do(leading.begin(now), now)
        else:
            self._attempt += 1
            following = Following(
                vote.leader, self._attempt, self._votes, self._ledger, self._promise, self._timing, now
            )
            self._role = following
            if vote.leader in self._counts:
                yield from self._do(following.connected(now), now)
        for sid, info in early.items():
            yield from self._reported(sid, info, now)

    def _do(self, todo: Iterable[Effect], now: float) -> Iterator[Effect]:
        """The effects of a role, but for those that are meant for this machine."""
        for effect in todo:
            match effect:
                case RoleOver():
                    yield from self._leave_role(effect, now)
                    return
                case Admitted(epoch):
                    if not self._observer:
                        self._identity.regain_vote(epoch)
                        for sid in self._counts:
                            yield Send(sid, self._identity.introduce(self._ledger.accepted_epoch, False))
                        yield from self._leave_role(RoleOver("admitted again as a voter"), now)
                        return
                case LeadershipChanged(leader, term):
                    self._establish(leader, term)
                    yield effect
                case _:
                    yield effect
        yield from self._resign_when_idle(now)

    def _establish(self, leader: int | None, term: int) -> None:
        """Members of an ensemble tell late-comers equal votes: the epoch of the vote is now the leader's (5.7)."""
        self._leader = leader
        self.term = max(self.term, term)
        self._abstains_until = 0.0
        self._vote = Vote(self._vote.leader, self._vote.zxid, term, self._vote.round, self._vote.state)

    def _resign_when_idle(self, now: float) -> Iterator[Effect]:
        if self._resigning and isinstance(self._role, Leading) and self._role.is_idle:
            self._abstains_until = now + self._timing.handshake
            yield from self._leave_role(RoleOver("resigned"), now)

    def _leave_role(self, over: RoleOver, now: float) -> Iterator[Effect]:
        if isinstance(self._role, Leading):
            yield from self._role.stand_down(over.cause)
        self._resigning = False
        if self._leader is not None:
            self._leader = None
            yield LeadershipChanged(None, self.term, False, over.cause)
        yield Noted(f"looking for a leader: {over.cause}", warning=False)
        yield from self._look(now, over.silent_peer)
