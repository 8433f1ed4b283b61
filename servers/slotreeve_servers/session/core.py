"""The core of a session server: it holds the clients, brings their records to the slot leaders, and pushes to their
subscriptions.

It knows peers, time and messages, and acts through its outbox; :mod:`slotreeve_servers.session.server` is its shell.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from slotreeve.errors import LimitReached
from slotreeve.model.nodes import Node, Role
from slotreeve.ports import Message, SlotFunction
from slotreeve_events.history import ServerHistory
from slotreeve_events.log import EventLog
from slotreeve_protocol.client_messages import (
    Get,
    GivenUp,
    ListServices,
    Moved,
    Pong,
    Publish,
    PushesReceived,
    ReplayEnded,
    Subscribe,
    Unsubscribe,
    Withdraw,
)
from slotreeve_protocol.delay_messages import GetDelays
from slotreeve_protocol.general_messages import Ping
from slotreeve_protocol.lease_messages import EndLeases, RegisterLeases, RenewLeases
from slotreeve_protocol.meta_messages import (
    ConfigEntry,
    Configs,
    GetConfigs,
    LeaseGranted,
    UnwatchConfig,
    View,
    WatchConfigs,
)
from slotreeve_protocol.people_messages import LATE_SECONDS, GetClients, GetSubscribers, GetUses

from slotreeve_servers.node.dispatch import Handlers
from slotreeve_servers.node.membership import Holdings, Membership
from slotreeve_servers.node.newer_view import NewerView
from slotreeve_servers.node.outbox import Outbox, Peer, Request
from slotreeve_servers.session.clients.arrivals import Arrivals
from slotreeve_servers.session.clients.audience import Audience
from slotreeve_servers.session.clients.clients import ConnectedClient, redirect
from slotreeve_servers.session.clients.configuration import ConfigMirror
from slotreeve_servers.session.clients.frozen_clients import FrozenClients
from slotreeve_servers.session.clients.isolation import LOOK_SECONDS, Isolation
from slotreeve_servers.session.clients.leases import ClientLeases
from slotreeve_servers.session.clients.limits import ClientLimits
from slotreeve_servers.session.clients.namesakes import Namesakes
from slotreeve_servers.session.clients.orders import OrdersInForce
from slotreeve_servers.session.clients.places import Places
from slotreeve_servers.session.clients.session_list import SessionList
from slotreeve_servers.session.push.delays import SessionDelays
from slotreeve_servers.session.push.due_pushes import DuePushes
from slotreeve_servers.session.push.due_wants import DueWants
from slotreeve_servers.session.push.interests import Interests
from slotreeve_servers.session.push.push import PushRules
from slotreeve_servers.session.push.push_delays import LOOK_SECONDS as DELAYS_SECONDS
from slotreeve_servers.session.records.leaders import SlotLeaders
from slotreeve_servers.session.records.lease_requests import LeaseRequests, weight_of
from slotreeve_servers.session.records.listings import MOST_OPEN_LISTS, Listings
from slotreeve_servers.session.records.lookups import Lookups
from slotreeve_servers.session.records.reads import Reads
from slotreeve_servers.session.records.registrations import Registrations
from slotreeve_servers.session.records.routes import Routes
from slotreeve_servers.session.records.writes import Writes
from slotreeve_servers.session.settings import SessionSettings

log = logging.getLogger("slotreeve.session")

CONFIG_TIMEOUT_SECONDS = 2.0
COMPACT_SECONDS = 10.0
SCAN_PAUSE_SECONDS = 0.005
LEAVING_AT_ONCE = 128
"""A server that stops sends so many clients away at a time: more than another server lets in at once, so that it has no
pause, and not all, because each has two connections until its turn comes there."""


class SessionCore:
    """One session server's state.

    Args:
        heartbeat_seconds: interval of the heartbeats to the meta leader.
        events: the event log, where one is written. ``history``: what this server keeps of the past, if it does.

    Attributes:
        clients: the connected clients by peer.
        registrations: what they published.
        delays: how long changes take here, and whom they have not reached.
        objective: how soon they should be pushed.
        isolation: whether this server reaches the leaders of the slots.
    """

    def __init__(
        self,
        outbox: Outbox,
        node: Node,
        rules: SessionSettings,
        heartbeat_seconds: float,
        slot_function: SlotFunction,
        events: EventLog | None = None,
        history: ServerHistory | None = None,
    ) -> None:
        self._history = history
        self._outbox, self._node, self._rules = outbox, node, rules
        self.membership = Membership(outbox, node, heartbeat_seconds, self)
        self.membership.handlers.messages[Configs] = self._on_configs
        self._orders = OrdersInForce(node.name)
        self.routes = Routes()
        self.writes = Writes(outbox, self.routes)
        self._limits = ClientLimits(rules)
        self._configs = ConfigMirror(outbox, self._limits)
        self.registrations = Registrations(outbox, node.process_id, slot_function, self.writes, self._limits, events)
        self._due_pushes = DuePushes(outbox, self._orders)
        pushes = self._pushes = PushRules(outbox, rules, node.zone, self._orders, events, history, self._due_pushes)
        self.interests = Interests(self.routes, pushes)
        self._wants = DueWants(
            outbox, self.interests.subscribe, self.interests.unsubscribe, self.registrations.slot, self._limits
        )
        self._sessions = SessionList(outbox)
        self._arrivals = Arrivals(outbox, self.routes, rules, self._sessions.send_to)
        newer_view = NewerView(outbox, self.membership)
        self.leaders = SlotLeaders(
            outbox, self.routes, self.writes, self.interests, self.registrations, self._arrivals, newer_view
        )
        self._lookups, self._lists = Lookups(outbox), Lookups(outbox, MOST_OPEN_LISTS)
        self._reads = Reads(outbox, self.routes, self._lookups, self.registrations.slot)
        self._listings = Listings(outbox, self.routes, slot_function, self._lists)
        self.clients: dict[Peer, ConnectedClient] = {}
        self._lease_requests = LeaseRequests(outbox, self.routes, self.registrations.slot, self.clients)
        self._namesakes = Namesakes()
        self._leases = ClientLeases(rules.client_lease_seconds)
        self._frozen = FrozenClients(outbox, self._leases, self.clients)
        self.isolation = Isolation(outbox, self.routes, self.membership, newer_view, self.clients, node.process_id)
        self._stops = False
        self._leaving = Places(outbox, LEAVING_AT_ONCE, self._send_away)
        self._compacted_at = outbox.now()
        self._to_scan: deque[int] = deque()
        self.objective = pushes.delays.objective
        self.delays = SessionDelays(outbox, self.writes, self.interests, pushes.delays, self.registrations.slot)
        audience = Audience(outbox, self.clients, self.interests)
        self.handlers = Handlers(
            {
                Publish: self._on_publish,
                Withdraw: self._on_leaving,
                Moved: self._on_leaving,
                GivenUp: self._on_leaving,
                ReplayEnded: self._on_replay_ended,
                Subscribe: self._on_want,
                Unsubscribe: self._on_want,
                PushesReceived: self._on_receipts,
                WatchConfigs: self._on_watch,
                UnwatchConfig: self._on_unwatch,
            },
            {
                Ping: self._on_ping,
                GetClients: audience.on_get_clients,
                GetSubscribers: audience.on_get_subscribers,
                GetUses: audience.on_get_uses,
                GetDelays: self.delays.answer,
            },
            {
                Get: self._limited(self._reads.get),
                ListServices: self._limited(self._listings.answer),
                **dict.fromkeys(
                    (RegisterLeases, RenewLeases, EndLeases), self._limited(self._lease_requests.answer, weight_of)
                ),
            },
        )

    def _limited(
        self, answer: Callable[[Peer, Any, Request], None], weight: Callable[[Any], int] = lambda message: 1
    ) -> Callable[[Peer, Any, Request], None]:
        """The same for clients that do not ask too often. ``weight``: as many requests as one counts for."""

        def limited(peer: Peer, message: Message, request: Request) -> None:
            client = self.clients.get(peer)
            if client is not None:
                self._limits.check_request(client, self._outbox.attended(), weight(message))
            answer(peer, message, request)

        return limited

    def start(self) -> None:
        """Begin the upkeep."""
        self._outbox.repeat("client leases", sweep_seconds(self._rules), self._sweep)
        self._outbox.repeat("version scan", self._rules.scan_seconds, self._scan)
        self._outbox.repeat("delays", DELAYS_SECONDS, self.delays.look)
        self._outbox.repeat("reach of the leaders", LOOK_SECONDS, self.isolation.look)

    def rules_changed(self, rules: SessionSettings) -> None:
        """The operator has changed the rules."""
        self._rules = self._pushes.settings = self._limits.rules = rules

    # --- a client comes and goes -------------------------------------------------------------------------------------

    def opened(self, peer: Peer) -> None:
        """A client is connected; or a tool, which only asks, and may do so while this server takes no clients."""
        if peer.role is Role.TOOL:
            return
        reason = self.why_closed
        client = ConnectedClient(peer, self._outbox.attended())
        if reason:
            self._arrivals.turned_away(client, self._leases.left(client, self._rules.linger_seconds))
            self._outbox.close(peer, reason)
            return
        namesake = self._namesakes.opened(client)
        if namesake is not None:
            self._refuse_namesake(client, namesake)
            return
        try:
            self._limits.opened(client)
        except LimitReached as error:
            self._namesakes.closed(client)
            self._outbox.close(peer, str(error))
            return
        self.clients[peer] = client
        client.is_off = self._orders.is_off(peer)
        self._leases.came(client, self._outbox.attended())
        self._arrivals.opened(client)
        if self._history is not None:
            event = self._history.note("client_joined")
            event.member, event.address = peer.node, peer.address

    def _refuse_namesake(self, client: ConnectedClient, namesake: ConnectedClient) -> None:
        reason = f"another client, at {namesake.peer.address}, has the id {client.peer.node!r}"
        log.error("ALARM: the client at %s is refused: %s; each needs an id of its own", client.peer.address, reason)
        self._outbox.close(client.peer, f"{reason}; this one needs an id of its own")

    def _on_ping(self, peer: Peer, message: Ping) -> Pong:
        client = self.clients.get(peer)
        if client is None:
            return Pong(0.0)
        client.late_seconds = max(0.0, message.late_seconds)  # also where it is no number
        peer.pause_seconds = max(0.0, message.pause_seconds)
        waiting = self._arrivals.waiting + self._leaving.waiting
        return Pong(self._leases.ask(client, len(self.clients), waiting, self._outbox.attended()))

    def closed(self, peer: Peer, reason: str) -> None:
        """A client's connection has ended, and its subscriptions end. This server vouches for its records for a while
        yet; then the slot leaders decide when they end."""
        client = self.clients.pop(peer, None)
        if client is None:
            return
        self._note_end(client, reason)
        self._namesakes.closed(client)
        self._limits.closed(client)
        seconds = self._leases.left(client, self._rules.linger_seconds)
        self._arrivals.lost(client, seconds)
        self._leaving.leave(client)
        self._configs.unwatch(client, client.configs)
        self._wants.forget(client)
        self.interests.forget(client)
        if client.records:
            self.registrations.linger(client)
            self._outbox.after(seconds, partial(self.registrations.lost, client))

    def _note_end(self, client: ConnectedClient, reason: str) -> None:
        if self._history is None:
            return
        had = f"; it had {len(client.records)} registrations here" if client.records else ""
        event = self._history.note("client_left", f"{reason}{had}")
        event.member, event.address = client.peer.node, client.peer.address

    def _on_leaving(self, peer: Peer, message: Withdraw | Moved | GivenUp) -> None:
        client = self.clients.get(peer)
        if client is None:
            return
        if isinstance(message, GivenUp):
            client.has_given_up = True
        elif isinstance(message, Moved):
            self.registrations.moved(client)
        else:
            self.registrations.said_goodbye(client)

    def _on_replay_ended(self, peer: Peer, message: ReplayEnded) -> None:
        if (client := self.clients.get(peer)) is not None:
            self._arrivals.ended(client)
            self.registrations.sent_again(client, message.incarnation)

    def _sweep(self) -> float | None:
        """End what frozen clients have here; forget old tombstones and further copies."""
        self._frozen.look()
        now = self._outbox.now()
        if now - self._compacted_at > COMPACT_SECONDS:
            self._compacted_at = now
            self.registrations.compact()
        return None

    # --- a client publishes ------------------------------------------------------------------------------------------

    def _on_publish(self, peer: Peer, message: Publish) -> None:
        if (client := self.clients.get(peer)) is not None:
            self.registrations.publish(client, message)

    # --- a client subscribes -----------------------------------------------------------------------------------------

    def _on_want(self, peer: Peer, message: Subscribe | Unsubscribe) -> None:
        if (client := self.clients.get(peer)) is not None:
            self._wants.add(client, message)

    def _on_receipts(self, peer: Peer, message: PushesReceived) -> None:
        if (client := self.clients.get(peer)) is not None:
            kept_seconds = message.kept_seconds
            for receipt in message.receipts:
                self.interests.acknowledged(client, receipt, kept_seconds)
                kept_seconds = None  # it is known of the first one only

    def _scan(self) -> float | None:
        """Declare the versions of all watched services again, one slot a turn: their leaders send what is newer
        (original: ``DefaultDataVersionScan``). It finds nothing unless something was lost."""
        if not self._to_scan:
            self._to_scan.extend(self.interests.slots)
        if self._to_scan:
            self.interests.declare_slots((self._to_scan.popleft(),))
        return SCAN_PAUSE_SECONDS if self._to_scan else None

    # --- the cluster changes -----------------------------------------------------------------------------------------

    def view_changed(self, old: View, view: View) -> None:
        """Follow the newer table; tell the clients of new session servers, and of another era."""
        if view.is_of_another_era(old):
            self._configs.begin_anew()
        if view.is_counted_anew(old):
            self._begin_anew()
        self._outbox.keep_links(view.data)
        self.leaders.table_changed(view.table)
        # The first list that a client gets lets it in: those that wait get the newest one when their turn comes.
        inside = [peer for peer, client in self.clients.items() if not self._arrivals.is_waiting(client)]
        self._sessions.changed(view.sessions, view.era, inside)

    def _begin_anew(self) -> None:
        """The versions of the services here, and of their subscribers, are no measure of those that come: all clients
        connect again, and learn of the era before they subscribe."""
        log.warning("leader epochs and versions are counted anew; %d clients connect again", len(self.clients))
        self.routes.begin_anew()
        self.interests.begin_anew()
        for client in list(self.clients.values()):
            self._outbox.close(client.peer, "versions are counted anew; connect again")

    def holdings(self) -> Holdings:
        """A session server holds no slot."""
        return Holdings(config_total=self._configs.total)

    def redirect_clients(self) -> None:
        """This server stops: take no new clients from now on, and send the present ones to the other session
        servers, the next ones when others have left. No order of the operator ends that."""
        if not self._is_closed:
            self._send_all_away()
        self._stops = True

    def _send_all_away(self) -> None:
        for client in self.clients.values():
            self._leaving.come(client)

    @property
    def _is_closed(self) -> bool:
        return self._stops or self._orders.is_banned

    def _send_away(self, client: ConnectedClient) -> None:
        self._outbox.send(client.peer, redirect(self.membership.view, self._node.process_id))

    @property
    def why_closed(self) -> str:
        """Why this server takes no new clients: it stops, the operator banned it, or it has only begun; else empty."""
        if self._stops:
            return "this session server stops"
        if self._orders.is_banned:
            return "this session server is banned"
        return "" if self.routes.slots else "this session server has no slot table yet"

    # --- provided configuration, and the operator's orders in it ---------------------------------------------------

    def _on_watch(self, peer: Peer, message: WatchConfigs) -> None:
        if (client := self.clients.get(peer)) is not None:
            self._configs.watch(client, message.wants)

    def _on_unwatch(self, peer: Peer, message: UnwatchConfig) -> None:
        if (client := self.clients.get(peer)) is not None:
            self._configs.unwatch(client, (message.key,))

    def _on_configs(self, peer: Peer, message: Configs) -> None:
        self._follow_orders(self._configs.apply(message.entries))

    def lease_granted(self, leader: Peer, granted: LeaseGranted) -> None:
        """Each answer to a heartbeat carries a digest of the configuration: fetch it where something was missed."""
        if self._configs.agrees(granted.configs):
            return
        era = self.membership.view.era

        def answered(reply: Message | None, error: Exception | None) -> None:
            if isinstance(reply, Configs) and era == self.membership.view.era:
                self._follow_orders(self._configs.load(reply.entries))
            elif error is not None:
                text = "the provided configuration, and the orders in it, cannot be read from %s: %s"
                leader.complain(log, text, leader, error)

        self._outbox.ask(leader, GetConfigs(""), answered, CONFIG_TIMEOUT_SECONDS)

    def _follow_orders(self, newer: Iterable[ConfigEntry]) -> None:
        was_closed = self._is_closed
        changed = [entry for entry in newer if self._orders.take(entry)]
        if not changed:
            return
        log.warning("new orders of the operator: %s", self._orders.orders)
        if was_closed and not self._is_closed:
            self._leaving.clear()
        elif self._is_closed and not was_closed:
            self._send_all_away()
        for client in list(self.clients.values()):
            is_off = self._orders.is_off(client.peer)
            if is_off and not client.is_off:
                self.registrations.said_goodbye(client)
            elif client.is_off and not is_off:
                self._outbox.close(client.peer, "it may publish again; it replays over its next connection")
            client.is_off = is_off
        self._due_pushes.orders_changed()

    # --- for people --------------------------------------------------------------------------------------------------

    def counters(self) -> dict[str, int]:
        """What this server did since its start, and what it holds. Gaps and retries are 0 in a quiet cluster."""
        return {
            "clients": len(self.clients),
            "services_watched": len(self.interests.services),
            "clients_waiting": self._arrivals.waiting,
            "clients_behind": self._due_pushes.crowded,
            "clients_late": sum(client.late_seconds >= LATE_SECONDS for client in self.clients.values()),
            "clients_refused": self._namesakes.found,
            "limits_hit": self._limits.hit,
            "lookups_shed": self._lookups.shed + self._lists.shed,
            "clients_sent_away": self.isolation.sent_away,
            "publishes": self.registrations.published,
            "pushes": self._due_pushes.sent,
            "writes_waiting": self.writes.waiting + self.writes.departing,
            "write_retries": self.writes.retries,
            "change_gaps": self.interests.gaps,
            **self.delays.counters(),
        }


def sweep_seconds(rules: SessionSettings) -> float:
    """How often a session server looks for frozen clients."""
    return min(0.25, rules.client_lease_seconds / 8)
