"""What all elections share: events and effects about leadership, and the report of it to the election's user."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, runtime_checkable

import msgspec
from slotreeve.ports import Leadership

log = logging.getLogger("slotreeve.election")

LeaderT = TypeVar("LeaderT")


@dataclass(frozen=True, slots=True)
class ResignAsked:
    """An event: this node shall give up leadership; ``for_good``: and never lead again in this process; ``to``: the
    node that shall lead next, where the election can choose it."""

    for_good: bool = False
    to: str = ""


@dataclass(frozen=True, slots=True)
class LeadershipChanged(Generic[LeaderT]):
    """An effect: the leader, the term, or whether this node leads has changed.

    Attributes:
        leader: as the machine names nodes; None while no leader is known.
        term: the highest term known.
        leading: this node leads.
        cause: why, for people.
    """

    leader: LeaderT | None
    term: int
    leading: bool
    cause: str


@dataclass(frozen=True, slots=True)
class Noted:
    """An effect: a line for the log; ``warning``: at that level, otherwise for debugging."""

    text: str
    warning: bool = True


@runtime_checkable
class CountingElection(Protocol):
    """An election that counts; what it counts is among the counters of its meta server."""

    def counters(self) -> dict[str, int]:
        """What it counts now, by name; the names begin with ``election_``."""


class LeadershipReport:
    """The leadership that a node knows of, and the callback that was given to its election.

    Attributes:
        known: the last report. Its ``valid_until`` is that of the moment it was made; see :meth:`current`.
    """

    def __init__(self) -> None:
        self.known = Leadership(None, 0, False, 0.0, "not started")
        self._changed: Callable[[Leadership], None] = lambda _leadership: None

    def begin(self, changed: Callable[[Leadership], None]) -> None:
        """Call ``changed`` with every report from now on."""
        self._changed = changed

    def current(self, valid_until: float) -> Leadership:
        """What :meth:`slotreeve.ports.Election.leadership` answers, given the end of this node's lease."""
        return msgspec.structs.replace(self.known, valid_until=valid_until) if self.known.leading else self.known

    def change(self, leadership: Leadership) -> None:
        """Report ``leadership``; a callback that raises is logged, and the election goes on."""
        self.known = leadership
        try:
            self._changed(leadership)
        except Exception:
            log.exception("election: the callback for a change of leader failed")
