"""The peers whose greeting was accepted, and whose votes count. Pure. docs/fle.md, 8.3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slotreeve_election_fle.allowance import Allowance
from slotreeve_election_fle.identity import Identity
from slotreeve_election_fle.messages import Greeting
from slotreeve_election_fle.quorum import Everyone, Quorum


class GreetedPeers:
    """What one server knows of the peers that are connected and have greeted it.

    Attributes:
        seen_epoch: the highest epoch that a voter is known to have accepted.
    """

    def __init__(self, sid: int, quorum: Quorum, identity: Identity, allowance: Allowance) -> None:
        self._sid, self._quorum, self._identity, self._allowance = sid, quorum, identity, allowance
        self._others = quorum.candidates - {sid}
        self._greetings: dict[int, Greeting] = {}
        self._trusted: dict[int, bool] = {}
        self._foreign: set[int] = set()
        self.seen_epoch = 0

    def __contains__(self, sid: int) -> bool:
        return sid in self._greetings

    def __iter__(self) -> Iterator[int]:
        return iter(self._greetings)

    def greeted(self, sid: int, greeting: Greeting, trusted: bool) -> None:
        """A peer's greeting was accepted; ``trusted``: it is a voter and still has its promises, if its directory is of
        this cluster."""
        self._greetings[sid] = greeting
        self._foreign.discard(sid)
        if self._identity.is_foreign(self._sid, greeting):
            self._foreign.add(sid)
        self._trusted[sid] = trusted and sid not in self._foreign

    def left(self, sid: int) -> None:
        """The connection to a peer has ended."""
        self._greetings.pop(sid, None)
        self._trusted.pop(sid, None)
        self._foreign.discard(sid)

    def greeting(self, sid: int) -> Greeting | None:
        """What a peer reported of itself last."""
        return self._greetings.get(sid)

    def is_voter(self, sid: int) -> bool:
        """Whether the peer is a voter, though its votes may not count."""
        return sid in self._voters()

    def is_foreign(self, sid: int) -> bool:
        """Whether the peer's directory is of another cluster: it is not counted, and not admitted."""
        return sid in self._foreign

    def trusts(self, sid: int) -> bool:
        """Whether the peer is a voter that still has its promises."""
        return self._trusted.get(sid, False)

    def counts(self, sid: int) -> bool:
        """Whether the peer's votes count now."""
        return self.trusts(sid) or (self.is_complete and sid in self._quorum.voters)

    def has_accepted(self, sid: int, epoch: int) -> None:
        """A peer has durably accepted ``epoch``."""
        if self.trusts(sid):
            self.seen_epoch = max(self.seen_epoch, epoch)
            self._identity.accepted(sid, epoch)

    # --- where votes count that the usual rules do not count ---------------------------------------------------------

    @property
    def is_complete(self) -> bool:
        """So many voters are connected that votes count that do not otherwise: all of them, and all have new
        directories, or an operator wants those to count that have lost theirs."""
        return self._is_beginning or (
            self._allowance.recovers and self._greetings.keys() - self._foreign >= self._others
        )

    @property
    def _is_beginning(self) -> bool:
        return self._identity.is_new and not self._missing() and all(x.is_new for x in self._voters().values())

    def _voters(self) -> dict[int, Greeting]:
        return {sid: each for sid, each in self._greetings.items() if sid in self._quorum.voters and not each.observer}

    def _missing(self) -> set[int]:
        """The voters that the first election of all has to wait for."""
        return set(self._others - self._allowance.begins_without - self._voters().keys())

    def beginning(self) -> Mapping[int, str]:
        """The directories of the others, if this is the first election of all; otherwise empty."""
        return {sid: each.directory for sid, each in self._voters().items()} if self._is_beginning else {}

    def epoch_quorum(self) -> Quorum:
        """The quorum that an epoch needs now. Where lost directories count, no quorum but all voters together has
        forgotten nothing that a living server remembers; and in the first election of all, no other could take place
        beside it."""
        has_lost_votes = not self._identity.may_vote or not all(self._trusted.get(sid, True) for sid in self._others)
        if not self.is_complete or not has_lost_votes:
            return self._quorum
        return Everyone(self._quorum.candidates & (self._voters().keys() | {self._sid}))

    def waits_for(self) -> str:
        """What a server without a vote waits for, for people; empty for one that has a vote."""
        if self._identity.may_vote or self.is_complete:
            return ""
        missing = ", ".join(map(self._identity.name_of, sorted(self._missing())))
        if self._identity.is_new and missing and not any(each.may_vote for each in self._voters().values()):
            return (
                f"this server's data directory is new, so it has no vote, and it is not connected with {missing}. If "
                "no election has taken place yet, the first one waits until all meta servers are connected: a new "
                "directory may be in the place of a lost one. If one of them does not come, and none ever ran with "
                "another directory, name it in election.fle.begins_without on the others (docs/election.md, 'The first "
                "start')"
            )
        return (
            "this server has no vote until a leader has admitted its data directory, which is new or an older copy; "
            "nobody leads (docs/election.md, 'Lost directories')"
        )
