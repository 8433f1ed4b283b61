"""The epoch handshake: what makes a nomination exclusive (docs/fle.md, sections 6.1 and 8.1, R1 to R5). Pure.

A candidate proposes an epoch above everything a quorum has accepted. A voter accepts each epoch at most once, and its
disk has it before it answers. Two quorums share a voter, hence no epoch has two leaders.
"""

from __future__ import annotations

from enum import Enum

from slotreeve_election_fle.quorum import Quorum


class EpochVerdict(Enum):
    """A voter's answer to a proposed epoch."""

    ACCEPT = "accept"
    """Higher than any accepted before: save it, then acknowledge it."""
    KNOWN = "known"
    """Accepted before, perhaps from another candidate: follow, but without being counted."""
    REFUSE = "refuse"
    """Lower than one accepted before: this candidate cannot lead."""


def judge(accepted_epoch: int, proposed_epoch: int) -> EpochVerdict:
    """How a voter that has accepted ``accepted_epoch`` answers (docs/fle.md, R2)."""
    if proposed_epoch > accepted_epoch:
        return EpochVerdict.ACCEPT
    return EpochVerdict.KNOWN if proposed_epoch == accepted_epoch else EpochVerdict.REFUSE


class EpochProposal:
    """The candidate's side: collects what voters have accepted, then their acknowledgements of one new number.

    The candidate takes part like any voter: without its own report there is no number, without its own
    acknowledgement no quorum.
    """

    def __init__(self, sid: int, quorum: Quorum, accepted_epoch: int) -> None:
        self._sid = sid
        self._quorum = quorum
        self._reports = {sid: accepted_epoch}
        self._acknowledged: set[int] = set()

    def report(self, sid: int, accepted_epoch: int) -> None:
        """A voter has reported the highest epoch that it has accepted."""
        self._reports[sid] = accepted_epoch

    def proposal(self) -> int | None:
        """The epoch to propose: above all reported ones. None while no quorum has reported."""
        if not self._quorum.contains(self._reports):
            return None
        return max(self._reports.values()) + 1

    def acknowledge(self, sid: int) -> None:
        """A voter has durably accepted the proposed epoch, from this candidate and for the first time."""
        self._acknowledged.add(sid)

    @property
    def acknowledged(self) -> bool:
        """A quorum with the candidate in it has acknowledged: the epoch is this candidate's alone."""
        return self._sid in self._acknowledged and self._quorum.contains(self._acknowledged)

    def forget(self, sid: int) -> None:
        """The voter's connection ended, or it does not follow any more: its messages no longer count."""
        self._reports.pop(sid, None)
        self._acknowledged.discard(sid)
