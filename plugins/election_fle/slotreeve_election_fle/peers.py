"""The peers whose greeting was accepted, and whose votes count. Pure. docs/fle.md, 8.3."""

from __future__ import annotations

from collections.abc import Iterator

from slotreeve_election_fle.identity import Identity
from slotreeve_election_fle.quorum import Everyone, Quorum


class GreetedPeers:
    """What one server knows of the peers that are connected and have greeted it.

    Attributes:
        seen_epoch: the highest epoch that a voter is known to have accepted.
    """

    def __init__(self, sid: int, quorum: Quorum, identity: Identity, recovers: bool) -> None:
        """``recovers``: votes of servers that have lost their directory count while all voters are connected."""
        self._others, self._quorum, self._identity, self._recovers = quorum.voters - {sid}, quorum, identity, recovers
        self._trusted: dict[int, bool] = {}
        self.seen_epoch = 0

    def __contains__(self, sid: int) -> bool:
        return sid in self._trusted

    def __iter__(self) -> Iterator[int]:
        return iter(self._trusted)

    def greeted(self, sid: int, trusted: bool) -> None:
        """A peer's greeting was accepted; ``trusted``: it is a voter and still has its promises."""
        self._trusted[sid] = trusted

    def left(self, sid: int) -> None:
        """The connection to a peer has ended."""
        self._trusted.pop(sid, None)

    @property
    def is_complete(self) -> bool:
        """All voters are connected, and that is to be enough where some of them have lost their directories."""
        return self._recovers and self._trusted.keys() >= self._others

    def trusts(self, sid: int) -> bool:
        """Whether the peer is a voter that still has its promises."""
        return self._trusted[sid]

    def counts(self, sid: int) -> bool:
        """Whether the peer's votes count now."""
        return self._trusted[sid] or (self.is_complete and sid in self._others)

    def has_accepted(self, sid: int, epoch: int) -> None:
        """A peer has durably accepted ``epoch``."""
        if self._trusted[sid]:
            self.seen_epoch = max(self.seen_epoch, epoch)
            self._identity.accepted(sid, epoch)

    def epoch_quorum(self) -> Quorum:
        """The quorum that an epoch needs now. Where lost directories count, no quorum but all voters together has
        forgotten nothing that a living server remembers."""
        has_lost_votes = not self._identity.may_vote or not all(self._trusted.get(sid, True) for sid in self._others)
        return Everyone(self._quorum.voters) if self.is_complete and has_lost_votes else self._quorum
