"""Messages between session and data servers, and among data servers.

Rules for all messages: :mod:`slotreeve_protocol.general_messages`.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec
from slotreeve.model.publisher import Publisher
from slotreeve.ports import Message


class Access(IntEnum):
    """A data server's answer for one slot (original: ``SlotAccess``)."""

    ACCEPT = 0
    MIGRATING = 1
    """I lead it but am still comparing: writes are taken, reads are not."""
    MOVED = 2
    """I do not lead it."""
    MISMATCH = 3
    """I lead it, under another leader epoch than the one you named."""


class SlotAnswer(msgspec.Struct, array_like=True, frozen=True):
    """What became of the part of a request that concerns one slot."""

    slot: int
    access: Access
    leader_epoch: int


class SlotWrite(msgspec.Struct, array_like=True, frozen=True):
    """What to store in one slot, in this order.

    ``records``: records and tombstones, each replacing only an older one. ``gone``: tombstones of publishers whose
    client left; each removes its record only if that is no newer and still belongs to the same session process.
    ``purged`` (leader to follower only): (data info id, register id) of records to remove without a trace.
    """

    slot: int
    leader_epoch: int
    records: list[Publisher]
    gone: list[Publisher]
    purged: list[tuple[str, str]]


class Write(Message, frozen=True, tag=40):
    """Session to data leader, ? Answers: store these."""

    batches: list[SlotWrite]


class Answers(Message, frozen=True, tag=41):
    """Reply: one answer for each slot named in the request, in its order."""

    answers: list[SlotAnswer]


class Known(msgspec.Struct, array_like=True, frozen=True):
    """What a session server already has of one service (version 0: nothing)."""

    data_info_id: str
    version: int
    digest: int


class SlotInterest(msgspec.Struct, array_like=True, frozen=True):
    """Changed interest of a session server in the services of one slot."""

    slot: int
    leader_epoch: int
    wanted: list[Known]
    unwanted: list[str]


class DeclareInterest(Message, frozen=True, tag=42):
    """Session to data leader, ? Answers: send me ``Changed`` for these services from now on (at once where what I
    know is not the present state; after the comparison where the slot is migrating)."""

    interests: list[SlotInterest]


class DatumChange(msgspec.Struct, array_like=True, frozen=True):
    """One service's step from one version to another; ``from_version`` 0: ``changed`` is all there is."""

    data_info_id: str
    from_version: int
    version: int
    digest: int
    changed: list[Publisher]
    removed: list[str]


class Changed(Message, frozen=True, tag=43):
    """Data leader to interested sessions: these services changed."""

    changes: list[DatumChange]


class Fetch(Message, frozen=True, tag=44):
    """Session to data leader, ? Datum or Answers (why not): read one service."""

    slot: int
    leader_epoch: int
    data_info_id: str


class SlotDigests(msgspec.Struct, array_like=True, frozen=True):
    """Sync digest (:func:`slotreeve.model.datum.sync_digest`) of the live records by data info id that the sender
    holds (of the receiver's own, where the receiver is a session)."""

    slot: int
    leader_epoch: int
    digests: dict[str, int]


class Compare(Message, frozen=True, tag=45):
    """Data leader to session, ? Compared: where do your own records differ from what I hold of you?"""

    slots: list[SlotDigests]


class Follow(Message, frozen=True, tag=46):
    """Data follower to leader, ? Compared: where do I differ; from the complete answer on, stream me the slot."""

    slots: list[SlotDigests]


class SlotDifference(msgspec.Struct, array_like=True, frozen=True):
    """Answer for one slot: the full set of live records of each service that differs (an empty list: none left).

    ``complete`` False: there was more than fits; compare again after applying this.
    """

    slot: int
    access: Access
    leader_epoch: int
    complete: bool
    records: dict[str, list[Publisher]]


class Compared(Message, frozen=True, tag=47):
    """Reply to Compare and Follow."""

    differences: list[SlotDifference]


class Replicate(Message, frozen=True, tag=48):
    """Data leader to follower: the stream that Follow asked for."""

    batches: list[SlotWrite]


class Deliver(Message, frozen=True, tag=49):
    """Data leader to session, ? Done: answer when all that waits or is on its way for these slots now is stored."""

    slots: list[int]
