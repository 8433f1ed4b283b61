"""How long things may take, in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

from slotreeve_election_fle.lease import DRIFT
from slotreeve_election_fle.looking import Patience

DISK_PAUSE = 1.0
"""A server whose disk refused a write stands aside for this long before it tries again."""


@dataclass(frozen=True)
class Timing:
    """The intervals of the protocol.

    Attributes:
        ping: between two pings of a leader.
        lease: how long a leader may act after sending a ping that a quorum answers.
        handshake: how long each step of establishing a leader, and a follower's acknowledgement, may take.
        patience: of an election.
    """

    ping: float = 0.1
    lease: float = 0.5
    handshake: float = 1.0
    patience: Patience = field(default_factory=Patience)

    @property
    def promise(self) -> float:
        """How long a follower keeps its promise and believes in a silent leader, from the receipt of a ping."""
        return self.lease * DRIFT
