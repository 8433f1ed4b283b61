"""Messages between clients and session servers.

Rules for all messages: :mod:`slotreeve_protocol.general_messages`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

import msgspec
from slotreeve.model.publisher import Publisher
from slotreeve.ports import Message


class Scope(IntEnum):
    """Whose registrations a subscriber sees: those of providers in its session server's zone, or all."""

    ZONE = 0
    DATA_CENTER = 1


MOST_PARTS = 10_000
"""Most records, or receipts, in one message; ours have some hundreds. A message with more is refused before its parts
are read: a frame holds more than a million small ones, and to read all of them takes seconds."""
MOST_WANTS = 100_000
"""Most subscriptions in one message, for the same reason."""
MOST_SEQUENCE = 1 << 53
"""No client sends so many records. What is larger could not be acknowledged."""


class Publish(Message, frozen=True, tag=20):
    """Client to session: store these records; a tombstone unpublishes. Record ``i`` has sequence ``sequence + i``."""

    sequence: Annotated[int, msgspec.Meta(ge=0, le=MOST_SEQUENCE)]
    records: Annotated[list[Publisher], msgspec.Meta(max_length=MOST_PARTS)]


class Published(Message, frozen=True, tag=21):
    """Session to client: the slots' leaders hold the records with these sequences."""

    sequences: list[int]


class Rejected(Message, frozen=True, tag=22):
    """Session to client: the record with this sequence is not stored, for this reason."""

    sequence: int
    code: str
    reason: str


class Want(msgspec.Struct, array_like=True, frozen=True):
    """One subscription: a service and scope, and the copy that the client has of it (version 0: none)."""

    data_info_id: str
    scope: Scope
    version: int = 0
    digest: int = 0


class Subscribe(Message, frozen=True, tag=23):
    """Client to session: push these services from now on."""

    wants: Annotated[list[Want], msgspec.Meta(max_length=MOST_WANTS)]


class NotPushed(Message, frozen=True, tag=39):
    """Session to client: this service is not pushed under this scope, for this reason; the subscription has ended."""

    data_info_id: str
    scope: Scope
    code: str
    reason: str


class Unsubscribe(Message, frozen=True, tag=24):
    """Client to session: stop pushing this service."""

    data_info_id: str
    scope: Scope


class Push(Message, frozen=True, tag=25):
    """Session to client: a newer version of one service.

    If ``from_version`` is 0, ``changed`` is the whole service. Otherwise ``changed`` and ``removed`` (register ids)
    lead from that version to ``version``. ``digest`` is the content digest of the service at ``version``
    (:func:`slotreeve.model.datum.content_digest`).

    A large push comes in parts, in order over one connection, which name the same versions and digest. ``more``: this
    is not the last part. Other messages may come in between. The client applies all parts together.
    """

    data_info_id: str
    scope: Scope
    from_version: int
    version: int
    digest: int
    changed: list[Publisher]
    removed: list[str]
    more: bool = False


class PushReceipt(msgspec.Struct, array_like=True, frozen=True):
    """The push of version ``received`` of one service has arrived. The client's copy has ``version`` now; 0 means that
    the push did not fit and the whole service is needed. While a push comes in parts, ``parts`` of them have arrived:
    then ``version`` 0 asks for nothing."""

    data_info_id: str
    scope: Scope
    received: int
    version: int
    parts: Annotated[int, msgspec.Meta(ge=0)] = 0


class PushesReceived(Message, frozen=True, tag=26):
    """Client to session: these pushes, and all earlier ones of the same services, have arrived. A client may delay and
    merge receipts, because they only limit the number of pushes in flight. ``kept_seconds``: for how long it has kept
    the first of these; None: it does not say."""

    receipts: Annotated[list[PushReceipt], msgspec.Meta(max_length=MOST_PARTS)]
    kept_seconds: float | None = None


class Get(Message, frozen=True, tag=27):
    """Client to session: read one service from the leader of its slot, from record ``start`` on in the list that was
    read at ``version`` (0: begin with a new list). Reply: Datum, or Failed."""

    data_info_id: str
    start: Annotated[int, msgspec.Meta(ge=0)] = 0
    version: int = 0


class Datum(Message, frozen=True, tag=28):
    """Reply to Get and Fetch: the live records of one service, complete under the slot leader epoch in ``version``.

    A large service is read page by page. ``total`` is the number of records on all pages (0: this is the only page). A
    page of a version that the leader no longer keeps is answered with the first page of a newer version: begin again
    with it.
    """

    data_info_id: str
    version: int
    publishers: list[Publisher]
    total: int = 0


class ListedUpTo(msgspec.Struct, array_like=True, frozen=True):
    """A position in the list of all services, which goes by slot and then by name: behind this service, which need not
    exist."""

    slot: int = 0
    name: str = ""


class ListServices(Message, frozen=True, tag=29):
    """Client to session, session to data: list the services whose id starts with ``prefix`` and that have providers.
    ``after``: only one page, of what comes after this position; without it the list must fit in one frame. Reply:
    Services, or Failed."""

    prefix: str
    after: ListedUpTo | None = None


class Services(Message, frozen=True, tag=30):
    """Reply to ListServices: number of providers by data info id. ``upto``: this is a page that ends there; None: no
    more follow. ``led``, of a data server: the digest of the slots that it leads and serves, with their leader epochs;
    0: it does not say."""

    counts: dict[str, int]
    upto: ListedUpTo | None = None
    led: int = 0


class Sessions(Message, frozen=True, tag=31):
    """Session to client: the addresses of all session servers, and the era in which this one counts versions (empty:
    it does not say). Sent again when they change."""

    addresses: list[str]
    era: str = ""


class Redirect(Message, frozen=True, tag=33):
    """Session to client: this server is about to stop, or is cut off; connect to one of these, or where there is none
    to another one that you know, then close this connection."""

    addresses: list[str]


class Withdraw(Message, frozen=True, tag=32):
    """Client to session: this client stops. End all its registrations now; do not wait for the lease as after a lost
    connection."""


class Moved(Message, frozen=True, tag=36):
    """Client to session: everything that this client published is stored over another connection. Forget it; this
    connection ends."""


class GivenUp(Message, frozen=True, tag=37):
    """Client to session: this client lives, ends this connection and looks for another session server. It did not
    withdraw anything: what it published stays for the time of a lease, unless it is sent again elsewhere."""


class Pong(Message, frozen=True, tag=35):
    """Reply to the Ping of a client: this session server needs the next one after ``seconds``, no earlier. Where it has
    many clients, that is longer than the interval of theirs; otherwise they keep their own."""

    seconds: float


class ReplayEnded(Message, frozen=True, tag=34):
    """Client to session: every record that this client had published before this connection, or before it went back to
    it from another one, is stored again, with this ``incarnation``. Records of it that are not among them have ended.
    A client of an earlier release does not say the incarnation (0)."""

    incarnation: int = 0
