"""What stands in the files of a data directory."""

from __future__ import annotations

import msgspec

from slotreeve_election_fle.entries import Item


class EpochsRecord(msgspec.Struct, array_like=True, frozen=True):
    """The file ``epochs``: the highest epoch ever accepted, and the last one whose leader this server was in sync
    with."""

    accepted: int
    current: int


class TakingOverRecord(msgspec.Struct, array_like=True, frozen=True):
    """The file ``taking-over``, there while the history of a leader is taken over: the log may hold entries of epochs
    up to this one, although ``epochs`` has a lower current one."""

    epoch: int


class SnapshotRecord(msgspec.Struct, array_like=True, frozen=True):
    """The file ``snapshot``: the table as of ``zxid``, and which log file continues it.

    Attributes:
        generation: the log is the file ``log-<generation>``.
        chain: checksum of the whole history up to ``zxid``.
    """

    generation: int
    zxid: int
    chain: int
    items: list[Item]


class PeerRecord(msgspec.Struct, array_like=True, frozen=True):
    """What a server remembers of a peer.

    Attributes:
        directory: identity of the peer's data directory; empty while a leader is about to admit another one.
        admitted_term: the term in which that directory began to vote, by the first leader of all or admitted by a later
            one; 0 where an earlier version of this program has made it. No directory that began before it counts.
        former: the directories that it had before, the newest last.
    """

    directory: str
    admitted_term: int
    former: list[str] = msgspec.field(default_factory=list)


class IdentityRecord(msgspec.Struct, array_like=True, frozen=True):
    """The file ``identity``.

    Attributes:
        directory: identity of this data directory, drawn at its first start; empty in one that was made the beginning
            of a new ensemble, and was not started since.
        members: names of all members, sorted.
        may_vote: a leader has admitted this directory, or it is from the beginning. False again after a peer has
            remembered this server with another directory, until it is admitted again.
        admitted_term: the term in which it began to vote; 0 if it never did, or in an earlier version of this program.
        peers: what is remembered of the others, by server id.
        weighing: weights and groups of the members, in one line.
        ensemble: name of the ensemble, drawn where an operator made it from one directory that was left of another;
            empty for an ensemble that began with empty directories.
        name: the server that it belongs to; empty where an earlier version of this program has made it.
        is_new: it has never had a vote.
    """

    directory: str
    members: list[str]
    may_vote: bool
    admitted_term: int
    peers: dict[int, PeerRecord]
    weighing: str = ""
    ensemble: str = ""
    name: str = ""
    is_new: bool = False
