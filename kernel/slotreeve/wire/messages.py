"""Every message there is.

Imperatives (``Publish``) ask for something; past events (``Changed``) tell that something happened. All are tagged
arrays: a field may be added at the end with a default, never removed or reordered (``golden/frames.json``).
Who sends what to whom is said in each docstring; ``?`` marks a request that wants the named reply.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from slotreeve.model.nodes import Node, Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import SlotFacts, SlotTable

# --- any process to any process ----------------------------------------------------------------------------------


class Hello(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """Both ends, first: who I am. ``facts`` is None for those that do not shard (clients, tools, elections)."""

    cluster: str
    node: str
    role: Role
    process_id: str
    address: str = ""
    oldest_version: int = 1
    newest_version: int = 1
    facts: SlotFacts | None = None


class Goodbye(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """Either end, last: why I refuse or end this connection."""

    reason: str


class Failed(msgspec.Struct, array_like=True, frozen=True, tag=3):
    """Reply to any request that cannot be carried out: an error's ``code`` and message."""

    code: str
    reason: str


class Done(msgspec.Struct, array_like=True, frozen=True, tag=4):
    """Reply: carried out, nothing more to say."""


class Ping(msgspec.Struct, array_like=True, frozen=True, tag=5):
    """? Done. Are you there; renews the sender's lease."""


class Opaque(msgspec.Struct, array_like=True, frozen=True, tag=6):
    """Between two copies of one plugin: bytes that only they understand."""

    topic: str
    body: bytes


# --- client <-> session ------------------------------------------------------------------------------------------


class Scope(IntEnum):
    """Which publishers a subscriber wants: those in the session server's zone, or all of the cluster."""

    ZONE = 0
    DATA_CENTER = 1


class Publish(msgspec.Struct, array_like=True, frozen=True, tag=20):
    """Client to session: records (tombstones to unpublish); record ``i`` has sequence ``sequence + i``."""

    sequence: int
    records: list[Publisher]


class Published(msgspec.Struct, array_like=True, frozen=True, tag=21):
    """Session to client: the slot leaders hold the records with these sequences."""

    sequences: list[int]


class Rejected(msgspec.Struct, array_like=True, frozen=True, tag=22):
    """Session to client: this record will not be stored, and why."""

    sequence: int
    code: str
    reason: str


class Want(msgspec.Struct, array_like=True, frozen=True):
    """One subscription: what is wanted, and what its owner already has (version 0: nothing)."""

    data_info_id: str
    scope: Scope
    version: int = 0
    digest: int = 0


class Subscribe(msgspec.Struct, array_like=True, frozen=True, tag=23):
    """Client to session: push me these from now on."""

    wants: list[Want]


class Unsubscribe(msgspec.Struct, array_like=True, frozen=True, tag=24):
    """Client to session: no longer push me this."""

    data_info_id: str
    scope: Scope


class Push(msgspec.Struct, array_like=True, frozen=True, tag=25):
    """Session to client: what is published for one service now.

    ``from_version`` 0: ``changed`` is all there is. Otherwise ``changed`` and ``removed`` (register ids) lead from
    that version to ``version``. ``digest`` is the whole result's (:func:`slotreeve.model.datum.content_digest`).
    """

    data_info_id: str
    scope: Scope
    from_version: int
    version: int
    digest: int
    changed: list[Publisher]
    removed: list[str]


class Receipt(msgspec.Struct, array_like=True, frozen=True):
    """The push to ``received`` of one service has come; I have ``version`` now (0: I could not apply it, send
    everything)."""

    data_info_id: str
    scope: Scope
    received: int
    version: int


class Pushed(msgspec.Struct, array_like=True, frozen=True, tag=26):
    """Client to session: these pushes, and all before them, have come. May be late and merged: receipts only bound
    what is on its way."""

    receipts: list[Receipt]


class Get(msgspec.Struct, array_like=True, frozen=True, tag=27):
    """Client to session, ? Datum: what is published for this service now."""

    data_info_id: str


class Datum(msgspec.Struct, array_like=True, frozen=True, tag=28):
    """Reply: all live records of one service, complete under the slot leader epoch in ``version``."""

    data_info_id: str
    version: int
    publishers: list[Publisher]


class ListServices(msgspec.Struct, array_like=True, frozen=True, tag=29):
    """Client to session, session to data, ? Services: which services starting with ``prefix`` have publishers."""

    prefix: str


class Services(msgspec.Struct, array_like=True, frozen=True, tag=30):
    """Reply: number of publishers by data info id."""

    counts: dict[str, int]


class Sessions(msgspec.Struct, array_like=True, frozen=True, tag=31):
    """Session to client: where the session servers are; repeated when that changes."""

    addresses: list[str]


class Withdraw(msgspec.Struct, array_like=True, frozen=True, tag=32):
    """Client to session: I stop on purpose; everything I published ends now, without the linger of a lost
    connection."""


# --- session <-> data, data <-> data -----------------------------------------------------------------------------


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


class Write(msgspec.Struct, array_like=True, frozen=True, tag=40):
    """Session to data leader, ? Answers: store these."""

    batches: list[SlotWrite]


class Answers(msgspec.Struct, array_like=True, frozen=True, tag=41):
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


class DeclareInterest(msgspec.Struct, array_like=True, frozen=True, tag=42):
    """Session to data leader, ? Answers: send me ``Changed`` for these services from now on (at once where what I
    know is not the present state; after the comparison where the slot is migrating)."""

    interests: list[SlotInterest]


class Change(msgspec.Struct, array_like=True, frozen=True):
    """One service's step from one version to another; ``from_version`` 0: ``changed`` is all there is."""

    data_info_id: str
    from_version: int
    version: int
    digest: int
    changed: list[Publisher]
    removed: list[str]


class Changed(msgspec.Struct, array_like=True, frozen=True, tag=43):
    """Data leader to interested sessions: these services changed."""

    changes: list[Change]


class Fetch(msgspec.Struct, array_like=True, frozen=True, tag=44):
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


class Compare(msgspec.Struct, array_like=True, frozen=True, tag=45):
    """Data leader to session, ? Compared: where do your own records differ from what I hold of you?"""

    slots: list[SlotDigests]


class Follow(msgspec.Struct, array_like=True, frozen=True, tag=46):
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


class Compared(msgspec.Struct, array_like=True, frozen=True, tag=47):
    """Reply to Compare and Follow."""

    differences: list[SlotDifference]


class Replicate(msgspec.Struct, array_like=True, frozen=True, tag=48):
    """Data leader to follower: the stream that Follow asked for."""

    batches: list[SlotWrite]


# --- meta <-> everybody ------------------------------------------------------------------------------------------


class View(msgspec.Struct, array_like=True, frozen=True, tag=60):
    """Meta leader to all: the committed state of the cluster. Receivers apply only a higher ``revision``.

    ``term`` is the term it was committed under; ``table.epoch`` rises more slowly than ``revision``, which counts
    every committed change of table or membership. ``facts`` are those of the whole cluster, for ever.
    """

    term: int
    revision: int
    table: SlotTable
    data: list[Node]
    sessions: list[Node]
    facts: SlotFacts | None = None


class Heartbeat(msgspec.Struct, array_like=True, frozen=True, tag=61):
    """Data or session to meta leader, ? Beat or LeaderIs: I live.

    ``unsettled`` (data only): slots of table ``table_epoch`` that I should lead or follow but do not yet hold
    completely.
    """

    node: Node
    revision: int
    table_epoch: int
    unsettled: list[int]


class Beat(msgspec.Struct, array_like=True, frozen=True, tag=62):
    """Reply: your lease is renewed for ``lease_seconds``; ``view`` where you lag behind."""

    term: int
    lease_seconds: float
    view: View | None


class LeaderIs(msgspec.Struct, array_like=True, frozen=True, tag=63):
    """Meta to all connected, and reply of a meta that does not lead: who does (None: nobody known)."""

    term: int
    leader: str | None
    address: str | None


class Leave(msgspec.Struct, array_like=True, frozen=True, tag=64):
    """Data or session to meta leader, ? Done or LeaderIs: I stop on purpose."""

    node: Node
    reason: str


class GetView(msgspec.Struct, array_like=True, frozen=True, tag=65):
    """Anybody to meta, ? View: the committed state as you know it."""


class GetLeader(msgspec.Struct, array_like=True, frozen=True, tag=66):
    """Anybody to meta, ? LeaderIs."""


Message = (
    Hello | Goodbye | Failed | Done | Ping | Opaque | Publish | Published | Rejected | Subscribe | Unsubscribe
    | Push | Pushed | Get | Datum | ListServices | Services | Sessions | Withdraw | Write | Answers | DeclareInterest
    | Changed | Fetch | Compare | Follow | Compared | Replicate | View | Heartbeat | Beat | LeaderIs | Leave
    | GetView | GetLeader
)  # fmt: skip
"""Everything that may travel; a received frame decodes to exactly one of these."""
