"""What a server, and each of its roles, is stepped with.

The shell makes the events of :data:`Event`. The server passes most of them to the role that it plays, and makes the
others of :data:`RoleEvent` itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from slotreeve_machines.driver import Started, Tick
from slotreeve_machines.leadership import ResignAsked

from slotreeve_election_fle.messages import FleMessage, FollowerInfo
from slotreeve_election_fle.vote import Vote


@dataclass(frozen=True, slots=True)
class PeerConnected:
    """A connection to a peer is open. To a role: the peer's greeting has been accepted."""

    sid: int


@dataclass(frozen=True, slots=True)
class PeerDisconnected:
    """The connection to a peer ended; no more of its messages arrive."""

    sid: int


@dataclass(frozen=True, slots=True)
class PeerUnreachable:
    """An attempt to connect to a peer failed."""

    sid: int


@dataclass(frozen=True, slots=True)
class PeerDead:
    """The answer to the effect Probe: the peer's process is dead, since its address refuses connections."""

    sid: int


@dataclass(frozen=True, slots=True)
class Received:
    """A message arrived on the open connection to a peer."""

    sid: int
    message: FleMessage


@dataclass(frozen=True, slots=True)
class WriteAsked:
    """A client of this process asks for a write; ``token`` names the answer."""

    token: int
    key: str
    value: bytes
    expected_version: int | None
    term: int


@dataclass(frozen=True, slots=True)
class StillWriting:
    """A write to this server's disk takes longer than a ping interval. Repeated at each interval."""


Event = (
    Started
    | PeerConnected
    | PeerDisconnected
    | PeerUnreachable
    | PeerDead
    | Received
    | WriteAsked
    | ResignAsked
    | StillWriting
    | Tick
)
"""What the shell steps a server with."""


@dataclass(frozen=True, slots=True)
class VoteReceived:
    """To a role that looks for a leader: the vote of a peer."""

    sid: int
    vote: Vote


@dataclass(frozen=True, slots=True)
class FollowerReported:
    """To a role that leads: a server asks to follow. ``trusted``: its votes count, as far as is known. ``is_admitted``:
    its directory has lost no promises; otherwise a leader admits it once it holds the state."""

    sid: int
    info: FollowerInfo
    trusted: bool
    is_admitted: bool = True


RoleEvent = (
    Started
    | PeerConnected
    | PeerDisconnected
    | PeerUnreachable
    | Received
    | VoteReceived
    | FollowerReported
    | WriteAsked
    | ResignAsked
    | StillWriting
    | Tick
)
"""What a server steps its role with. A role ignores what does not concern it."""
