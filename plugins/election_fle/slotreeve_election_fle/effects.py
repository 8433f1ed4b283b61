"""What a server is told (events) and what it wants done (effects); the vocabulary between core and shell.

A core's ``step`` returns effects in the order in which they are to be carried out. Anything durable has been done
by the time they are returned.
"""

from __future__ import annotations

from dataclasses import dataclass

from slotreeve_election_fle.entries import Changes
from slotreeve_election_fle.messages import Notification, RoleMessage

# --- events ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Started:
    """The process is up; begin."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The channel to a peer is open and both have introduced themselves.

    Attributes:
        trusted: False for one whose votes must not count (it lost its disk and was not admitted again).
    """

    sid: int
    trusted: bool = True


@dataclass(frozen=True, slots=True)
class Closed:
    """The channel to a peer ended; nothing of it will arrive any more."""

    sid: int


@dataclass(frozen=True, slots=True)
class Unreachable:
    """An attempt to open the channel to a peer failed."""

    sid: int


@dataclass(frozen=True, slots=True)
class Received:
    """A message arrived on the open channel to a peer."""

    sid: int
    message: Notification | RoleMessage


@dataclass(frozen=True, slots=True)
class WriteAsked:
    """A client of this process wants to write; ``token`` names the answer."""

    token: int
    key: str
    value: bytes
    expected_version: int | None
    term: int


@dataclass(frozen=True, slots=True)
class ResignAsked:
    """Give up leadership; ``leaving``: for good, this process stops."""

    leaving: bool


@dataclass(frozen=True, slots=True)
class DistrustHeard:
    """A peer remembers promises of this server that it no longer knows: it must not vote until admitted again."""


@dataclass(frozen=True, slots=True)
class Tick:
    """The deadline was reached."""


Event = (
    Started | Opened | Closed | Unreachable | Received | WriteAsked | ResignAsked | DistrustHeard | Tick
)

# --- effects -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Send to one peer; dropped where its channel is not open (it will be told anew when it opens)."""

    to: int
    message: Notification | RoleMessage


@dataclass(frozen=True, slots=True)
class HangUp:
    """Close the channel to a peer; it is opened again at once."""

    sid: int
    reason: str


@dataclass(frozen=True, slots=True)
class Applied:
    """These changes are committed and readable."""

    changes: Changes


@dataclass(frozen=True, slots=True)
class Written:
    """The write named ``token`` is committed."""

    token: int
    version: int


@dataclass(frozen=True, slots=True)
class NotWritten:
    """The write named ``token`` was refused, or its outcome is not known (NotLeader)."""

    token: int
    error: Exception


@dataclass(frozen=True, slots=True)
class LeadershipChanged:
    """Leader, term or ``leading`` changed; ``leader`` is None while there is none known."""

    leader: int | None
    term: int
    leading: bool
    cause: str


@dataclass(frozen=True, slots=True)
class VotingLost:
    """Remember durably that this server must not vote."""


@dataclass(frozen=True, slots=True)
class VotingRegained:
    """Remember durably that this server was admitted again under ``term``, and introduce it anew to all peers."""

    term: int


@dataclass(frozen=True, slots=True)
class Noted:
    """Something for the log."""

    text: str
    warning: bool = True


@dataclass(frozen=True, slots=True)
class RoleOver:
    """A role tells its server that it has ended, and why; never leaves the core.

    Attributes:
        silent_peer: the leader that was not heard for a lease, if that is why.
    """

    cause: str
    silent_peer: int | None = None


Effect = (
    Send
    | HangUp
    | Applied
    | Written
    | NotWritten
    | LeadershipChanged
    | VotingLost
    | VotingRegained
    | Noted
    | RoleOver
)
