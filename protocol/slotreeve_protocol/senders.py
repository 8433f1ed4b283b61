"""Which role may send which message to which role.

A server refuses everything else before a core sees it. With keys nobody says a wrong role in its hello
(:func:`slotreeve_protocol.hello.imposture`); without, the table keeps mistakes and stray processes away, not attackers.
"""

from __future__ import annotations

from collections.abc import Mapping

from slotreeve.model.nodes import Role
from slotreeve.ports import Hello, Message

from slotreeve_protocol.client_messages import (
    Datum,
    Get,
    GivenUp,
    ListServices,
    Moved,
    NotPushed,
    Pong,
    Publish,
    Published,
    Push,
    PushesReceived,
    Redirect,
    Rejected,
    ReplayEnded,
    Services,
    Sessions,
    Subscribe,
    Unsubscribe,
    Withdraw,
)
from slotreeve_protocol.delay_messages import DelayPage, GetDelays, GetSlotReads, SlotReadsPage
from slotreeve_protocol.general_messages import Counters, Done, Failed, GetCounters, Goodbye, Opaque, Ping
from slotreeve_protocol.history_messages import (
    ChangePage,
    EventPage,
    GetChanges,
    GetEvents,
    GetServiceAt,
    NoteDenials,
    ServiceAt,
)
from slotreeve_protocol.lease_messages import (
    EndLeases,
    KeepLeases,
    LeasesKept,
    LeasesKnown,
    RegisterLeases,
    RenewLeases,
)
from slotreeve_protocol.meta_messages import (
    Configs,
    ElectionIs,
    GetConfigs,
    GetElection,
    GetHistory,
    GetLeader,
    GetMembers,
    GetNewerView,
    GetShadow,
    GetView,
    Heartbeat,
    History,
    LeaderIs,
    LeaseGranted,
    Leave,
    Members,
    PutConfig,
    Resign,
    ShadowIs,
    SwapElection,
    SwapOrder,
    Swapped,
    UnwatchConfig,
    View,
    WatchConfigs,
)
from slotreeve_protocol.people_messages import (
    ClientPage,
    GetClients,
    GetSettings,
    GetSubscribers,
    GetUses,
    SettingsAre,
    SubscriberPage,
    UsePage,
)
from slotreeve_protocol.slot_messages import (
    Answers,
    Changed,
    Compare,
    Compared,
    Confirm,
    DeclareInterest,
    Fetch,
    Follow,
    Presence,
    Replicate,
    Write,
)

Routes = Mapping[Role, frozenset[Role]]
"""The roles that may send a message, by the role that takes it."""


def _to(receiver: Role, *senders: Role) -> Routes:
    return {receiver: frozenset(senders)}


_META, _DATA, _SESSION, _CLIENT = Role.META, Role.DATA, Role.SESSION, Role.CLIENT
_ASKING = frozenset({Role.CLIENT, Role.TOOL})
_TO_ANY_SERVER: Routes = {role: frozenset(Role) for role in (_META, _DATA, _SESSION)}
_MEMBER_TO_META = _to(_META, _DATA, _SESSION)
_TOOL_TO_META = _to(_META, Role.TOOL)
_READ = _to(_META, _SESSION, Role.TOOL)
_TOOL_TO_SERVER: Routes = {role: frozenset({Role.TOOL}) for role in (_META, _DATA, _SESSION)}
_META_TO_MEMBER: Routes = {_DATA: frozenset({_META}), _SESSION: frozenset({_META})}
_CLIENT_TO_SESSION = _to(_SESSION, _CLIENT)
_SESSION_TO_CLIENT = _to(_CLIENT, _SESSION)
_SESSION_TO_DATA = _to(_DATA, _SESSION)
_DATA_TO_SESSION = _to(_SESSION, _DATA)
_DATA_TO_DATA = _to(_DATA, _DATA)
_NO_HANDLER: Routes = {}
"""A part of the transport's own exchange, or only a reply: the connection takes it, and no core."""

SENDERS: Mapping[type[Message], Routes] = {
    Hello: _NO_HANDLER,
    Goodbye: _NO_HANDLER,
    Failed: _NO_HANDLER,
    Done: _NO_HANDLER,
    Ping: _TO_ANY_SERVER,
    GetCounters: _TO_ANY_SERVER,
    Counters: _NO_HANDLER,
    # Plugins have connections of their own for these.
    Opaque: _NO_HANDLER,
    # ClientPage and session servers.
    Publish: _CLIENT_TO_SESSION,
    Published: _SESSION_TO_CLIENT,
    Rejected: _SESSION_TO_CLIENT,
    Subscribe: _CLIENT_TO_SESSION,
    Unsubscribe: _CLIENT_TO_SESSION,
    NotPushed: _SESSION_TO_CLIENT,
    Push: _SESSION_TO_CLIENT,
    PushesReceived: _CLIENT_TO_SESSION,
    Get: _to(_SESSION, *_ASKING),
    Datum: _NO_HANDLER,
    ListServices: {_SESSION: _ASKING, _DATA: frozenset({_SESSION})},
    Services: _NO_HANDLER,
    Sessions: _SESSION_TO_CLIENT,
    Redirect: _SESSION_TO_CLIENT,
    Withdraw: _CLIENT_TO_SESSION,
    ReplayEnded: _CLIENT_TO_SESSION,
    Pong: _NO_HANDLER,
    Moved: _CLIENT_TO_SESSION,
    GivenUp: _CLIENT_TO_SESSION,
    WatchConfigs: _CLIENT_TO_SESSION,
    UnwatchConfig: _CLIENT_TO_SESSION,
    RegisterLeases: _CLIENT_TO_SESSION,
    RenewLeases: _CLIENT_TO_SESSION,
    EndLeases: _CLIENT_TO_SESSION,
    LeasesKnown: _NO_HANDLER,
    # Session and data servers.
    Write: _SESSION_TO_DATA,
    Answers: _NO_HANDLER,
    DeclareInterest: _SESSION_TO_DATA,
    Changed: _DATA_TO_SESSION,
    Fetch: _SESSION_TO_DATA,
    Compare: _DATA_TO_SESSION,
    Follow: _DATA_TO_DATA,
    Compared: _NO_HANDLER,
    Replicate: _DATA_TO_DATA,
    Presence: _SESSION_TO_DATA,
    KeepLeases: _SESSION_TO_DATA,
    LeasesKept: _NO_HANDLER,
    Confirm: {_DATA: frozenset({_SESSION, _DATA}), _SESSION: frozenset({_DATA})},
    # Members and meta servers.
    View: _META_TO_MEMBER,
    Heartbeat: _MEMBER_TO_META,
    LeaseGranted: _NO_HANDLER,
    LeaderIs: _META_TO_MEMBER,
    Leave: _MEMBER_TO_META,
    GetView: _READ,
    GetNewerView: {_DATA: frozenset({_SESSION, _DATA, _META}), _SESSION: frozenset({_DATA, _META})},
    GetLeader: _READ,
    GetConfigs: _to(_META, _DATA, _SESSION, Role.TOOL),
    PutConfig: _TOOL_TO_META,
    Configs: {_SESSION: frozenset({_META}), _CLIENT: frozenset({_SESSION})},
    GetHistory: _TOOL_TO_META,
    History: _NO_HANDLER,
    Resign: _TOOL_TO_META,
    GetShadow: _TOOL_TO_META,
    ShadowIs: _NO_HANDLER,
    SwapElection: _TOOL_TO_META,
    Swapped: _NO_HANDLER,
    SwapOrder: _to(_META, _META),
    GetElection: _to(_META, _META, Role.TOOL),
    ElectionIs: _NO_HANDLER,
    GetMembers: _TOOL_TO_META,
    Members: _NO_HANDLER,
    # People and session servers.
    GetClients: _to(_SESSION, Role.TOOL),
    ClientPage: _NO_HANDLER,
    GetSubscribers: _to(_SESSION, Role.TOOL),
    SubscriberPage: _NO_HANDLER,
    GetUses: _to(_SESSION, Role.TOOL),
    UsePage: _NO_HANDLER,
    # People and every server.
    GetSettings: _TOOL_TO_SERVER,
    SettingsAre: _NO_HANDLER,
    # People, data and session servers.
    GetDelays: {role: frozenset({Role.TOOL}) for role in (_DATA, _SESSION)},
    DelayPage: _NO_HANDLER,
    GetSlotReads: _to(_DATA, Role.TOOL),
    SlotReadsPage: _NO_HANDLER,
    # People and the history of servers.
    GetServiceAt: _to(_DATA, Role.TOOL),
    ServiceAt: _NO_HANDLER,
    GetChanges: _to(_DATA, Role.TOOL),
    ChangePage: _NO_HANDLER,
    NoteDenials: _TOOL_TO_META,
    GetEvents: _TOOL_TO_SERVER,
    EventPage: _NO_HANDLER,
}
"""Every message. A message without an entry is refused everywhere."""


def senders_to(receiver: Role) -> dict[type[Message], frozenset[Role]]:
    """The roles that may send each message to a process of this role; messages that it never takes are left out."""
    return {kind: routes[receiver] for kind, routes in SENDERS.items() if receiver in routes}
