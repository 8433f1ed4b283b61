"""Messages between meta servers and everybody.

Rules for all messages: :mod:`slotreeve_protocol.general_messages`.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec
from slotreeve.model.nodes import Node
from slotreeve.model.slots import SlotFacts, SlotTable
from slotreeve.ports import Message


class View(Message, frozen=True, tag=60):
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


class Stopping(IntEnum):
    """Whether a server is on its way out."""

    NO = 0
    FOR_GOOD = 1
    """It wants to hold nothing any more."""
    FOR_A_RESTART = 2
    """It wants to lead nothing any more, and to keep its places as follower until it is back."""


class Heartbeat(Message, frozen=True, tag=61):
    """Data or session to meta leader, ? Beat or LeaderIs: I live.

    ``unsettled`` (data only): slots of table ``table_epoch`` that I should lead or follow but do not yet hold
    completely.
    """

    node: Node
    revision: int
    table_epoch: int
    unsettled: list[int]
    stopping: Stopping = Stopping.NO


class LeaseGranted(Message, frozen=True, tag=62):
    """Reply: your lease is renewed for ``lease_seconds``; ``view`` where you lag behind; ``configs`` is the digest of
    the provided configuration; ``may_leave`` where a stopping server holds nothing that it should hand over."""

    term: int
    lease_seconds: float
    view: View | None
    configs: int = 0
    may_leave: bool = False


class LeaderIs(Message, frozen=True, tag=63):
    """Meta to all connected, and reply of a meta that does not lead: who does (None: nobody known)."""

    term: int
    leader: str | None
    address: str | None


class Leave(Message, frozen=True, tag=64):
    """Data or session to meta leader, ? Done or LeaderIs: I stop on purpose; keep my places for ``back_in_seconds``
    (0: I do not come back)."""

    node: Node
    reason: str
    back_in_seconds: float = 0.0


class GetView(Message, frozen=True, tag=65):
    """Anybody to meta, ? View: the committed state as you know it."""


class GetLeader(Message, frozen=True, tag=66):
    """Anybody to meta, ? LeaderIs."""


class ConfigEntry(msgspec.Struct, array_like=True, frozen=True):
    """One provided configuration. ``value`` None: there is none (any more); ``version`` goes on after a deletion, and
    is 0 where there never was one."""

    key: str
    value: bytes | None
    version: int


class PutConfig(Message, frozen=True, tag=70):
    """Anybody to meta, ? Configs (the one written), Failed or LeaderIs: store this. ``expected_version`` 0: there must
    be none yet; None: whatever is there."""

    key: str
    value: bytes | None
    expected_version: int | None


class GetConfigs(Message, frozen=True, tag=71):
    """Anybody to meta, ? Configs or LeaderIs: every provided configuration whose key starts so."""

    prefix: str


class Configs(Message, frozen=True, tag=72):
    """Reply; and meta leader to sessions, session to watching clients: these are the newest."""

    entries: list[ConfigEntry]


class WatchConfigs(Message, frozen=True, tag=73):
    """Client to session: tell me these keys' newest from now on; with the version I know (0: none)."""

    wants: dict[str, int]


class UnwatchConfig(Message, frozen=True, tag=74):
    """Client to session: no longer tell me this key's."""

    key: str


class LeaderChange(msgspec.Struct, array_like=True, frozen=True):
    """One change of leadership as one meta server saw it.

    ``at_ms``: by that server's wall clock, for people. ``leader`` None: from then on nobody was known to lead.
    ``least_margin_seconds``: where that server led itself, the least that was ever left of its lease; else None.
    """

    at_ms: int
    leader: str | None
    term: int
    cause: str
    least_margin_seconds: float | None = None


class GetHistory(Message, frozen=True, tag=80):
    """Anybody to meta, ? History."""


class History(Message, frozen=True, tag=81):
    """Reply: the newest changes of leadership that meta server ``node`` has seen since its start, oldest first."""

    node: str
    changes: list[LeaderChange]


class Resign(Message, frozen=True, tag=82):
    """Anybody to meta leader, ? Done (once it leads no more) or LeaderIs: let another meta server lead."""


class GetShadow(Message, frozen=True, tag=83):
    """Anybody to meta, ? ShadowIs, or Failed where no shadow election runs."""


class ShadowIs(Message, frozen=True, tag=84):
    """Reply: the shadow election ``name`` against the one in use, as one meta server saw both since its start.

    ``agrees``: both name a leader now, or neither. ``failure``: why the shadow takes no part; empty where it does.
    Times in seconds.
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
