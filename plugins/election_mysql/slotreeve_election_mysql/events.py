"""What the state machine of the lock election is told, and what it wants done."""

from __future__ import annotations

from dataclasses import dataclass

from slotreeve_election_mysql.table import Row

# --- events ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Started:
    """The table is open."""


@dataclass(frozen=True)
class Tick:
    """The machine's own deadline has come."""


@dataclass(frozen=True)
class Rung:
    """The row may have changed: it is time to look."""


@dataclass(frozen=True)
class ResignAsked:
    """This node should lead no longer; ``for_good``: nor ever stand again."""

    for_good: bool


@dataclass(frozen=True)
class Looked:
    """The row, None if there is none; ``is_behind``: the meta state has changes that are not loaded."""

    row: Row | None
    is_behind: bool


@dataclass(frozen=True)
class Inserted:
    """There is a row now, whoever made it."""


@dataclass(frozen=True)
class TookOver:
    """Whether the compare-and-set made this node the owner; it was sent at ``sent_at``."""

    won: bool
    sent_at: float


@dataclass(frozen=True)
class Renewed:
    """Whether the lease begins anew; the renewal was sent at ``sent_at``."""

    done: bool
    sent_at: float


@dataclass(frozen=True)
class Released:
    """The row is not this node's any more."""


@dataclass(frozen=True)
class Loaded:
    """Every change of the meta state that was committed before this was asked for is known."""


@dataclass(frozen=True)
class Failed:
    """What was asked for may or may not have been done; the database cannot be used at present."""

    reason: str


Event = Started | Tick | Rung | ResignAsked | Looked | Inserted | TookOver | Renewed | Released | Loaded | Failed

# --- effects ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """Read the row."""


@dataclass(frozen=True)
class Insert:
    """Make the row, not below ``term``; ``may_wait``: somebody may still hold a lease on the one that is gone."""

    term: int
    may_wait: bool


@dataclass(frozen=True)
class TakeOver:
    """Compare and set: become owner in ``term``."""

    seen: Row
    term: int


@dataclass(frozen=True)
class Renew:
    """Compare and set: begin the lease anew."""

    term: int
    term_duration: int


@dataclass(frozen=True)
class Release:
    """Give the row to nobody."""

    term: int


@dataclass(frozen=True)
class Load:
    """Read what has changed in the meta state."""


@dataclass(frozen=True)
class LeadershipChanged:
    """``owner`` is a row's, None for nobody."""

    owner: str | None
    term: int
    leading: bool
    cause: str


@dataclass(frozen=True)
class Noted:
    """For the log."""

    text: str


Request = Look | Insert | TakeOver | Renew | Release | Load
"""One at a time; answered by exactly one event (Failed if it could not be done)."""
Effect = Request | LeadershipChanged | Noted
