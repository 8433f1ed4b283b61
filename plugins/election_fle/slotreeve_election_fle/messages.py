"""What election servers send each other, inside the protocol's ``Opaque`` messages.

Every message of a term names its epoch. What belongs to one attempt of a follower to join a leader carries the
``attempt`` that the follower chose and the leader repeats, so that an answer to an earlier attempt is never taken for
one to the present. Numbers in brackets are sections and rules of docs/fle.md.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from slotreeve.errors import MalformedFrame
from slotreeve.model.text import UNDECODABLE
from slotreeve_protocol.general_messages import Opaque

from slotreeve_election_fle.entries import Entry, Item
from slotreeve_election_fle.records import PeerRecord
from slotreeve_election_fle.vote import Vote

TOPIC = "fle"
FORMAT = 1
"""Version of these messages; a peer with another is refused."""


class Greeting(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """Both ends: the first message on every connection.

    Attributes:
        format: :data:`FORMAT` of the sender.
        members: names of all members, sorted; must be the same everywhere, since server ids are ranks in it.
        directory: identity of the sender's data directory, made at its first start.
        accepted_epoch: the highest epoch the sender has accepted.
        admitted_term: the term under which an established leader admitted this directory again; 0 if none had to.
        observer: the sender takes no part in elections.
        weighing: weights and groups of the members, in one line; must be the same everywhere (R3).
        ensemble: the ensemble of the sender's directory; see :class:`.records.IdentityRecord`.
        may_vote, is_new: of the sender's directory; see there.
        known: what the sender knows of the directories of the others, by server id. Sent again when it changes: by a
            leader to all, and by whoever learns something from a greeting to the sender of that one.
        tells: the sender tells ``known``, and whom it hears (:class:`Hears`). An earlier version does not.
    """

    format: int
    members: list[str]
    directory: str
    accepted_epoch: int
    admitted_term: int
    observer: bool
    weighing: str = ""
    ensemble: str = ""
    may_vote: bool = True
    is_new: bool = False
    known: dict[int, PeerRecord] = {}
    tells: bool = False


class Distrust(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """Answer to Greeting: the receiver has lost promises that the sender remembers, and must not vote (8.3)."""

    reason: str


class Notification(msgspec.Struct, array_like=True, frozen=True, tag=3):
    """A server's present vote (section 4)."""

    vote: Vote


class FollowerInfo(msgspec.Struct, array_like=True, frozen=True, tag=4):
    """Follower to the leader it elected: a request to follow, with the highest epoch that the follower has accepted
    (6.1, step 1).

    Attributes:
        voting: the sender's votes and acknowledgements count.
        paced: it answers numbered parts of the history with SyncProgress.
        lease: the lease in seconds for which it promises to help no other server, by its own configuration; 0 from an
            earlier version.
    """

    attempt: int
    accepted_epoch: int
    voting: bool
    paced: bool = False
    lease: float = 0.0


class LeaderInfo(msgspec.Struct, array_like=True, frozen=True, tag=5):
    """Leader to follower: the epoch that the leader proposes (6.1, step 2)."""

    attempt: int
    epoch: int


class EpochAck(msgspec.Struct, array_like=True, frozen=True, tag=6):
    """Follower to leader: the epoch is accepted, durably (6.1, step 3).

    Attributes:
        counted: False where the follower had accepted it before; it must not be counted then.
        current_epoch, last_zxid: how long the follower's history is.
    """

    attempt: int
    epoch: int
    counted: bool
    current_epoch: int
    last_zxid: int


class SyncPart(msgspec.Struct, array_like=True, frozen=True, tag=7):
    """Leader to follower: a part of what the follower lacks (6.1, step 5); takes effect with NewLeader.

    Attributes:
        number: to be answered with SyncProgress; 0 where no answer is expected.
        continues: its only item or entry holds more of the value of the last one in the part before.
    """

    attempt: int
    epoch: int
    items: list[Item]
    entries: list[Entry]
    number: int = 0
    continues: bool = False


class NewLeader(msgspec.Struct, array_like=True, frozen=True, tag=8):
    """Leader to follower: the parts are complete.

    Attributes:
        whole: they are the entire state, a table as of ``base_zxid`` and the entries after it; otherwise the entries
            after the follower's own entry ``base_zxid``.
        base_chain, last_chain: checksums of the history up to there, and of all of it.
    """

    attempt: int
    epoch: int
    whole: bool
    base_zxid: int
    base_chain: int
    last_zxid: int
    last_chain: int


class NewLeaderAck(msgspec.Struct, array_like=True, frozen=True, tag=9):
    """Follower to leader: the follower holds the leader's history, durably, and follows in this epoch."""

    attempt: int
    epoch: int
    last_zxid: int


class SendWhole(msgspec.Struct, array_like=True, frozen=True, tag=10):
    """Follower to leader: the entries do not continue the follower's history; the entire state is needed."""

    attempt: int
    epoch: int


class Propose(msgspec.Struct, array_like=True, frozen=True, tag=11):
    """Leader to follower: append these entries after ``previous_zxid``."""

    epoch: int
    previous_zxid: int
    entries: list[Entry]


class ProposeAck(msgspec.Struct, array_like=True, frozen=True, tag=12):
    """Follower to leader: everything up to ``zxid`` is on the follower's disk."""

    epoch: int
    zxid: int


class Commit(msgspec.Struct, array_like=True, frozen=True, tag=13):
    """Leader to follower: everything up to ``zxid`` is committed. The first one also means that the leader is
    established (ZooKeeper's UPTODATE; 6.1, step 5)."""

    epoch: int
    zxid: int


class PeerPing(msgspec.Struct, array_like=True, frozen=True, tag=14):
    """Leader to follower: a request to renew the leader's lease (6.3)."""

    epoch: int
    number: int


class PeerPong(msgspec.Struct, array_like=True, frozen=True, tag=15):
    """Follower to leader: for one lease from the receipt of this ping the follower helps no other server to lead."""

    epoch: int
    number: int


class StoodDown(msgspec.Struct, array_like=True, frozen=True, tag=16):
    """Leader to follower: the sender does not lead any more, and why; its lease is over."""

    epoch: int
    cause: str


class NotLeading(msgspec.Struct, array_like=True, frozen=True, tag=17):
    """Answer to FollowerInfo: the server that was elected follows another one."""

    attempt: int


class Admitted(msgspec.Struct, array_like=True, frozen=True, tag=18):
    """Established leader to a server that had lost its disk: it holds the state again and may vote (8.3)."""

    attempt: int
    epoch: int


class AtWork(msgspec.Struct, array_like=True, frozen=True, tag=19):
    """Between a leader that is not established and its followers: the sender still works on ``attempt``, and its disk
    may be what takes so long. Extends the receiver's time-outs. The follower of an established leader sends it while
    its disk works."""

    attempt: int


class SyncProgress(msgspec.Struct, array_like=True, frozen=True, tag=20):
    """Follower to leader: the part of this number has arrived, so another one may be sent."""

    attempt: int
    epoch: int
    number: int


class Hears(msgspec.Struct, array_like=True, frozen=True, tag=21):
    """Between members: the server ids of those from which the sender has received something lately (section 3). Sent at
    short intervals while the sender knows no leader, and as an answer.

    Attributes:
        asks: the sender knows no leader, and wants to be told the same. Who answered an answer would go on for ever.
    """

    sids: list[int]
    asks: bool = False


RoleMessage = (
    FollowerInfo
    | LeaderInfo
    | EpochAck
    | SyncPart
    | NewLeader
    | NewLeaderAck
    | SendWhole
    | Propose
    | ProposeAck
    | Commit
    | PeerPing
    | PeerPong
    | StoodDown
    | NotLeading
    | Admitted
    | AtWork
    | SyncProgress
)
"""What passes between a leader and its followers."""
FleMessage = Greeting | Distrust | Notification | Hears | RoleMessage
"""Everything that may be in an Opaque of this topic."""

_encode = msgspec.msgpack.Encoder().encode
_decode: Callable[[bytes], FleMessage] = msgspec.msgpack.Decoder(FleMessage).decode


def to_opaque(message: FleMessage) -> Opaque:
    """The message as the transport carries it."""
    return Opaque(TOPIC, _encode(message))


def from_opaque(opaque: Opaque) -> FleMessage:
    """The message inside.

    Raises:
        MalformedFrame: another topic, or bytes that are no message of this protocol.
    """
    if opaque.topic != TOPIC:
        raise MalformedFrame(f"topic {opaque.topic!r} where {TOPIC!r} belongs")
    try:
        return _decode(opaque.body)
    except UNDECODABLE as error:
        raise MalformedFrame(f"{len(opaque.body)} bytes that are no election message: {error}") from None
