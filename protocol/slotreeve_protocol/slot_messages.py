"""Messages between session and data servers, and among data servers.

Rules for all messages: :mod:`slotreeve_protocol.general_messages`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

import msgspec
from slotreeve.model.publisher import Publisher
from slotreeve.ports import Message

Microseconds = Annotated[int, msgspec.Meta(le=1 << 53)]
"""285 years at most, so that a sum of some of them can be sent."""


class Access(IntEnum):
    """Whether a data server carries out requests for one slot (original: ``SlotAccess``)."""

    ACCEPT = 0
    MIGRATING = 1
    """The server leads the slot but still compares it: it accepts writes, but no reads."""
    MOVED = 2
    """The server does not lead the slot."""
    MISMATCH = 3
    """The server leads the slot under another leader epoch than the request names."""


class SlotAnswer(msgspec.Struct, array_like=True, frozen=True):
    """The result of the part of a request that concerns one slot."""

    slot: int
    access: Access
    leader_epoch: int


class SlotWrite(msgspec.Struct, array_like=True, frozen=True):
    """The changes to store in one slot, in this order.

    ``records``: records and tombstones; each replaces only an older one. ``gone``: tombstones of registrations whose
    client has left; each removes its record only if that is not newer and belongs to the same session process.
    ``purged`` (leader to follower only): (data info id, register id) of records to remove without a tombstone.
    ``lost`` (session to leader only): records whose client left without a word: its connection ended, or it is silent.
    The sender keeps them until the leader says that they are over (``Changed``). A sender of release 0.1 sends their
    tombstones, and keeps nothing (docs/endings.md).
    ``waited_us``: for how long the oldest of this has waited at the sender, in microseconds on its clock.
    """

    slot: int
    leader_epoch: int
    records: list[Publisher]
    gone: list[Publisher]
    purged: list[tuple[str, str]]
    lost: list[Publisher] = []
    waited_us: Microseconds = 0


class Write(Message, frozen=True, tag=40):
    """Session to data leader: store these changes. Reply: Answers."""

    batches: list[SlotWrite]


class Answers(Message, frozen=True, tag=41):
    """Reply to Write, DeclareInterest, Fetch and Confirm: one answer for each slot of the request, in its order.
    ``revision``: see Confirm."""

    answers: list[SlotAnswer]
    revision: int = 0


class SlotEpoch(msgspec.Struct, array_like=True, frozen=True):
    """A slot under one leader epoch."""

    slot: int
    leader_epoch: int


class Confirm(Message, frozen=True, tag=55):
    """Data or session to data and session: have you handled what I sent before this?

    A data server answers for each slot: Accept where it leads the slot under this epoch; or where it follows it under
    this epoch by the table of ``table_epoch`` or a newer one, and has everything that its leader streamed. A session
    server answers once everything that now waits or is in flight for these slots is stored, and names no slot. With
    ``arrivals`` it first lets those clients come in that tried to connect while it stood still.

    ``revision``, in question and answer: of the newest view that the sender has. Whoever has an older one asks for it
    (GetNewerView). Reply: Answers.
    """

    slots: list[SlotEpoch]
    table_epoch: int = 0
    revision: int = 0
    arrivals: bool = False


class Known(msgspec.Struct, array_like=True, frozen=True):
    """The copy that a session server has of one service (version 0: none)."""

    data_info_id: str
    version: int
    digest: int


class SlotInterest(msgspec.Struct, array_like=True, frozen=True):
    """The services of one slot that a session server needs from now on, and those that it does not need any more."""

    slot: int
    leader_epoch: int
    wanted: list[Known]
    unwanted: list[str]


class DeclareInterest(Message, frozen=True, tag=42):
    """Session to data leader: send ``Changed`` for these services from now on. Send it at once where the session's copy
    is not up to date; for a migrating slot, after the comparison. Reply: Answers."""

    interests: list[SlotInterest]


class DatumChange(msgspec.Struct, array_like=True, frozen=True):
    """The step of one service between two versions. If ``from_version`` is 0, ``changed`` is the whole service.

    A large step comes in parts, in order over one connection, which name the same versions and digest. ``more``: this
    is not the last part. Other messages may come in between. The receiver applies all parts together.

    ``waited_us``: how long the oldest of these changes took at the servers until now, in microseconds: a sum of what
    each of them measured on its own clock, without the time on the wire.
    """

    data_info_id: str
    from_version: int
    version: int
    digest: int
    changed: list[Publisher]
    removed: list[str]
    more: bool = False
    waited_us: Microseconds = 0


class Changed(Message, frozen=True, tag=43):
    """Data leader to the sessions that declared interest: these services have changed. As a request, it carries one
    part of a large service: the leader sends the next part when the reply (Done) has arrived.

    ``over``: tombstones of registrations that the receiver has reported as lost: they have ended, or their clients have
    sent newer ones."""

    changes: list[DatumChange]
    over: list[Publisher] = msgspec.field(default_factory=list)


class Fetch(Message, frozen=True, tag=44):
    """Session to data leader: read one service, from record ``start`` on in the list that was read at ``version`` (0:
    begin with a new list). Reply: Datum, or Answers with the reason why not."""

    slot: int
    leader_epoch: int
    data_info_id: str
    start: Annotated[int, msgspec.Meta(ge=0)] = 0
    version: int = 0


MOST_PARTS = 1 << 24
"""No service has so many parts: of the smallest parts that the settings allow, that would be 4 GiB."""
PartNumber = Annotated[int, msgspec.Meta(ge=0)]


def _check_parts(count: int) -> None:
    if not 1 <= count <= MOST_PARTS or count & (count - 1):
        raise ValueError(f"a service in {count} parts; expected a power of two from 1 to {MOST_PARTS}")


class PartDigests(msgspec.Struct, array_like=True, frozen=True):
    """Sync digests of one large service by part. A service has ``count`` parts, a power of two; the part of a record is
    ``crc32(register id) & (count - 1)``. Empty parts are left out."""

    count: int
    digests: dict[PartNumber, int]

    def __post_init__(self) -> None:
        """Check the number of parts, on which loops depend."""
        _check_parts(self.count)


class ComparedUpTo(msgspec.Struct, array_like=True, frozen=True):
    """A position in a comparison, which goes through the services that differ by name, and through the parts of a large
    one by number. ``count`` is the number of its parts; 0: a whole service."""

    data_info_id: str = ""
    count: int = 0
    number: int = 0


class SlotDigests(msgspec.Struct, array_like=True, frozen=True):
    """Sync digests by data info id (:func:`slotreeve_servers.node.digests.sync_hash`) of the live records that the
    sender holds; where the receiver is a session, only of the records that belong to it. A large service is in
    ``parts`` instead of ``digests``. ``after``: what comes before, or is there, was compared. ``is_first``: the sender
    has not compared this slot with the receiver since it leads it, and may have no copy of it. ``serves``: the sender
    leads the slot and answers reads, so that what it does not have of lost clients is over. ``since``, of a follower:
    the epoch of the table with which it began this copy; 0 of release 0.1."""

    slot: int
    leader_epoch: int
    digests: dict[str, int]
    parts: dict[str, PartDigests] = {}
    after: ComparedUpTo = ComparedUpTo()
    is_first: bool = False
    serves: bool = False
    since: int = 0


class Compare(Message, frozen=True, tag=45):
    """Data leader to session: compare these digests with your own records. Reply: Compared."""

    slots: list[SlotDigests]


class Follow(Message, frozen=True, tag=46):
    """Data follower to data leader: compare these digests with your records; from the reply on, send Replicate for the
    slot. Reply: Compared."""

    slots: list[SlotDigests]


class ServicePart(msgspec.Struct, array_like=True, frozen=True):
    """All live records of one part of a service that has ``count`` parts (:class:`PartDigests`)."""

    data_info_id: str
    count: int
    number: PartNumber
    records: list[Publisher]

    def __post_init__(self) -> None:
        """Check the number of parts, on which loops depend."""
        _check_parts(self.count)


class SlotDifference(msgspec.Struct, array_like=True, frozen=True):
    """The differences in one slot: all live records of each service that differs (an empty list: it has none), and of
    a large service the parts that differ.

    ``complete`` is False if not all differences fit in the reply: apply these, then compare again, or only what comes
    after ``upto``. ``ended``: tombstones of services that do not differ, in the complete answer to a first comparison.
    ``waited_us``, of a session: for how long the oldest of what the leader has not stored has waited, see SlotWrite.
    ``is_streamed``, of a leader to its follower: what it stores is streamed from the first question on, so that the
    next one may go on after ``upto``. A leader of release 0.1 streams only after a complete reply.
    """

    slot: int
    access: Access
    leader_epoch: int
    complete: bool
    records: dict[str, list[Publisher]]
    parts: list[ServicePart] = []
    upto: ComparedUpTo = ComparedUpTo()
    ended: list[Publisher] = []
    waited_us: Microseconds = 0
    is_streamed: bool = False


class Compared(Message, frozen=True, tag=47):
    """Reply to Compare and Follow: the differences, slot by slot."""

    differences: list[SlotDifference]


class Replicate(Message, frozen=True, tag=48):
    """Data leader to data follower: the changes of the slots that it follows."""

    batches: list[SlotWrite]


class Presence(Message, frozen=True, tag=50):
    """Session to every data server, of clients by their ids, which begin every register id.

    ``arriving``: they are connected to the sender and send their records again. Until they have ``arrived`` - all of
    that is stored, or they have left meanwhile - no record of them ends because of an older connection. ``left``: their
    connections have ended, and they had records; where many leave at once, they have longer to come back.
    """

    arriving: list[str]
    arrived: list[str]
    left: list[str] = msgspec.field(default_factory=list)
