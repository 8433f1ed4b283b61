"""Which sets of servers are a quorum (docs/fle.md, section 2). Any two quorums share a voter; everything else
rests on that.

ZooKeeper's hierarchical quorums, of which its majority is the case of one group and equal weights.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from slotreeve.errors import ConfigError


class Quorum:
    """More than half of the weight in more than half of the groups; without groups, more than half of all weight.

    Groups without weight are not counted. Two quorums share a group, and in it a voter that has weight.

    Attributes:
        voters: server ids of all voters. Others are never counted.
        candidates: those of them that have weight. The others vote, but are never elected.
    """

    def __init__(
        self, voters: Iterable[int], weights: Mapping[int, int] | None = None, groups: Iterable[Collection[int]] = ()
    ) -> None:
        """``weights``: of voters whose weight is not 1. ``groups``: every voter in exactly one; none for no groups."""
        self.voters = frozenset(voters)
        self._weights = dict.fromkeys(self.voters, 1) | dict(weights or {})
        self.candidates = frozenset(sid for sid in self.voters if self._weights[sid] > 0)
        members = [frozenset(group) for group in groups] or [self.voters]
        self._groups = [group for group in members if group & self.candidates]

    def contains(self, sids: Iterable[int]) -> bool:
        """Whether the voters among ``sids`` are a quorum. The empty set never is."""
        present = self.voters.intersection(sids)
        satisfied = sum(2 * self._weight(group & present) > self._weight(group) for group in self._groups)
        return 2 * satisfied > len(self._groups)

    def _weight(self, sids: Iterable[int]) -> int:
        return sum(self._weights[sid] for sid in sids)


class Everyone(Quorum):
    """No quorum but all voters together."""

    def contains(self, sids: Iterable[int]) -> bool:
        """Whether every voter is among ``sids``."""
        return self.voters <= set(sids)


@dataclass(frozen=True)
class Weighing:
    """Weights and groups of the meta servers by name, as they are configured; the same on all of them.

    Attributes:
        weights: of the servers whose weight is not 1.
        groups: names of the servers in each group; empty: no groups.
    """

    weights: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def quorum(self, by_name: Mapping[str, int]) -> Quorum:
        """The quorums of these members, given by name with their server ids.

        Raises:
            ConfigError: a name is unknown, a member is in no group or in two, or no member weighs anything.
        """
        known = ", ".join(sorted(by_name))
        for option, names in (("weights", list(self.weights)), *((f"groups.{g}", n) for g, n in self.groups.items())):
            for name in names:
                if name not in by_name:
                    raise ConfigError(f"election.fle.{option}: {name!r} is no meta server; [cluster.meta] has {known}")
        grouped = [name for names in self.groups.values() for name in names]
        for name in sorted(by_name):
            if self.groups and grouped.count(name) != 1:
                where = "no group" if name not in grouped else f"{grouped.count(name)} groups"
                raise ConfigError(
                    f"election.fle.groups: {name} is in {where}; every meta server must be in exactly one"
                )
        weights = {by_name[name]: weight for name, weight in self.weights.items()}
        quorum = Quorum(by_name.values(), weights, [[by_name[n] for n in names] for names in self.groups.values()])
        if not quorum.candidates:
            raise ConfigError("election.fle.weights: no meta server weighs anything, so none could ever lead")
        return quorum

    def __str__(self) -> str:
        """In one line, the same for all ways to configure the same; empty for a plain majority."""
        weights = [f"{name}={weight}" for name, weight in sorted(self.weights.items()) if weight != 1]
        groups = (
            sorted(f"({' '.join(sorted(names))})" for names in self.groups.values()) if len(self.groups) > 1 else []
        )
        return " ".join([*weights, *groups])
