"""Every message there is.

Imperatives (``Publish``) ask for something; past events (``Changed``) tell that something happened. All are tagged
arrays: a field may be added at the end with a default, never removed or reordered (``golden/frames.json``).
Who sends what to whom is said in each docstring; ``?`` marks a request that wants the named reply.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from slotreeve.model.nodes import Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import SlotFacts
from slotreeve.wire.meta_messages import (
    Beat,
    Configs,
    GetConfigs,
    GetHistory,
    GetLeader,
    GetShadow,
    GetView,
    Heartbeat,
    History,
    LeaderIs,
    Leave,
    PutConfig,
    Resign,
    ShadowIs,
    UnwatchConfig,
    View,
    WatchConfigs,
)
from slotreeve.wire.slot_messages import (
    Answers,
    Changed,
    Compare,
    Compared,
    DeclareInterest,
    Deliver,
    Fetch,
    Follow,
    Replicate,
    Write,
)

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


class GetCounters(msgspec.Struct, array_like=True, frozen=True, tag=7):
    """Anybody to any server, ? Counters."""


class Counters(msgspec.Struct, array_like=True, frozen=True, tag=8):
    """Reply: what the server counted since its start, and what it holds, by name."""

    values: dict[str, int]


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


class Move(msgspec.Struct, array_like=True, frozen=True, tag=33):
    """Session to client: I stop; connect to one of these, then leave me."""

    addresses: list[str]


class Withdraw(msgspec.Struct, array_like=True, frozen=True, tag=32):
    """Client to session: I stop on purpose; everything I published ends now, without the linger of a lost
    connection."""


Message = (
    Hello | Goodbye | Failed | Done | Ping | Opaque | GetCounters | Counters | Publish | Published | Rejected
    | Subscribe | Unsubscribe | Push | Pushed | Get | Datum | ListServices | Services | Sessions | Move
    | Withdraw | Write | Answers | DeclareInterest | Changed | Fetch | Compare | Follow | Compared | Replicate
    | Deliver
    | View | Heartbeat | Beat | LeaderIs | Leave | GetView | GetLeader | PutConfig | GetConfigs | Configs
    | WatchConfigs | UnwatchConfig | GetHistory | History | Resign | GetShadow | ShadowIs
)  # fmt: skip
"""Everything that may travel; a received frame decodes to exactly one of these."""
