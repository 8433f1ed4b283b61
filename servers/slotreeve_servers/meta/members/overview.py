"""How each member is and who has left, for people. Pure: nothing is decided by it."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from msgspec.structs import replace
from slotreeve.model.nodes import Node
from slotreeve.model.slots import SlotTable
from slotreeve_protocol.meta_messages import GetMembers, MemberIs, MemberLeft, Members, Stopping, View

from slotreeve_servers.meta.arranging.loads import KnownLoads
from slotreeve_servers.meta.members.heartbeats import LastHeartbeats
from slotreeve_servers.meta.members.leases import Leases

REMEMBERED_DEPARTURES = 200
"""The newest servers that have left are remembered."""
MOST_BUSY_SLOTS = 10
"""Slots whose loads are told."""


class Planning(NamedTuple):
    """How the leader plans the slot table.

    Attributes:
        is_going_on: a change is being computed or committed.
        is_protected: the table stays as it is, because too few data servers live.
        fault: why it may stay although it should change; empty: nothing is wrong.
    """

    is_going_on: bool = False
    is_protected: bool = False
    fault: str = ""


class Overview:
    """What a meta leader knows of its members. ``leases``, ``heartbeats`` and ``loads`` are read only."""

    def __init__(self, leases: Leases, heartbeats: LastHeartbeats, loads: KnownLoads, heartbeat_seconds: float) -> None:
        self._leases, self._heartbeats, self._loads = leases, heartbeats, loads
        self._interval = heartbeat_seconds
        self._left: deque[MemberLeft] = deque(maxlen=REMEMBERED_DEPARTURES)

    def clear(self) -> None:
        """Forget who has left, as a new leader does: others may have come and gone meanwhile."""
        self._left.clear()

    def left(self, member: MemberLeft) -> None:
        """A server is no member any more."""
        self._left.append(member)

    def report(self, now: float, at_ms: int, view: View, banned: frozenset[str], planning: Planning) -> Members:
        """The members by name. ``now``: attended time, as leases have it; ``at_ms``: the wall clock."""
        members = [self._member(node, now, node.name in banned) for node in self._leases.nodes]
        busiest = self._loads.busiest(MOST_BUSY_SLOTS)
        return Members(
            at_ms,
            members,
            [*self._left],
            view,
            planning.is_protected,
            planning.is_going_on,
            self._interval,
            busiest,
            plan_fault=planning.fault,
        )

    def _member(self, node: Node, now: float, is_banned: bool) -> MemberIs:
        heard, doubt = self._leases.heard_seconds(node.name, now), self._leases.doubt(node.name)
        last = self._heartbeats.last(node.name)
        if last is None:
            return MemberIs(node, 0, heard, doubt, Stopping.NO, is_banned)
        return MemberIs(node, last.revision, heard, doubt, last.stopping, is_banned, last.unsettled)


def news_for(asked: GetMembers, found: Members) -> Members:
    """The answer, without a slot table that the asker has: whoever watches a cluster asks once a second, and the table
    of many slots seldom changes."""
    if (asked.term, asked.revision) != (found.view.term, found.view.revision):
        return found
    return replace(found, view=replace(found.view, table=SlotTable(found.view.table.epoch)), has_table=False)
