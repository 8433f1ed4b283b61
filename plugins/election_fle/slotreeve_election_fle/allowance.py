"""What an operator allows beyond the usual rules for votes (docs/fle.md, 8.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slotreeve.errors import ConfigError

from slotreeve_election_fle.quorum import Quorum


@dataclass(frozen=True)
class Allowance:
    """What an operator allows.

    Attributes:
        recovers: votes of servers that have lost their directory count while all voters are connected.
        begins_without: voters that need not take part in the first election of all.
    """

    recovers: bool = False
    begins_without: frozenset[int] = frozenset()


@dataclass(frozen=True)
class AllowanceByName:
    """The same as it is configured, with names of meta servers."""

    recovers: bool = False
    begins_without: Sequence[str] = ()

    def allowance(self, by_name: Mapping[str, int], quorum: Quorum) -> Allowance:
        """With the server ids of the members.

        Raises:
            ConfigError: a name is unknown, or the others are no quorum.
        """
        known = ", ".join(sorted(by_name))
        for name in self.begins_without:
            if name not in by_name:
                raise ConfigError(
                    f"election.fle.begins_without: {name!r} is no meta server; [cluster.meta] has {known}"
                )
        without = frozenset(by_name[name] for name in self.begins_without)
        if not quorum.contains(quorum.voters - without):
            names = ", ".join(sorted(self.begins_without))
            raise ConfigError(f"election.fle.begins_without: without {names} the meta servers {known} are no quorum")
        return Allowance(self.recovers, without)
