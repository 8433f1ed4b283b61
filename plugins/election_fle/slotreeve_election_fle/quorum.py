"""Which sets of servers are a quorum (spec section 2). Any two quorums share a voter; all else rests on that."""

from __future__ import annotations

from collections.abc import Iterable


class Quorum:
    """More than half of the voters. ZooKeeper's QuorumMaj; weights and groups are not offered.

    Attributes:
        voters: server ids of all voters. Others are never counted.
    """

    def __init__(self, voters: Iterable[int]) -> None:
        self.voters = frozenset(voters)

    def contains(self, sids: Iterable[int]) -> bool:
        """Whether the voters among ``sids`` are a quorum. The empty set never is."""
        return len(self.voters.intersection(sids)) > len(self.voters) // 2
