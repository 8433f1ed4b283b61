"""The schema of the event log: the fields of an event, its kinds, and the version that readers check.

Servers write events by this schema (:mod:`slotreeve_events.log`). The pipeline on Spark makes its columns from it
(:mod:`slotreeve_spark.pipeline.columns`), so a field is named here and nowhere else.
"""

from __future__ import annotations

import contextlib
from typing import Annotated

import msgspec
from slotreeve.model.loads import SlotLoad
from slotreeve.model.slots import Move

VERSION = 1
"""Version of this schema. A reader puts events of a higher version aside."""

MOST_LETTERS = 4_000
"""A longer text in an event of the history is cut."""

Small = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""A number that fits in 32 bits. Readers with typed columns store it as such."""


class PushedVersion(msgspec.Struct):
    """One registration in a push.

    Attributes:
        register_id: id of the registration.
        version: the version that was pushed; None if the push removed the registration.
    """

    register_id: str
    version: int | None


class SlotHolders(msgspec.Struct):
    """The servers that hold one slot, as of the table of the event. The fields are those of
    :class:`slotreeve.model.slots.Slot`."""

    slot: Small
    leader: str | None
    leader_epoch: int
    followers: tuple[str, ...]
    learners: tuple[str, ...] = ()


class SlotMove(msgspec.Struct):
    """One change of the slot table. The fields are those of :class:`slotreeve.model.slots.Move`."""

    slot: Small
    kind: str
    source: str | None
    target: str | None
    reason: str

    @classmethod
    def of(cls, move: Move) -> SlotMove:
        """The event's form of ``move``."""
        return cls(move.slot, move.kind, move.source, move.target, move.reason)


class RecordedLoad(msgspec.Struct):
    """The load of one slot. The fields are those of :class:`slotreeve.model.loads.SlotLoad`."""

    slot: Small
    records: int
    bytes: int
    writes_per_second: float

    @classmethod
    def of(cls, slot: int, load: SlotLoad) -> RecordedLoad:
        """The event's form of ``load``."""
        return cls(slot, load.records, load.bytes, load.writes_per_second)


class Event(msgspec.Struct, omit_defaults=True):
    """One line of the log. Every event has the first five fields; its kind decides which others it has.

    Attributes:
        v: version of the schema.
        id: unique: process id of the server and a number.
        at_ms: wall clock of the server in milliseconds since 1970.
        node: name of the server.
        kind: one of :data:`KINDS`.
        service: data info id of a push.
        services, register_ids, versions: the registrations of one kind in one turn of the server's event loop, one
            entry each. Three lists cost a third of what one event for each registration costs.
        subscribers: number of subscribers that the push went to.
        changes: the first registrations of the push.
        epoch, term: of the slot table; ``term`` also of a change of leader.
        reason: why it happened, for people.
        changed: slots as they are now; all slots in the first event of this kind of a process.
        moves: the changes that led to the table.
        member, role, zone, weight: the server that joined or left.
        leader: the meta server that leads now; None if none is known.
        loads: of slots whose load has changed noticeably since the last event of this kind of this leader; at most a
            thousand, the others follow.
    """

    v: Small
    id: str
    at_ms: int
    node: str
    kind: str
    service: str | None = None
    services: list[str] | None = None
    register_ids: list[str] | None = None
    versions: list[int] | None = None
    subscribers: Small | None = None
    changes: list[PushedVersion] | None = None
    epoch: int | None = None
    term: int | None = None
    reason: str | None = None
    changed: list[SlotHolders] | None = None
    moves: list[SlotMove] | None = None
    member: str | None = None
    role: str | None = None
    zone: str | None = None
    weight: float | None = None
    leader: str | None = None
    loads: list[RecordedLoad] | None = None


class HistoryNote(Event, omit_defaults=True):
    """An event of the history of a server (:mod:`slotreeve_events.history`). It has further kinds and fields.

    Attributes:
        address: where a client connects from.
        author: who gave an order or was denied something: account and machine of the asker, its key, or its token.
        key, version: of provided configuration; ``version`` also of a push.
        slots: that wait, or could not be read. ``unreadable_ms``: for how long each of them could not.
        count: pushes in this event, or how often something was denied.
        waited_ms: the longest time from the arrival of a change to its push.
    """

    address: str | None = None
    author: str | None = None
    key: str | None = None
    version: int | None = None
    count: int | None = None
    waited_ms: float | None = None
    slots: list[int] | None = None
    unreadable_ms: list[float] | None = None


COMMON = ("v", "id", "at_ms", "node", "kind")
"""Fields that every event has."""

REGISTRATION_LISTS = ("services", "register_ids", "versions")
"""Fields of equal length with one entry for each registration."""

KINDS: dict[str, tuple[str, ...]] = {
    "registered": REGISTRATION_LISTS,
    "unregistered": REGISTRATION_LISTS,
    "expired": REGISTRATION_LISTS,
    "pushed": ("service",),
    "table": ("epoch", "changed"),
    "node_joined": ("member", "role"),
    "node_left": ("member", "role"),
    "leader": ("term",),
    "loads": ("loads",),
}
"""Kinds of events, and the fields beside :data:`COMMON` without which an event of that kind is unusable."""

HISTORY_KINDS: dict[str, str] = {
    "started": "a server began to run",
    "stopped": "a server stopped in order",
    "leader": "another meta server leads, or none",
    "table": "the meta leader committed a slot table",
    "node_joined": "a data or session server joined",
    "node_left": "a data or session server left",
    "loads": "loads of slots changed",
    "slots_wait": "slots that a data server took over do not serve yet, or none waits any more",
    "slots_unreadable": "slots can be read again that could not be read for a time",
    "pushed": "a session server pushed changes of a service",
    "client_joined": "a client connected",
    "client_left": "the connection of a client ended",
    "configured": "somebody wrote a key of the provided configuration",
    "ordered": "somebody ordered something of a meta server",
    "denied": "somebody lacked the right, the key or the token for something",
    "gap": "changes of services were too many to be written down, or could not be",
    "alarm": "a server alarmed its operator",
    "error": "a server logged an error",
    "critical": "a server logged an error that ends it",
    "warning": "a server logged a warning",
}
"""Kinds of events in the history of servers, beside the changes of services."""

QUIET_KINDS = ("pushed", "client_joined", "client_left", "loads")
"""Kinds that a busy cluster has very many of: they are shown where they are asked for."""
USUAL_KINDS = tuple(kind for kind in HISTORY_KINDS if kind not in QUIET_KINDS)
"""The others."""


def encoded(event: Event) -> bytes:
    """An event as JSON, with texts of others cut, and in UTF-8."""
    with contextlib.suppress(UnicodeEncodeError):
        body = msgspec.json.encode(event)
        if len(body) <= MOST_LETTERS:
            return body
    texts = {
        name: text[:MOST_LETTERS].encode("utf-8", "backslashreplace").decode()
        for name in event.__struct_fields__
        if isinstance(text := getattr(event, name), str)
    }
    return msgspec.json.encode(msgspec.structs.replace(event, **texts))
