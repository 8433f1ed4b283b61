"""The union of all messages. A received frame decodes to one of them."""

from __future__ import annotations

from slotreeve.ports import Hello

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
from slotreeve_protocol.general_messages import (
    Counters,
    Done,
    Failed,
    GetCounters,
    Goodbye,
    Opaque,
    Ping,
)
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

AnyMessage = (
    Hello
    | Goodbye
    | Failed
    | Done
    | Ping
    | GetCounters
    | Counters
    | Opaque
    | Publish
    | Published
    | Rejected
    | Subscribe
    | Unsubscribe
    | NotPushed
    | Push
    | PushesReceived
    | Get
    | Datum
    | ListServices
    | Services
    | Sessions
    | Redirect
    | Withdraw
    | ReplayEnded
    | Pong
    | Moved
    | GivenUp
    | Write
    | Answers
    | DeclareInterest
    | Changed
    | Fetch
    | Compare
    | Follow
    | Compared
    | Replicate
    | Presence
    | RegisterLeases
    | RenewLeases
    | EndLeases
    | LeasesKnown
    | KeepLeases
    | LeasesKept
    | Confirm
    | View
    | Heartbeat
    | LeaseGranted
    | LeaderIs
    | Leave
    | GetView
    | GetNewerView
    | GetLeader
    | PutConfig
    | GetConfigs
    | Configs
    | WatchConfigs
    | UnwatchConfig
    | GetHistory
    | History
    | Resign
    | GetShadow
    | ShadowIs
    | SwapElection
    | Swapped
    | SwapOrder
    | GetElection
    | ElectionIs
    | GetMembers
    | Members
    | GetClients
    | ClientPage
    | GetSubscribers
    | SubscriberPage
    | GetSettings
    | SettingsAre
    | GetUses
    | UsePage
    | GetDelays
    | DelayPage
    | GetSlotReads
    | SlotReadsPage
    | GetServiceAt
    | ServiceAt
    | GetChanges
    | ChangePage
    | GetEvents
    | EventPage
    | NoteDenials
)
"""Any message."""
