"""How long things may take, in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

from slotreeve_election_fle.lease import DRIFT
from slotreeve_election_fle.looking import Patience

SHORTEST_HANDSHAKE = 1.0
PINGS_IN_A_LEASE = 3
"""A leader sends at least so many pings in a lease, also in the shortest one of its followers."""


@dataclass(frozen=True)
class FleTiming:
    """The intervals of the protocol.

    Attributes:
        ping: between two pings of a leader.
        lease: how long a leader may act after sending a ping that a quorum answers.
        patience: of an election.
    """

    ping: float = 0.1
    lease: float = 0.35
    patience: Patience = field(default_factory=Patience)

    @property
    def promise(self) -> float:
        """How long a follower keeps its promise, and follows a silent leader, from the receipt of a ping."""
        return self.lease * DRIFT

    @property
    def handshake(self) -> float:
        """How long each step of establishing a leader, and a follower's acknowledgement, may take.

        Longer than a promise: a voter may have to wait until one has run out before it answers.
        """
        return max(SHORTEST_HANDSHAKE, 2 * self.promise)
