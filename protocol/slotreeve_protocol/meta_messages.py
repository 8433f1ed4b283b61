"""Messages between meta servers and other processes.

Rules for all messages: :mod:`slotreeve_protocol.general_messages`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

import msgspec
from slotreeve.model.loads import SlotLoad
from slotreeve.model.nodes import Node
from slotreeve.model.slots import Slot, SlotFacts, SlotTable
from slotreeve.ports import Message


class View(Message, frozen=True, tag=60):
    """Meta leader to data and session, and reply to GetView and GetNewerView: the committed state of the cluster. A
    receiver applies only a higher ``revision``.

    ``term`` is the term of the commit. ``revision`` counts every committed change of table or membership,
    ``table.epoch`` only those of the table. ``facts`` are the cluster's; they never change. ``missing`` are the process
    ids of session servers that were not heard any more before this view. They may live, cut off from the meta servers.
    ``acting`` are those of ``data`` whose lease has ended, and which may acknowledge alone yet: they lead the slots
    that no server with a lease follows. Servers with a lease take what else they hold. ``away`` are those that have
    stopped for a restart: they hold nothing, and their places in the target are kept. ``era``: in
    another one versions may be counted anew; empty: a leader of a release that knows none. ``above``: the era whose
    revisions, epochs, and versions of services this one goes on above; empty: there is none.

    For the next meta leader: ``target`` has the rows that the table is on its way to, as far as they differ from it;
    ``unclean`` are the slots that this table gives to a server that was not in sync.
    """

    term: int
    revision: int
    table: SlotTable
    data: list[Node]
    sessions: list[Node]
    facts: SlotFacts | None = None
    missing: list[str] = msgspec.field(default_factory=list)
    target: list[Slot] = msgspec.field(default_factory=list)
    unclean: list[int] = msgspec.field(default_factory=list)
    acting: list[str] = msgspec.field(default_factory=list)
    away: list[str] = msgspec.field(default_factory=list)
    era: str = ""
    above: str = ""

    def is_of_another_era(self, former: View) -> bool:
        """Whether both views name an era, and not the same one."""
        return "" not in (self.era, former.era) and self.era != former.era

    def is_counted_anew(self, former: View) -> bool:
        """Whether this view is of an era that does not go on above that of ``former``."""
        return self.is_of_another_era(former) and self.above != former.era

    @property
    def planned_data(self) -> list[Node]:
        """The data servers that slots are planned for: they have a lease, or come back."""
        return [node for node in self.data if node.name not in self.acting]

    @property
    def live_data(self) -> list[Node]:
        """The data servers that may hold slots: they have a lease."""
        return [node for node in self.planned_data if node.name not in self.away]


class Stopping(IntEnum):
    """Whether a server is about to stop."""

    NO = 0
    FOR_GOOD = 1
    """It should get no slots or clients, and hand over those that it has."""
    FOR_A_RESTART = 2
    """It should lead no slots, and keep its places until it is back."""


MOST_LOADS = 512
"""Most loads in one heartbeat. After one with so many, more are to come."""


class SlotCopies(msgspec.Struct, array_like=True, frozen=True):
    """What the leader of a slot says of its copies, under its leader epoch.

    ``ready``: learners that have everything; from now on the leader acknowledges nothing that they do not have.
    ``lost``: followers, and learners that were ready, which it does not reach, and without which it asks to go on.
    ``absent``: learners that have not come to copy the slot for some time.
    """

    slot: int
    leader_epoch: int
    ready: list[str]
    lost: list[str]
    absent: list[str] = []


class Heartbeat(Message, frozen=True, tag=61):
    """Data or session to meta leader: renew this server's lease. Reply: LeaseGranted, or LeaderIs.

    ``unsettled`` (data only): slots of table ``table_epoch`` that the server should hold but does not hold completely.
    ``copies``: of slots that it leads, where there is something to say. ``loads``: of slots that the server leads,
    those whose load has changed noticeably since it told this meta leader; at most 512, the others follow. ``term``:
    the highest one in which the sender has seen a leader. ``config_total`` (session only): the sum of the versions of
    the provided configuration that it has in the era of its view; 0 in either says nothing.
    """

    node: Node
    revision: int
    table_epoch: int
    unsettled: list[int]
    stopping: Stopping = Stopping.NO
    copies: list[SlotCopies] = msgspec.field(default_factory=list)
    loads: dict[int, SlotLoad] = msgspec.field(default_factory=dict)
    term: int = 0
    config_total: int = 0


class LeaseGranted(Message, frozen=True, tag=62):
    """Reply to Heartbeat: the lease is renewed for ``lease_seconds``.

    ``view`` is there if the server's revision is old. ``configs`` is the digest of the provided configuration.
    ``may_leave`` tells a stopping server that it has handed over everything, or that nothing would be taken over.
    ``settings`` is the version of the operator's live settings, 0 where there never were any; None: this leader is of
    a version that knows none. ``frozen``: an order lets no registration end unless its provider withdraws it; None:
    this leader knows no such order. ``heartbeat_seconds`` is the leader's interval of heartbeats, by which leases are
    reckoned at both ends; 0: this leader does not say it.
    """

    term: int
    lease_seconds: float
    view: View | None
    configs: int = 0
    may_leave: bool = False
    settings: int | None = None
    frozen: bool | None = None
    heartbeat_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0


class LeaderIs(Message, frozen=True, tag=63):
    """Meta to all connected processes, and reply to GetLeader and to requests that only the leader can carry out: the
    name and address of the leader (None: none is known). ``is_moved``: the address is not the one of the configuration.
    """

    term: int
    leader: str | None
    address: str | None
    is_moved: bool = False


MOST_BACK_SECONDS = 1_000_000_000
"""Some thirty years. Nobody keeps the places of a server for ever."""


class Leave(Message, frozen=True, tag=64):
    """Data or session to meta leader: this server stops now. Keep its places for ``back_in_seconds`` (0: it does not
    come back). Reply: Done, or LeaderIs."""

    node: Node
    reason: str
    back_in_seconds: Annotated[float, msgspec.Meta(ge=0, le=MOST_BACK_SECONDS)] = 0.0


class GetView(Message, frozen=True, tag=65):
    """Any process to meta: return the committed state in your view. Reply: View."""


class GetNewerView(Message, frozen=True, tag=75):
    """Session to data, data leader to data follower, and meta leader to data and session: return your view if its
    revision is greater than this one. Reply: View, or Done if it is not."""

    revision: int


class GetLeader(Message, frozen=True, tag=66):
    """Any process to meta: return the leader in your view. Reply: LeaderIs."""


NOT_SHOWN = -1
"""The version by which a session server says that it does not let a client watch a key. Clients of release 0.1 take it
for a key without a value."""


class ConfigEntry(msgspec.Struct, array_like=True, frozen=True):
    """One entry of the provided configuration. ``value`` is None if it was deleted or never written. ``version`` counts
    the writes and deletions; it is 0 if the key was never written. Where it is :data:`NOT_SHOWN`, ``value`` is the
    reason."""

    key: str
    value: bytes | None
    version: int


class PutConfig(Message, frozen=True, tag=70):
    """Any process to meta leader: store this entry (``value`` None: delete it). ``expected_version`` 0 means that there
    must be no value, None that any version may. Reply: Configs with the stored entry, Failed, or LeaderIs."""

    key: str
    value: bytes | None
    expected_version: int | None


class GetConfigs(Message, frozen=True, tag=71):
    """Any process to meta leader: return the entries whose key starts with ``prefix``. Reply: Configs, or LeaderIs."""

    prefix: str


class Configs(Message, frozen=True, tag=72):
    """Meta leader to session, session to watching clients, reply to PutConfig and GetConfigs: the newest entries."""

    entries: list[ConfigEntry]


MOST_KEYS = 10_000
"""Most keys of the provided configuration that one client may watch: a session server holds each whole, for each of
them. More in one message are refused before they are read."""


class WatchConfigs(Message, frozen=True, tag=73):
    """Client to session: send the newest entries of these keys from now on. The values are the versions that the client
    has (0: none)."""

    wants: Annotated[dict[str, int], msgspec.Meta(max_length=MOST_KEYS)]


class UnwatchConfig(Message, frozen=True, tag=74):
    """Client to session: stop sending entries of this key."""

    key: str


class LeaderChange(msgspec.Struct, array_like=True, frozen=True):
    """One change of leadership in the view of one meta server.

    ``at_ms`` is that server's wall clock, for people. ``leader`` is None if no leader was known from then on.
    ``least_margin_seconds`` is the shortest rest of the lease that was ever left while that server led; None if it did
    not lead.
    """

    at_ms: int
    leader: str | None
    term: int
    cause: str
    least_margin_seconds: float | None = None


class GetHistory(Message, frozen=True, tag=80):
    """Any process to meta: return the changes of leadership that you have seen. Reply: History."""


class History(Message, frozen=True, tag=81):
    """Reply to GetHistory: the newest changes of leadership that meta server ``node`` has seen since its start, oldest
    first."""

    node: str
    changes: list[LeaderChange]


class Resign(Message, frozen=True, tag=82):
    """Any process to meta leader: give up the lead, to the meta server ``to`` if one is named. Reply: Done once it has,
    LeaderIs, or Failed where that server cannot lead or the election cannot choose."""

    to: str = ""


class GetShadow(Message, frozen=True, tag=83):
    """Any process to meta: return the state of the shadow election. Reply: ShadowIs, or Failed if none runs."""


class ShadowIs(Message, frozen=True, tag=84):
    """Reply to GetShadow: the shadow election ``name`` compared with the one in use, in the view of one meta server
    since its start.

    ``agrees``: both have a leader now, or neither has. ``failure``: why the shadow election does not run; empty if it
    does. Times are in seconds.
    """

    name: str
    agrees: bool
    failure: str
    leader: str | None
    shadow_leader: str | None
    changes: int
    shadow_changes: int
    leaderless_seconds: float
    shadow_leaderless_seconds: float


class SwapElection(Message, frozen=True, tag=85):
    """Any process to meta leader: let the meta state go over to the election ``to``; with ``check_only``, only find
    out whether it could. The meta servers ``without`` are not asked: they are gone for good. Reply: Swapped, or
    LeaderIs, or Failed.
    """

    to: str
    check_only: bool = False
    without: tuple[str, ...] = ()


class Swapped(Message, frozen=True, tag=86):
    """Reply to SwapElection: the election ``to`` is in use, instead of ``came_from``; or could be, where ``generation``
    is 0.

    ``generation`` counts the swaps of the cluster. ``keys`` were copied. For ``seconds`` the meta state took no writes,
    as the old leader measured it.
    """

    came_from: str
    to: str
    generation: int
    keys: int
    seconds: float


class SwapStep(IntEnum):
    """What a meta server does for a swap."""

    TRY = 1
    """Find out whether it could run the election; change nothing."""
    START = 2
    """Run it beside the one in use."""
    COPY = 3
    """Leading there: copy the meta state into it."""
    GO_OVER = 4
    """Use it: the fence is written."""
    ABANDON = 5
    """Stop it: there will be no swap."""


class SwapOrder(Message, frozen=True, tag=87):
    """Meta leader to meta: take one step of a swap to the election ``to``.

    TRY: ``agreement`` is what the options must have in common with those of the leader. COPY: ``lineage`` names the
    cluster's meta state, ``term`` is the cluster's, ``digest`` that of the state which must be copied (empty: whatever
    there is now; a complete copy follows). COPY, GO_OVER: ``generation`` is the number of the swap. Reply: Done, or
    Failed.
    """

    step: SwapStep
    to: str
    generation: int = 0
    lineage: str = ""
    term: int = 0
    digest: str = ""
    agreement: str = ""


class GetElection(Message, frozen=True, tag=88):
    """Any process to meta: return which election the meta server uses. Reply: ElectionIs."""


class ElectionIs(Message, frozen=True, tag=89):
    """Reply to GetElection: the election in use, and the one that the configuration names.

    ``generation`` is the number of the last swap. ``members`` are the addresses of the meta servers by name, as this
    one knows them; empty in the reply of an older version.
    """

    node: str
    use: str
    configured: str
    generation: int
    leader: str | None
    term: int
    members: dict[str, str] = msgspec.field(default_factory=dict)


class MemberIs(msgspec.Struct, array_like=True, frozen=True):
    """A data or session server in the view of the meta leader.

    ``heard_seconds``: since its last heartbeat. ``doubt``: why its lease ends soon ("connection lost"); empty if it
    does not. ``unsettled``: slots that it should lead or follow and does not hold completely yet, as it last reported.
    """

    node: Node
    revision: int
    heard_seconds: float
    doubt: str = ""
    stopping: Stopping = Stopping.NO
    is_banned: bool = False
    unsettled: list[int] = msgspec.field(default_factory=list)


class MemberLeft(msgspec.Struct, array_like=True, frozen=True):
    """A server that is no member any more. ``at_ms`` is the wall clock of the meta leader, for people. ``said_so``: it
    left by its own word. ``comes_back``: and said that it comes back."""

    node: Node
    at_ms: int
    reason: str
    said_so: bool = False
    comes_back: bool = False


class GetMembers(Message, frozen=True, tag=90):
    """Any process to meta leader: return how each data and session server is. ``term``, ``revision``: of the view that
    the asker has; 0: none. Reply: Members, or LeaderIs."""

    term: int = 0
    revision: int = 0


class Members(Message, frozen=True, tag=91):
    """Reply to GetMembers: the data and session servers, those that left since this server leads (the newest ones,
    oldest first), and the committed view.

    ``busiest``: loads of the slots that take the most writes, as far as data servers have told them.

    ``is_protected``: the slot table stays as it is, because fewer than ``meta.protect_below`` data servers live.
    ``is_planning``: a change of the table is being computed or committed. ``heartbeat_seconds``: how often each of them
    should be heard. ``has_table``: False where the asker has this view: then its table is left out. ``plan_fault``: why
    the table may stay as it is although it should change, in words; empty: nothing is wrong.
    """

    at_ms: int
    members: list[MemberIs]
    left: list[MemberLeft]
    view: View
    is_protected: bool = False
    is_planning: bool = False
    heartbeat_seconds: float = 1.0
    busiest: dict[int, SlotLoad] = msgspec.field(default_factory=dict)
    has_table: bool = True
    plan_fault: str = ""
