"""What the state machine of the lock election is stepped with, and what it asks for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from slotreeve_machines.driver import Started, Tick
from slotreeve_machines.leadership import LeadershipChanged, Noted, ResignAsked

from slotreeve_election_mysql.table import Row

# --- events ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Notified:
    """The row may have changed: it is time to read it."""


@dataclass(frozen=True)
class Looked:
    """The answer to Look: the row, None if there is none; ``is_behind``: changes of the meta state are not loaded.

    ``set_back``: why the database cannot be the one that this node knew, for people; empty where it can.
    ``is_accepted_anew``: an operator has accepted another history of the meta state than the one that is loaded.
    ``doubt``: why what is loaded must not be relied on, for people; empty where it can be.
    """

    row: Row | None
    is_behind: bool
    set_back: str = ""
    is_accepted_anew: bool = False
    doubt: str = ""


@dataclass(frozen=True)
class Inserted:
    """The answer to Insert: there is a row now, made by this node or another one."""


@dataclass(frozen=True)
class TookOver:
    """The answer to TakeOver, which was sent at ``sent_at``; ``won``: this node is the owner now."""

    won: bool
    sent_at: float


@dataclass(frozen=True)
class Renewed:
    """The answer to Renew, which was sent at ``sent_at``; ``done``: the lease runs from the beginning again.
    ``set_back``: as that of Looked."""

    done: bool
    sent_at: float
    set_back: str = ""


@dataclass(frozen=True)
class Released:
    """The answer to Release: the row is not this node's any more."""


@dataclass(frozen=True)
class Loaded:
    """The answer to Load: every change of the meta state that was committed before the request is known.

    ``is_whole`` is False where only a part of them came; the same request brings the next part. ``set_back``: as
    that of Looked; then nothing is loaded.
    """

    is_whole: bool = True
    set_back: str = ""


@dataclass(frozen=True)
class StatementFailed:
    """The answer to any request: it may or may not have been done, and the database cannot be used at present."""

    reason: str


Answer = Looked | Inserted | TookOver | Renewed | Released | Loaded | StatementFailed
Event = Started | Tick | Notified | ResignAsked | Answer


class LoadScope(IntEnum):
    """How much of the meta state is read."""

    NEWER = 1
    """What has changed since."""
    COMPARED = 2
    """What has changed since, once everything that is known was found in the database."""
    ANEW = 3
    """Everything, in the place of what is known."""


# --- effects ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """Read the row."""


@dataclass(frozen=True)
class Insert:
    """Make the row, not below ``term``; ``may_wait``: another node may still hold a lease on the one that is gone."""

    term: int
    may_wait: bool


@dataclass(frozen=True)
class TakeOver:
    """Compare and set: become owner in ``term``."""

    seen: Row
    term: int


@dataclass(frozen=True)
class Renew:
    """Compare and set: let the lease run from the beginning."""

    term: int
    term_duration: int


@dataclass(frozen=True)
class Release:
    """Set the owner to nobody; or keep the row for the node ``to`` for a moment, if one is named."""

    term: int
    to: str = ""


@dataclass(frozen=True)
class Load:
    """Read the meta state, or the next part of it."""

    scope: LoadScope = LoadScope.NEWER


@dataclass(frozen=True)
class Alarm:
    """An operator must do something: ``text`` says what has happened, and what to do."""

    text: str


Request = Look | Insert | TakeOver | Renew | Release | Load
"""One at a time; each is answered by exactly one :data:`Answer`."""
Effect = Request | LeadershipChanged[str] | Noted | Alarm
