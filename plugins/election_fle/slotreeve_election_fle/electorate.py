"""Who has a vote, as one server learns it: greetings with their consequences, and the admission of directories. Pure.

docs/fle.md, 8.3. What is durable of it is in :class:`.identity.Identity`, what lasts as long as a connection in
:class:`.peers.GreetedPeers`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slotreeve_machines.leadership import Noted

from slotreeve_election_fle.effects import Effect, HangUp, Send, VoteRegained
from slotreeve_election_fle.identity import Identity
from slotreeve_election_fle.learners import Learners
from slotreeve_election_fle.ledger import Ledger
from slotreeve_election_fle.messages import Admitted, Distrust, Greeting
from slotreeve_election_fle.peers import GreetedPeers
from slotreeve_election_fle.quorum import Quorum


class Electorate:
    """The voters as the server ``sid`` knows them."""

    def __init__(
        self, sid: int, observer: bool, quorum: Quorum, identity: Identity, peers: GreetedPeers, ledger: Ledger
    ) -> None:
        self._sid, self._observer, self._quorum = sid, observer, quorum
        self._identity, self._peers, self._ledger = identity, peers, ledger
        self._first_voters: Mapping[int, str] = {}
        self._admissions: dict[int, int] = {}
        self._connected: set[int] = set()

    @property
    def votes(self) -> bool:
        """Whether this server's votes count now."""
        return not self._observer and (self._identity.may_vote or self._peers.is_complete)

    def greet(self, sid: int) -> Send:
        """What this server is, to a peer."""
        return Send(sid, self._identity.greeting(self._ledger.accepted_epoch, self._observer))

    def greet_all(self) -> Iterator[Effect]:
        """Something has changed that a greeting says: also to those that have not greeted yet."""
        yield from map(self.greet, sorted(self._connected))

    def connect(self, sid: int) -> Send:
        """A connection is open; the first message on it."""
        self._connected.add(sid)
        return self.greet(sid)

    def left(self, sid: int) -> None:
        """The connection has ended."""
        self._connected.discard(sid)

    # --- greetings of peers ------------------------------------------------------------------------------------------

    def refuses(self, sid: int, peer: Greeting) -> str | None:
        """Why a peer cannot take part with this server; None if it can."""
        return self._identity.misfit(peer, self._ledger.accepted_epoch) or self._identity.replaced(sid, peer)

    def take(self, sid: int, peer: Greeting, is_leading: bool) -> Iterator[Effect | VoteRegained]:
        """A peer that is not refused has greeted. ``is_leading``: this server leads, or tries to."""
        is_voter = sid in self._quorum.voters and not peer.observer
        if is_voter and (joined := self._identity.join(peer, self._ledger.accepted_epoch)):
            yield from joined
            for other in self._peers:  # they may be of another ensemble
                yield HangUp(other, "this server has joined an ensemble, and greets again")
        self._peers.greeted(sid, peer, is_voter and self._identity.trusts(sid, peer))
        if self._peers.trusts(sid):
            yield from self._learn(sid, peer, is_leading)
        elif is_voter and self._peers.is_foreign(sid):
            yield Noted(
                f"server {sid} knows this server by another data directory: the directory of one of the two is of "
                "another cluster, or of a former one, and neither counts the votes of the other; start that one with "
                "its own directory, or with an empty one"
            )
        elif is_voter and peer.may_vote:
            yield Noted(f"server {sid} has lost its promises (another data directory); its votes do not count")
            yield Send(sid, Distrust("you took part with another data directory, or a newer state of this one, before"))

    def _learn(self, sid: int, peer: Greeting, is_leading: bool) -> Iterator[Effect | VoteRegained]:
        """Take over what a voter knows of the directories of all, that of this server included."""
        changed = [*self._identity.remember(sid, peer), *self._identity.learn(self._sid, peer.known)]
        yield from changed
        if not self._observer and self._identity.is_known_to(self._sid, peer):
            yield VoteRegained(peer.known[self._sid].admitted_term)
        elif changed and is_leading:
            yield from self.greet_all()
        elif changed:  # what this server knew before may have made it foreign there
            yield self.greet(sid)

    # --- votes that begin --------------------------------------------------------------------------------------------

    def stand(self) -> None:
        """This server was elected: remember with whom, if it is the first election of all."""
        self._first_voters = self._peers.beginning()

    def win(self, epoch: int) -> Iterator[Effect]:
        """All that this server needs have accepted its epoch. If it had no vote all voters had to, so it has one now;
        and in the first election of all they all have, as they learn from its greeting."""
        if not self._identity.may_vote:
            yield from self._identity.begin(epoch, self._first_voters)
            yield from self.greet_all()

    def regain_vote(self, epoch: int) -> Iterator[Effect]:
        """The leader of ``epoch`` has admitted this server."""
        yield from self._identity.regain_vote(epoch)
        yield from self.greet_all()

    def begin_admission(self, sid: int, attempt: int, epoch: int) -> Iterator[Effect]:
        """A server without a vote follows this one, the leader of ``epoch``. Let the others know that no earlier
        directory of it counts any more."""
        peer = self._peers.greeting(sid)
        if peer is None or self._peers.trusts(sid) or self._peers.is_foreign(sid):
            return
        self._admissions[sid] = attempt
        if not self._identity.knows(sid, peer.directory) and (vacated := self._identity.vacate(sid, epoch)):
            yield from vacated
            yield from self.greet_all()

    def end_admissions(self, epoch: int, followers: Learners) -> Iterator[Effect]:
        """Admit the directories that hold the history of this server, the established leader of ``epoch``, once a
        quorum counts no other one in their place."""
        for sid, attempt in list(self._admissions.items()):
            peer = self._peers.greeting(sid)
            if peer is None or not followers.is_active(sid):
                continue
            if self._identity.knows(sid, peer.directory) or self._is_vacant(sid, epoch, followers):
                del self._admissions[sid]
                yield from self._identity.admit(sid, peer.directory, epoch)
                yield Send(sid, Admitted(attempt, epoch))
                yield from self.greet_all()

    def _is_vacant(self, sid: int, epoch: int, followers: Learners) -> bool:
        """Whether a quorum counts no directory of ``sid`` that this server does not count."""
        aware = {self._sid}
        for other in self._peers:
            greeting = self._peers.greeting(other)
            if other != sid and greeting is not None and (self._peers.trusts(other) or followers.counts(other)):
                aware |= {other} if self._identity.is_vacant_for(sid, epoch, greeting) else set()
        return self._quorum.contains(aware)

    def end_leading(self) -> None:
        """This server leads no more, and admits nobody."""
        self._admissions.clear()
