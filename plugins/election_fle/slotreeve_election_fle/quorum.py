"""Which sets of servers are a quorum (spec section 2). Any two quorums share a voter; all else rests on that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol


class Quorum(Protocol):
    """Decides whether enough voters agree. Servers that are not voters are never counted."""

    @property
    def voters(self) -> frozenset[int]:
        """Server ids of all voters, those without weight included."""

    def weight_of(self, sid: int) -> int:
        """How much the server counts; 0 for one that does not vote."""

    def contains(self, sids: Iterable[int]) -> bool:
        """Whether the voters among ``sids`` are a quorum. The empty set never is."""


class Majority:
    """More than half of the voters."""

    def __init__(self, voters: Iterable[int]) -> None:
        self._voters = frozenset(voters)

    @property
    def voters(self) -> frozenset[int]:
        """See :class:`Quorum`."""
        return self._voters

    def weight_of(self, sid: int) -> int:
        """1 for a voter."""
        return 1 if sid in self._voters else 0

    def contains(self, sids: Iterable[int]) -> bool:
        """See :class:`Quorum`."""
        return len(self._voters.intersection(sids)) > len(self._voters) // 2


class Hierarchical:
    """Voters in disjoint groups, with weights: more than half of the weight in more than half of the groups.

    Groups without any weight are not counted among the groups.
    """

    def __init__(self, groups: Iterable[Iterable[int]], weights: Mapping[int, int]) -> None:
        """``weights`` holds what differs from 1. At least one group must have weight, and none may overlap."""
        members = [frozenset(group) for group in groups]
        self._voters = frozenset().union(*members)
        if sum(len(group) for group in members) != len(self._voters):
            raise ValueError("a voter is in two groups")
        self._weights = {sid: weights.get(sid, 1) for sid in self._voters}
        if any(weight < 0 for weight in self._weights.values()):
            raise ValueError("a weight is negative")
        self._groups = [(group, total) for group in members if (total := self._sum(group)) > 0]
        if not self._groups:
            raise ValueError("no voter has any weight, so nobody could ever be elected")

    @property
    def voters(self) -> frozenset[int]:
        """See :class:`Quorum`."""
        return self._voters

    def weight_of(self, sid: int) -> int:
        """The configured weight; 0 for a server that is no voter."""
        return self._weights.get(sid, 0)

    def contains(self, sids: Iterable[int]) -> bool:
        """See :class:`Quorum`."""
        present = self._voters.intersection(sids)
        satisfied = sum(self._sum(group & present) * 2 > total for group, total in self._groups)
        return satisfied * 2 > len(self._groups)

    def _sum(self, sids: Iterable[int]) -> int:
        return sum(self._weights[sid] for sid in sids)
