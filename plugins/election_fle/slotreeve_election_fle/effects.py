"""What a server does: messages, writes to its disk, reports. Its shell carries them out strictly in order.

So a write to the disk is durable before a message that follows it is sent. That order is what the promises of the
protocol rest on (docs/fle.md, 8.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slotreeve_machines.leadership import LeadershipChanged, Noted

from slotreeve_election_fle.entries import Changes, Entry, Item
from slotreeve_election_fle.messages import FleMessage
from slotreeve_election_fle.records import IdentityRecord
from slotreeve_election_fle.vote import Vote

# --- messages and connections ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Send to one peer. Dropped where no connection is open: a peer that connects is sent the present vote."""

    to: int
    message: FleMessage


@dataclass(frozen=True, slots=True)
class HangUp:
    """Close the connection to a peer. PeerDisconnected follows, and the connection is made again.

    Attributes:
        for_good: the peer's process can never take part with this one: its later connections are closed at once, and
            replace no other one.
    """

    sid: int
    reason: str
    for_good: bool = False


@dataclass(frozen=True, slots=True)
class Probe:
    """Find out whether the peer's process is dead; PeerDead follows if it is, nothing otherwise."""

    sid: int


# --- the disk --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SaveEpochs:
    """Replace the accepted and the current epoch on the disk."""

    accepted: int
    current: int


@dataclass(frozen=True, slots=True)
class AppendToLog:
    """Add entries to the end of the log on the disk, with one sync for all."""

    entries: Sequence[Entry]


@dataclass(frozen=True, slots=True)
class ReplaceLog:
    """Make these entries the whole log on the disk, after the present snapshot."""

    entries: Sequence[Entry]


@dataclass(frozen=True, slots=True)
class SaveSnapshot:
    """Replace snapshot and log on the disk, both at once: the table as of ``zxid``, and the entries after it."""

    zxid: int
    chain: int
    items: Sequence[Item]
    entries: Sequence[Entry]


@dataclass(frozen=True, slots=True)
class SaveIdentity:
    """Replace this server's identity on the disk."""

    identity: IdentityRecord


@dataclass(frozen=True, slots=True)
class BeginTakingOver:
    """Record that the history to be written next holds entries of leaders up to ``epoch``, although this server was in
    sync with none of them. It ends with the SaveEpochs whose current epoch is not lower."""

    epoch: int


DiskWrite = SaveEpochs | AppendToLog | ReplaceLog | SaveSnapshot | SaveIdentity | BeginTakingOver
"""Durable when it is done. Effects that follow it are carried out after that."""

# --- reports ---------------------------------------------------------------------------------------------------------


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


Effect = Send | HangUp | Probe | DiskWrite | Applied | Written | NotWritten | LeadershipChanged[int] | Noted
"""What a server gives its shell."""

# --- of a role, for its server; the shell never sees them ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Announce:
    """Send this vote to every peer."""

    vote: Vote


@dataclass(frozen=True, slots=True)
class Decided:
    """The election is over: ``vote.leader`` is nominated. The role must not be stepped any more."""

    vote: Vote


@dataclass(frozen=True, slots=True)
class VoteRegained:
    """The leader of ``epoch`` has admitted this server as a voter. Nothing happens where it has a vote."""

    epoch: int


@dataclass(frozen=True, slots=True)
class EpochWon:
    """The epoch is this server's alone: all that it needs have accepted it."""

    epoch: int


@dataclass(frozen=True, slots=True)
class AdmissionDue:
    """A follower without a vote is sent the history of this server, the leader of ``epoch``, or holds it now: it is to
    be admitted."""

    sid: int
    attempt: int
    epoch: int


@dataclass(frozen=True, slots=True)
class RoleOver:
    """The role has ended, and why. It must not be stepped any more.

    Attributes:
        silent_peer: the leader that sent nothing for a lease, if that is why.
        resigned: this server led and gave it up on purpose.
    """

    cause: str
    silent_peer: int | None = None
    resigned: bool = False


RoleEffect = Effect | Announce | Decided | VoteRegained | EpochWon | AdmissionDue | RoleOver
"""What a role gives its server."""
