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
        return {**self._configured, **self._moved()}

    def has_moved(self, name: str) -> bool:
        """Whether it has announced an address."""
        return name in self._moved()

    def _moved(self) -> dict[str, str]:
        election = self._election()
        if not isinstance(election, MeetsMembers):
            return {}
        found = {name: _meta_address(address) for name, address in election.announced.items()}
        return {name: address for name, address in found.items() if address is not None}


def _meta_address(election_address: str) -> str | None:
    """None if no meta server can have an election there."""
    host, _, port = election_address.rpartition(":")
    if not port.isdecimal() or int(port) <= ELECTION_PORT_OFFSET:
        return None
    return f"{host}:{int(port) - ELECTION_PORT_OFFSET}"
