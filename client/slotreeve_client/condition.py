"""How a cluster is: every server with its state, who has left and why, and in sentences what is not as it should be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from msgspec.structs import replace
from slotreeve.errors import SlotreeveError, Unreachable
from slotreeve.model.nodes import Node
from slotreeve.ports import Transport
from slotreeve_protocol.meta_messages import (
    ElectionIs,
    GetElection,
    GetHistory,
    GetMembers,
    History,
    MemberIs,
    MemberLeft,
    Members,
    Stopping,
    View,
)
from slotreeve_protocol.orders import ORDERS_KEY, Orders

from slotreeve_client.administration import ask_any, cluster_view, counters, get_configs
from slotreeve_client.delays import AllDelays, burning_sentences, delays_of

SILENT_HEARTBEATS = 2.5
"""A server that was not heard for so many intervals of its heartbeats is named."""
RECENT_SECONDS = 3_600.0
"""A server that left so long ago is still named."""
MOST_NAMED = 5


@dataclass(frozen=True)
class MetaSeen:
    """A meta server, as it replied. ``problem``: why it did not; ``cause``: why it knows no leader; or empty."""

    name: str
    address: str
    known: ElectionIs | None = None
    problem: str = ""
    cause: str = ""

    @property
    def state(self) -> str:
        """``leads``, ``follows``, ``knows no leader`` or ``does not answer``."""
        if self.known is None:
            return "does not answer"
        if self.known.leader is None:
            return "knows no leader"
        return "leads" if self.known.leader == self.name else "follows"


@dataclass(frozen=True)
class ClusterCondition:
    """A cluster at one moment.

    Attributes:
        metas: the meta servers.
        members: what the meta leader says of the others; None while none leads, or one of an older version.
        view: the committed view; None if no meta server answers that.
        held: counters of each member that answers, by name.
        held_at: when each of them answered, on the clock of whoever asks.
        orders: the operator's standing orders; None if the leader does not tell.
        delays: how long changes take, where a session server says that it misses its objective; else None.
    """

    metas: Sequence[MetaSeen]
    members: Members | None = None
    view: View | None = None
    held: dict[str, dict[str, int]] = field(default_factory=dict)
    orders: Orders | None = None
    held_at: dict[str, float] = field(default_factory=dict)
    delays: AllDelays | None = None

    @property
    def leader(self) -> MetaSeen | None:
        """The meta server that leads, as it says itself."""
        return next((meta for meta in self.metas if meta.state == "leads"), None)

    def states(self) -> dict[str, str]:
        """The state of each data and session server in some words, by name; ``well`` where there is nothing to say."""
        if self.members is not None:
            return {member.node.name: self._state(member) for member in self.members.members}
        return {node.name: "unknown: no meta server leads" for node in self._nodes()}

    def _nodes(self) -> list[Node]:
        return [] if self.view is None else [*self.view.data, *self.view.sessions]

    def _is_silent(self, member: MemberIs) -> bool:
        """Whether the meta leader has not heard it for some heartbeats."""
        return self.members is not None and member.heard_seconds > SILENT_HEARTBEATS * self.members.heartbeat_seconds

    def _state(self, member: MemberIs) -> str:
        words = []
        if member.stopping is not Stopping.NO:
            words.append("draining" if member.stopping is Stopping.FOR_GOOD else "restarting")
        if member.is_banned:
            words.append("banned")
        if member.doubt:
            words.append(member.doubt)
        elif self._is_silent(member):
            words.append(f"silent for {member.heard_seconds:.1f} s")
        if member.unsettled:
            words.append(f"copying {_count(len(member.unsettled), 'slot')}")
        if member.node.name not in self.held:
            words.append("does not answer")
        return ", ".join(words) or "well"

    def problems(self) -> list[str]:
        """What is not as it should be, in sentences, the worst first; empty in a quiet cluster."""
        found = [*self._of_meta_servers(), *self._of_slots()]
        found += [f"{name} is not well: {state}." for name, state in self.states().items() if state != "well"]
        for name, held in self.held.items():
            if behind := held.get("clients_behind", 0):
                found.append(f"{_count(behind, 'client')} of {name} read more slowly than their services change.")
            if late := held.get("clients_late", 0):
                found.append(f"{_count(late, 'client')} of {name} run their callbacks late: slotreeve clients.")
        if self.delays is not None:
            found += burning_sentences(self.delays)
        if self.orders is not None and self.orders.push_stopped:
            found.append("Pushing is stopped by an order; slotreeve admin start-push undoes it.")
        if self.orders is not None and self.orders.ends_frozen:
            found.append("Ends of registrations are frozen by an order; slotreeve admin thaw undoes it.")
        if self.orders is not None and self.orders.clients_off:
            found.append(f"{_count(len(self.orders.clients_off), 'client')} hidden by an order: slotreeve admin show.")
        return [*found, *(_said(left) for left in self._departures() if self._is_missed(left))]

    def _of_meta_servers(self) -> list[str]:
        found = []
        if self.leader is None:
            found.append("No meta server leads: slots, members and configuration stay as they are until one does.")
        elif self.members is None:
            found.append(f"{self.leader.name} leads and does not tell of its members; it may have an older version.")
        for meta in self.metas:
            if meta.known is None:
                found.append(f"{meta.name} at {meta.address} does not answer: {meta.problem}.")
            elif meta.known.leader is None:
                found.append(f"{meta.name} knows no leader{meta.cause and ': '}{meta.cause}.")
        return found

    def _of_slots(self) -> list[str]:
        if self.view is None:
            return ["No meta server tells the slot table."]
        without = [slot.id for slot in self.view.table.slots if slot.leader is None]
        found = []
        if without:
            found.append(f"{_have(len(without))} no leader: {_some(without)}.")
        names = {node.name for node in self.view.data}
        gone = [slot.id for slot in self.view.table.slots if slot.leader is not None and slot.leader not in names]
        if gone:
            found.append(f"{_have(len(gone))} a leader that is gone: {_some(gone)}.")
        if not self.view.table.slots:
            found.append("There is no slot table yet: it is made once data servers have joined.")
        members = self.members.members if self.members is not None else ()
        silent = {one.node.name for one in members if self._is_silent(one) and one.node.name not in self.held}
        led = [slot.id for slot in self.view.table.slots if slot.leader in silent]
        if led:
            found.append(f"{_have(len(led))} a leader that is silent, so nobody reads or writes there: {_some(led)}.")
        if self.members is not None and self.members.is_protected:
            found.append("The slot table stays as it is: fewer data servers live than meta.protect_below says.")
        if self.members is not None and self.members.plan_fault:
            found.append(f"The slot table may stay as it is: {self.members.plan_fault}.")
        return found

    def news(self) -> list[str]:
        """Who left in the last hour and why, in sentences, the newest first, without those that are problems."""
        return [_said(left) for left in self._departures() if not self._is_missed(left)]

    def _departures(self) -> list[MemberLeft]:
        if self.members is None:
            return []
        since = self.members.at_ms - 1000 * RECENT_SECONDS
        return [left for left in reversed(self.members.left) if left.at_ms >= since][:MOST_NAMED]

    def _is_missed(self, left: MemberLeft) -> bool:
        """Whether a server left without a word or said that it comes back, and none has its name."""
        return (left.comes_back or not left.said_so) and left.node.name not in {node.name for node in self._nodes()}


async def cluster_condition(
    transport: Transport,
    cluster: str,
    addresses: Iterable[str],
    now: Callable[[], float] = lambda: 0.0,
    before: View | None = None,
) -> ClusterCondition:
    """Ask every server, all at once. ``now`` tells when they answered, in seconds. ``before``: the view that the caller
    has; where it is the newest one, the table does not travel again, and this view is in the result.

    Raises:
        Unreachable: no meta server answers at all.
    """
    known = list(addresses)
    metas = await meta_servers(transport, cluster, known)
    leader = next((meta for meta in metas if meta.state == "leads"), None)
    answering = [meta.address for meta in metas if meta.known is not None] or known
    members = None if leader is None else await _members(transport, cluster, leader.address, before)
    view = members.view if members is not None else await _view(transport, cluster, answering, metas)
    nodes = [] if view is None else [*view.data, *view.sessions]
    held_at: dict[str, float] = {}

    async def counters_of(node: Node) -> dict[str, int] | None:
        found = await _counters(transport, cluster, node)
        held_at[node.name] = now()
        return found

    asked = await asyncio.gather(*map(counters_of, nodes))
    held = {node.name: found for node, found in zip(nodes, asked, strict=True) if found is not None}
    orders = None
    if leader is not None:
        orders = await _orders(transport, cluster, leader.address)
    delays = None
    if any(found.get("objective_burning") for found in held.values()):
        delays = await delays_of(transport, cluster, nodes)
    return ClusterCondition(metas, members, view, held, orders, held_at, delays)


async def _view(transport: Transport, cluster: str, answering: Sequence[str], metas: Sequence[MetaSeen]) -> View | None:
    """The committed view; None where meta servers answer, and none of them knows it. Raises as :func:`cluster_view`."""
    try:
        return await cluster_view(transport, cluster, answering)
    except Unreachable:
        if all(meta.known is None for meta in metas):
            raise
        return None


async def meta_servers(transport: Transport, cluster: str, addresses: Sequence[str]) -> list[MetaSeen]:
    """All meta servers that the cluster has, found through those of ``addresses`` that answer. One that does not answer
    is there with its problem."""
    asked = await asyncio.gather(*(_meta_server(transport, cluster, address, address) for address in addresses))
    answers = [meta.known for meta in asked if meta.known is not None]
    newest = max(answers, key=lambda known: (known.term, known.node == known.leader), default=None)
    if newest is None or not newest.members:
        return asked
    named = sorted(newest.members.items())
    return await asyncio.gather(*(_meta_server(transport, cluster, address, name) for name, address in named))


async def _meta_server(transport: Transport, cluster: str, address: str, name: str) -> MetaSeen:
    try:
        reply = await ask_any(transport, cluster, [address], GetElection())
    except SlotreeveError as error:
        return MetaSeen(name, address, problem=str(error).rpartition(f"{address}: ")[2])
    if not isinstance(reply, ElectionIs):
        return MetaSeen(name, address, problem=f"it answers with a {type(reply).__name__}")
    cause = await _cause(transport, cluster, address) if reply.leader is None else ""
    return MetaSeen(reply.node, address, reply, cause=cause)


async def _cause(transport: Transport, cluster: str, address: str) -> str:
    """Why the meta server at this address knows no leader, as it noted when it lost the last one."""
    try:
        reply = await ask_any(transport, cluster, [address], GetHistory())
    except SlotreeveError:
        return ""
    if not isinstance(reply, History) or not reply.changes:
        return ""
    last = reply.changes[-1]
    when = datetime.fromtimestamp(last.at_ms / 1000, UTC).strftime("%H:%M:%S")
    return f"{last.cause}, since {when} UTC"


async def _members(transport: Transport, cluster: str, leader: str, before: View | None) -> Members | None:
    asked = GetMembers() if before is None else GetMembers(before.term, before.revision)
    try:
        reply = await ask_any(transport, cluster, [leader], asked)
    except SlotreeveError:
        return None
    if not isinstance(reply, Members):
        return None
    return reply if reply.has_table or before is None else replace(reply, view=before, has_table=True)


async def _counters(transport: Transport, cluster: str, node: Node) -> dict[str, int] | None:
    try:
        return await counters(transport, cluster, node.address)
    except SlotreeveError:
        return None


async def _orders(transport: Transport, cluster: str, leader: str) -> Orders | None:
    try:
        entries = await get_configs(transport, cluster, [leader], ORDERS_KEY)
    except SlotreeveError:
        return None
    return next((Orders.decode(entry.value) for entry in entries if entry.key == ORDERS_KEY), Orders())


def _said(left: MemberLeft) -> str:
    when = datetime.fromtimestamp(left.at_ms / 1000, UTC).strftime("%H:%M:%S")
    return f"{left.node.role} server {left.node.name} left at {when} UTC: {left.reason}."


def _have(slots: int) -> str:
    return f"{_count(slots, 'slot')} {'has' if slots == 1 else 'have'}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _some(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:MOST_NAMED]))
    return shown if len(numbers) <= MOST_NAMED else f"{shown} and {len(numbers) - MOST_NAMED} more"
