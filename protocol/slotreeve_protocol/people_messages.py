"""What people ask servers: who is connected, what each subscriber has, and which settings are in force."""

from __future__ import annotations

import msgspec
from slotreeve.ports import Message

from slotreeve_protocol.client_messages import Scope
from slotreeve_protocol.live_settings import Value

MOST_LISTED = 1_000
"""Most clients or subscribers in one reply."""
MAX_APPLICATION_LENGTH = 255
"""Longest name of an application, in characters; servers cut longer ones."""
LATE_SECONDS = 1.0
"""A client whose callbacks are so late is named to operators. No server does anything else for it."""


class ClientIs(msgspec.Struct, array_like=True, frozen=True):
    """A client that is connected to this session server.

    ``connected_seconds``: for how long. ``records``: how many registrations it has here. ``unacknowledged``: those that
    their slots' leaders have not stored yet. ``services``: how many it subscribes to. ``unread``: pushes that were sent
    and whose receipt has not come. ``is_off``: hidden by an order. ``late_seconds``: how late its callbacks were, as it
    said with its last ping. ``application``: as it says it is called.
    """

    id: str
    address: str
    connected_seconds: float
    records: int
    unacknowledged: int
    services: int
    unread: int
    is_off: bool = False
    late_seconds: float = 0.0
    application: str = ""


class GetClients(Message, frozen=True, tag=100):
    """Tool to session: return the clients whose ids come after ``after``, in the order of their ids, ``most`` at most,
    and the other connections of the last one. Reply: ClientPage."""

    after: str = ""
    most: int = MOST_LISTED


class ClientPage(Message, frozen=True, tag=101):
    """Reply to GetClients: a page of the clients. ``more``: others follow after the last one."""

    clients: list[ClientIs]
    more: bool = False


class SubscriberIs(msgspec.Struct, array_like=True, frozen=True):
    """A client that subscribes to a service.

    ``sent``: the version that the last push brings it to; 0 before the first push. ``unread``: pushes whose receipt has
    not come. ``late_seconds``: see ClientIs.
    """

    id: str
    address: str
    scope: Scope
    sent: int
    unread: int
    late_seconds: float = 0.0


class GetSubscribers(Message, frozen=True, tag=102):
    """Tool to session: return the subscribers of a service whose ids come after ``after``, in the order of their ids,
    ``most`` at most. Reply: SubscriberPage."""

    data_info_id: str
    after: str = ""
    most: int = MOST_LISTED


class SubscriberPage(Message, frozen=True, tag=103):
    """Reply to GetSubscribers: a page of the subscribers.

    ``version`` is that of this server's copy of the service, 0 where it has none. ``providers``: how many are in it.
    ``more``: others follow after the last one.
    """

    version: int
    providers: int
    subscribers: list[SubscriberIs]
    more: bool = False


class UseIs(msgspec.Struct, array_like=True, frozen=True):
    """What a client does with a service: it has ``publishes`` registrations of it here, and ``subscribes`` to it or
    not."""

    client: str
    address: str
    data_info_id: str
    publishes: int
    subscribes: bool


class GetUses(Message, frozen=True, tag=132):
    """Tool to session: return what the clients of ``application`` publish and subscribe to, in the order of their ids
    and of the services, after this client and service, ``most`` at most. Reply: UsePage."""

    application: str
    after_client: str = ""
    after_service: str = ""
    most: int = MOST_LISTED


class UsePage(Message, frozen=True, tag=133):
    """Reply to GetUses: a page. ``more``: others follow after the last one."""

    uses: list[UseIs]
    more: bool = False


class GetSettings(Message, frozen=True, tag=130):
    """Tool to a server: return your live settings. Reply: SettingsAre."""


class SettingIs(msgspec.Struct, array_like=True, frozen=True):
    """A setting of this server that can be changed while it runs.

    ``value``: what is in force. ``configured``: what its own configuration says. ``origin``: where that says it.
    ``is_live``: the operator's table has it.
    """

    name: str
    value: Value
    configured: Value
    origin: str
    is_live: bool = False


class SettingsAre(Message, frozen=True, tag=131):
    """Reply to GetSettings: the settings in force, by the version ``version`` of the operator's table (0: none).

    ``ignored``: what this server does not follow in it, and why, by name.
    """

    version: int
    settings: list[SettingIs]
    ignored: dict[str, str] = msgspec.field(default_factory=dict)
