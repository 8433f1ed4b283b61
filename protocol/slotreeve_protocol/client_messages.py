"""Messages between clients and session servers.

Rules for all messages: :mod:`slotreeve_protocol.general_messages`.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec
from slotreeve.model.publisher import Publisher
from slotreeve.ports import Message


class Scope(IntEnum):
    """Which publishers a subscriber wants: those in the session server's zone, or all of the cluster."""

    ZONE = 0
    DATA_CENTER = 1


class Publish(Message, frozen=True, tag=20):
    """Client to session: records (tombstones to unpublish); record ``i`` has sequence ``sequence + i``."""

    sequence: int
    records: list[Publisher]


class Published(Message, frozen=True, tag=21):
    """Session to client: the slot leaders hold the records with these sequences."""

    sequences: list[int]


class Rejected(Message, frozen=True, tag=22):
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


class Subscribe(Message, frozen=True, tag=23):
    """Client to session: push me these from now on."""

    wants: list[Want]


class Unsubscribe(Message, frozen=True, tag=24):
    """Client to session: no longer push me this."""

    data_info_id: str
    scope: Scope


class Push(Message, frozen=True, tag=25):
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


class PushReceipt(msgspec.Struct, array_like=True, frozen=True):
    """The push to ``received`` of one service has come; I have ``version`` now (0: I could not apply it, send
    everything)."""

    data_info_id: str
    scope: Scope
    received: int
    version: int


class PushesReceived(Message, frozen=True, tag=26):
    """Client to session: these pushes, and all before them, have come. May be late and merged: receipts only bound
    what is on its way."""

    receipts: list[PushReceipt]


class Get(Message, frozen=True, tag=27):
    """Client to session, ? Datum: what is published for this service now."""

    data_info_id: str


class Datum(Message, frozen=True, tag=28):
    """Reply: all live records of one service, complete under the slot leader epoch in ``version``."""

    data_info_id: str
    version: int
    publishers: list[Publisher]


class ListServices(Message, frozen=True, tag=29):
    """Client to session, session to data, ? Services: which services starting with ``prefix`` have publishers."""

    prefix: str


class Services(Message, frozen=True, tag=30):
    """Reply: number of publishers by data info id."""

    counts: dict[str, int]


class Sessions(Message, frozen=True, tag=31):
    """Session to client: where the session servers are; repeated when that changes."""

    addresses: list[str]


class Redirect(Message, frozen=True, tag=33):
    """Session to client: I stop; connect to one of these, then leave me."""

    addresses: list[str]


class Withdraw(Message, frozen=True, tag=32):
    """Client to session: I stop on purpose; everything I published ends now, without the linger of a lost
    connection."""
