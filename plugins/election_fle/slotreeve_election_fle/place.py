"""The place of one server in its ensemble."""

from __future__ import annotations

from dataclasses import dataclass, field

from slotreeve_election_fle.allowance import Allowance
from slotreeve_election_fle.quorum import Quorum
from slotreeve_election_fle.timing import FleTiming


@dataclass(frozen=True)
class Place:
    """What is fixed for one server as long as it runs.

    Attributes:
        sid: its server id; NOBODY for one that is no member.
        observer: it takes no part in elections.
        quorum: the quorums of the ensemble.
        timing: the intervals of the protocol.
        allowance: what an operator allows.
    """

    sid: int
    observer: bool
    quorum: Quorum
    timing: FleTiming
    allowance: Allowance = field(default_factory=Allowance)
