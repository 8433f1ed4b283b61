"""What a server is told (events) and what it wants done (effects); the vocabulary between core and shell.

A core's ``step`` returns effects in the order in which they are to be carried out. Anything durable has been done
by the time they are returned.
"""

from __future__ import annotations

from dataclasses import dataclass

from slotreeve_election_fle.entries import Changes
from slotreeve_election_fle.messages import FleMessage

# --- events ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Started:
    """The process is up; begin."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A connection to a peer is open."""

    sid: int


@dataclass(frozen=True, slots=True)
class Closed:
    """The connection to a peer ended; nothing of it will arrive any more."""

    sid: int


@dataclass(frozen=True, slots=True)
class Unreachable:
    """An attempt to connect to a peer failed."""

    sid: int


@dataclass(frozen=True, slots=True)
class Gone:
    """The answer to Probe: the peer's process is dead, its address refuses connections."""

    sid: int


@dataclass(frozen=True, slots=True)
class Received:
    """A message arrived on the open connection to a peer."""

    sid: int
    message: FleMessage


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
    """Give up leadership, and do not stand again until somebody else leads or none can."""


@dataclass(frozen=True, slots=True)
class Tick:
    """The deadline was reached."""


Event = Started | Opened | Closed | Unreachable | Gone | Received | WriteAsked | ResignAsked | Tick

# --- effects -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Send to one peer; dropped where no connection is open (it will be told anew when one is)."""

    to: int
    message: FleMessage


@dataclass(frozen=True, slots=True)
class HangUp:
    """Close the connection to a peer; Closed follows, and it is dialled again."""

    sid: int
    reason: str


@dataclass(frozen=True, slots=True)
class Probe:
    """Find out whether the peer's process is dead, and say Gone if so."""

    sid: int


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
class Admitted:
    """A follower tells its server that the leader admitted it as a voter again; never leaves the core."""

    epoch: int


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


Effect = Send | HangUp | Probe | Applied | Written | NotWritten | LeadershipChanged | Noted | Admitted | RoleOver
