"""Where the meta servers are: the election may have met one elsewhere than the configuration has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

ELECTION_PORT_OFFSET = 2
"""The election listens at the port of the meta server plus this."""


@runtime_checkable
class MeetsMembers(Protocol):
    """An election whose members meet each other.

    Attributes:
        announced: election addresses of members by name that have announced one.
    """

    announced: Mapping[str, str]


class MetaAddresses:
    """Where the meta servers are, by name: as configured, unless one has announced another address."""

    def __init__(self, configured: Mapping[str, str], election: Callable[[], object] = lambda: None) -> None:
        """``election``: returns the one in use."""
        self._configured, self._election = configured, election

    def all(self) -> dict[str, str]:
        """The addresses."""
        moved = {name: _meta_address(address) for name, address in self._announced().items()}
        return {**self._configured, **moved}

    def has_moved(self, name: str) -> bool:
        """Whether it has announced an address."""
        return name in self._announced()

    def _announced(self) -> Mapping[str, str]:
        election = self._election()
        return election.announced if isinstance(election, MeetsMembers) else {}


def _meta_address(election_address: str) -> str:
    host, _, port = election_address.rpartition(":")
    return f"{host}:{int(port) - ELECTION_PORT_OFFSET}"
