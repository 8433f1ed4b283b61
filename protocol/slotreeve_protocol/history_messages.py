"""What people ask servers of the past: what a service was, what changed, and what happened."""

from __future__ import annotations

from enum import StrEnum

import msgspec
from slotreeve.model.publisher import Publisher
from slotreeve.ports import Message

MOST_EVENTS = 1_000
"""Most events or changes in one reply."""


class RecordedChange(msgspec.Struct, array_like=True, frozen=True):
    """One registration of a service changed. Changes that follow each other within the interval of writes are one.

    ``at_ms``: wall clock of the slot's leader. ``is_gone``: it ended; ``version``, ``session``, ``zone`` and ``data``
    are those of the last record then. ``reason``: why it ended the last time; empty where it did not. ``ends``: how
    often it ended in this time.
    """

    register_id: str
    at_ms: int
    is_gone: bool
    version: int
    session: str
    zone: str
    data: tuple[bytes, ...]
    reason: str = ""
    ends: int = 0


class ServiceChange(msgspec.Struct, array_like=True, frozen=True):
    """Changes of one service that a server wrote down together. ``is_told_by_leader``: it led the slot, and so knows
    the reasons; else it followed."""

    data_info_id: str
    at_ms: int
    leader_epoch: int
    is_told_by_leader: bool
    changes: list[RecordedChange]


class HistoryEvent(msgspec.Struct, array_like=True, frozen=True):
    """Something that happened. ``place``: where it stands in the history of this server; later ones are greater.
    ``event``: JSON of :class:`slotreeve_events.schema.Event`."""

    place: int
    event: bytes


class KnownState(StrEnum):
    """What a server knows of a service at some time."""

    EXACTLY = "exactly"
    """It held the slot completely, and wrote down each change until then."""
    BEFORE_A_CHANGE = "before a change"
    """The first change that it wrote down came later. This is the state before that one."""
    AS_NOW = "as now"
    """It did not change after ``since_ms``. What it changed before, the server did not write down."""
    NOTHING = "nothing"
    """It wrote down no change of the service."""


class GetServiceAt(Message, frozen=True, tag=104):
    """Tool to data: return what the service was at ``at_ms`` (wall clock), as far as this server held its slot; the
    records whose ids come after ``after``. Reply: ServiceAt."""

    data_info_id: str
    at_ms: int
    after: str = ""


class ServiceAt(Message, frozen=True, tag=105):
    """Reply to GetServiceAt: a page of the records.

    ``since_ms``: when the last change before that time was, or, before a change, when that one was. ``begins_ms``:
    where the history of this server begins. ``more``: others follow after the last one.
    """

    known: KnownState
    since_ms: int
    leader_epoch: int
    begins_ms: int
    records: list[Publisher]
    more: bool = False


class GetChanges(Message, frozen=True, tag=106):
    """Tool to data: return the changes of a service, or of all where ``data_info_id`` is empty, from ``since_ms`` until
    before ``until_ms``, the newest first, about ``most``. Reply: ChangePage."""

    data_info_id: str
    since_ms: int
    until_ms: int
    most: int = MOST_EVENTS


class ChangePage(Message, frozen=True, tag=107):
    """Reply to GetChanges: the newest changes. ``more``: there are earlier ones; ask until before the last one."""

    begins_ms: int
    changes: list[ServiceChange]
    more: bool = False


MOST_DENIALS, LONGEST_DENIAL = 200, 200
"""Denials in one message, and letters of each text in one."""


class Denied(msgspec.Struct, array_like=True, frozen=True):
    """Somebody was denied something. ``author``: whose key or token it was. ``address``: where the request came from;
    empty where it is not known. ``reason``: what was asked for, and what lacks. ``count``: how often it happened."""

    author: str
    address: str
    reason: str
    count: int = 1


class NoteDenials(Message, frozen=True, tag=134):
    """Tool to meta: a gateway writes down what it has denied its callers. Reply: Done."""

    gateway: str
    denied: list[Denied]


class GetEvents(Message, frozen=True, tag=108):
    """Tool to server: return what happened from ``since_ms`` until before ``until_ms``, the oldest first behind the
    place ``after``, or, where ``newest_first``, the newest before it (0: before all); of these kinds, or of all. Reply:
    EventPage."""

    since_ms: int
    until_ms: int
    kinds: tuple[str, ...] = ()
    after: int = 0
    newest_first: bool = False
    most: int = MOST_EVENTS


class EventPage(Message, frozen=True, tag=109):
    """Reply to GetEvents: a page of the events. ``lost``: how many this server could not write since its start.
    ``more``: others follow."""

    begins_ms: int
    lost: int
    events: list[HistoryEvent]
    more: bool = False
