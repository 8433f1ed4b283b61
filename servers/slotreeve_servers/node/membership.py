"""A data or session server's place in the cluster: heartbeats to the meta leader, views from it. Pure."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from slotreeve.clock import Timer
from slotreeve.model.loads import SlotLoad
from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import SlotTable
from slotreeve.ports import Message
from slotreeve_protocol.general_messages import Done, Failed
from slotreeve_protocol.live_settings import SETTINGS_KEY
from slotreeve_protocol.meta_messages import (
    Configs,
    GetConfigs,
    GetNewerView,
    Heartbeat,
    LeaderIs,
    LeaseGranted,
    SlotCopies,
    Stopping,
    View,
)

from slotreeve_servers.node.dispatch import Handlers
from slotreeve_servers.node.outbox import Outbox, Peer, TurnEnd

log = logging.getLogger("slotreeve.membership")

LEASE_HEARTBEATS = 3
"""A server to which so many heartbeats in a row brought no answer has no lease (``meta.lease_seconds`` is no less)."""
UNKNOWN_VERSION = -1
"""Of live settings that were counted in a former era."""
NO_VIEW = View(0, 0, SlotTable(), [], [])
"""What a server knows of the cluster before the first view."""


class Holdings(NamedTuple):
    """The slots of its table that a server does not hold completely, what it says of the copies of slots that it
    leads, and the sum of the versions of the provided configuration that it has."""

    unsettled: Sequence[int] = ()
    copies: Sequence[SlotCopies] = ()
    config_total: int = 0


class MembershipOwner(Protocol):
    """The core of the server whose membership this is."""

    def view_changed(self, old: View, view: View) -> None:
        """A newer view has arrived."""

    def holdings(self) -> Holdings:
        """What the next heartbeat says that the server holds."""

    def lease_granted(self, leader: Peer, granted: LeaseGranted) -> None:
        """The meta leader has answered a heartbeat."""


class LedTerm(NamedTuple):
    """A meta leader: its process, and the term in which it leads."""

    process_id: str
    term: int


class ToldLoads(Protocol):
    """The loads of the slots that a server leads."""

    def next_part(self, leader: LedTerm) -> dict[int, SlotLoad]:
        """What the next heartbeat to the meta leader tells."""

    def not_taken(self, part: Mapping[int, SlotLoad]) -> None:
        """The heartbeat with this part was not granted."""


class LiveSettingsTaker(Protocol):
    """Follows the operator's live settings."""

    version: int

    def take(self, value: bytes | None, version: int) -> None:
        """The operator's table is this one."""


class MetaPlaces(Protocol):
    """Keeps the connections to the meta servers."""

    def found(self, name: str, moved_to: str | None) -> None:
        """A meta server is at this address; None: where the configuration has it."""


class Membership:
    """Sends heartbeats to the meta server that leads, and takes newer views only.

    Invariant: ``view.revision`` only rises, and a leader is followed only under a term that is not lower than the
    highest one seen (I3), unless it has committed a newer view.

    Attributes:
        view: the newest view of the cluster.
        granted_at: when the heartbeat was sent that was granted last; minus infinity before the first.
        may_leave: the leader has agreed that this server stops.
        refusal: why the leader does not count this process as a member; empty if it does, or was not asked.
        places: is given the address of each leader; set by the shell.
        loads: what heartbeats tell of loads; set by the core of a data server.
        settings: is given the operator's live settings; set by the shell.
    """

    def __init__(self, outbox: Outbox, node: Node, interval_seconds: float, member: MembershipOwner) -> None:
        self._outbox, self._node, self._interval, self._member = outbox, node, interval_seconds, member
        self._heartbeat = TurnEnd(outbox, self._send_heartbeats)
        self._timer: Timer | None = None
        self._meta_servers: dict[str, Peer] = {}
        self._leader: str | None = None
        self._term = 0
        self._stopping, self._has_left = Stopping.NO, False
        self.view = NO_VIEW
        self.granted_at = -float("inf")
        self.may_leave = False
        self.refusal = ""
        self.places: MetaPlaces | None = None
        self.loads: ToldLoads | None = None
        self.settings: LiveSettingsTaker | None = None
        self.handlers = Handlers(
            {View: self._on_view, LeaderIs: self._on_leader_is},
            {GetNewerView: lambda peer, message: self.newer_than(message.revision)},
        )

    @property
    def leader(self) -> Peer | None:
        """The meta leader, where it is known and connected."""
        return self._meta_servers.get(self._leader or "")

    @property
    def has_lease(self) -> bool:
        """Whether the meta leader has granted one of the last heartbeats."""
        return self._outbox.now() - self.granted_at < self.lease_seconds

    @property
    def lease_seconds(self) -> float:
        """For so long after a heartbeat that was granted this server :attr:`has_lease`, on its own clock."""
        return LEASE_HEARTBEATS * self._interval

    def start(self) -> None:
        """Send heartbeats from now on."""
        self._arm()

    def heartbeat_soon(self) -> None:
        """Send a heartbeat at the end of this turn: something in it has changed that the leader waits for."""
        self._heartbeat.soon()

    def leave(self) -> None:
        """Send no heartbeat any more: the leader is told that this server leaves, and one behind that would say that it
        stays."""
        self._has_left = True

    def announce_stop(self, stopping: Stopping) -> None:
        """Tell the leader, in every heartbeat from now on, that this server stops."""
        self._stopping = stopping
        self.heartbeat_soon()

    # --- connections to meta servers ---------------------------------------------------------------------------------

    def opened(self, peer: Peer) -> None:
        """A meta server is connected. Its answer to a heartbeat grants the lease or names the leader."""
        self._meta_servers[peer.node] = peer
        self.heartbeat_soon()

    def closed(self, peer: Peer, reason: str) -> None:
        """The connection to a meta server has ended."""
        if self._meta_servers.get(peer.node) is peer:
            del self._meta_servers[peer.node]
        if peer.node == self._leader:
            self._leader = None
            self.heartbeat_soon()

    def learn(self, view: View) -> None:
        """Take a view that another member has, where it is newer. A member that the meta leader does not hear goes on
        with the table that the others use. It does not follow another leader by it.

        A data server takes none that does not name it: it drops its copies by such a view. It takes that from the meta
        leader only, whose next table tells it what else is needed of them."""
        if view.revision <= self.view.revision or view.term < self._term:
            return
        if self._node.role is Role.SESSION or self._node.process_id in (node.process_id for node in view.data):
            self._take(view)

    def newer_than(self, revision: int) -> Message:
        """The view of this server where it is newer than that of ``revision``, else Done: the reply to GetNewerView."""
        return self.view if self.view.revision > revision else Done()

    def _on_view(self, peer: Peer, view: View) -> None:
        self._follow(view.term, peer.node)
        self._apply(peer, view)

    def _on_leader_is(self, peer: Peer, message: LeaderIs) -> None:
        if message.leader is None:
            return
        if self._follow(message.term, message.leader):
            self.heartbeat_soon()
        if self.places is not None and (message.term, message.leader) == (self._term, self._leader):
            self.places.found(message.leader, message.address if message.is_moved else None)

    def _follow(self, term: int, leader: str) -> bool:
        """Follow ``leader`` unless its term is lower than the highest one seen; True where the leader changed."""
        if term < self._term or (term == self._term and leader == self._leader):
            return False
        self._term, self._leader = term, leader
        return True

    def _apply(self, peer: Peer, view: View) -> None:
        if view.revision <= self.view.revision:
            return
        if view.term < self._term:
            # Whoever committed a newer view leads. Terms begin anew only where the election has lost its state.
            self._term, self._leader = view.term, peer.node
        self._take(view)

    def _take(self, view: View) -> None:
        old, self.view = self.view, view
        if self.settings is not None and view.is_of_another_era(old):
            self.settings.version = UNKNOWN_VERSION
        self._member.view_changed(old, view)
        self.heartbeat_soon()

    # --- heartbeats --------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._outbox.after(self._interval, self._send_heartbeats)

    def _send_heartbeats(self) -> None:
        """To the leader; where none is known, to every meta server that is connected."""
        if self._has_left:
            return
        self._arm()
        leader = self.leader
        for peer in [leader] if leader is not None else list(self._meta_servers.values()):
            self._send_heartbeat(peer)

    def _send_heartbeat(self, peer: Peer) -> None:
        sent_at = self._outbox.now()
        loads: dict[int, SlotLoad] = {}
        if self.loads is not None and peer.node == self._leader:
            loads = self.loads.next_part(LedTerm(peer.process_id, self._term))

        def answered(reply: Message | None, error: Exception | None) -> None:
            if loads and self.loads is not None and not isinstance(reply, LeaseGranted):
                self.loads.not_taken(loads)
            if isinstance(reply, LeaseGranted):
                self._on_granted(peer, reply, sent_at)
            elif isinstance(reply, LeaderIs):
                self._on_leader_is(peer, reply)
            elif isinstance(reply, Failed):
                self._on_refused(peer, reply.reason)
            elif error is not None and peer.node == self._leader:
                log.warning("no answer to a heartbeat from %s: %s", peer.node, error)
                self._leader = None

        view, held = self.view, self._member.holdings()
        told = list(held.unsettled), self._stopping, list(held.copies), loads, self._term, held.config_total
        heartbeat = Heartbeat(self._node, view.revision, view.table.epoch, *told)
        was_sent = self._outbox.ask(peer, heartbeat, answered, timeout_seconds=2 * self._interval)
        if loads and self.loads is not None and not was_sent:
            self.loads.not_taken(loads)

    def _on_refused(self, peer: Peer, reason: str) -> None:
        """The leader does not count this process as a member. It asks again with the next heartbeat."""
        if reason != self.refusal:
            log.error("ALARM: %s refuses this server: %s", peer.node, reason)
        self.refusal = reason

    def _on_granted(self, peer: Peer, granted: LeaseGranted, sent_at: float) -> None:
        self._follow(granted.term, peer.node)
        self.may_leave = granted.may_leave
        self.granted_at = sent_at
        if granted.heartbeat_seconds not in (0.0, self._interval):  # 0: a leader that does not say it
            self._interval = granted.heartbeat_seconds
            self._arm()
        self.refusal = ""
        if granted.view is not None:
            self._apply(peer, granted.view)
        if granted.settings is not None and self.settings is not None and granted.settings != self.settings.version:
            self._fetch_settings(peer, self.settings)
        self._member.lease_granted(peer, granted)

    def _fetch_settings(self, leader: Peer, settings: LiveSettingsTaker) -> None:
        """Read the operator's live settings, which are others than those that this server follows."""

        def answered(reply: Message | None, error: Exception | None) -> None:
            if isinstance(reply, Configs):
                entries = {entry.key: (entry.value, entry.version) for entry in reply.entries}
                settings.take(*entries.get(SETTINGS_KEY, (None, 0)))

        self._outbox.ask(leader, GetConfigs(SETTINGS_KEY), answered, timeout_seconds=2 * self._interval)
