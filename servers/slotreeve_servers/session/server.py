"""The session server: holds the clients, brings their records to the slots, pushes to subscribers."""

from __future__ import annotations

import asyncio
import logging

from slotreeve.errors import SlotreeveError, TransportError
from slotreeve.ports import Connection, Listener, Message
from slotreeve_protocol.client_messages import (
    Get,
    ListServices,
    Publish,
    PushesReceived,
    Redirect,
    Sessions,
    Subscribe,
    Unsubscribe,
    Withdraw,
)
from slotreeve_protocol.general_messages import Done, Ping
from slotreeve_protocol.meta_messages import (
    ConfigEntry,
    Configs,
    GetConfigs,
    LeaseGranted,
    Stopping,
    UnwatchConfig,
    View,
    WatchConfigs,
)
from slotreeve_protocol.slot_messages import Changed, Compare, Compared, Deliver

from slotreeve_servers.node.dispatch import Dispatcher
from slotreeve_servers.node.environment import Environment
from slotreeve_servers.node.links import Links
from slotreeve_servers.node.membership import NO_VIEW, Membership
from slotreeve_servers.node.supervisor import Supervisor
from slotreeve_servers.session.clients import ConnectedClient
from slotreeve_servers.session.configuration import ConfigMirror
from slotreeve_servers.session.interests import Interests
from slotreeve_servers.session.orders import OrdersInForce
from slotreeve_servers.session.reads import Reads
from slotreeve_servers.session.registrations import Registrations
from slotreeve_servers.session.routes import Routes
from slotreeve_servers.session.settings import SessionSettings
from slotreeve_servers.session.writes import Writes

log = logging.getLogger("slotreeve.session")

CONFIG_TIMEOUT_SECONDS = 2.0
COMPACT_SECONDS = 10.0
SCAN_PAUSE_SECONDS = 0.005


class SessionServer:
    """One session process. ``start`` listens and joins; ``stop`` leaves and ends the clients' connections."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._clock, self._rules = environment.clock, environment.settings.session
        self._process_id = environment.node.process_id
        self._supervisor = Supervisor(environment.clock)
        data = Dispatcher(
            {Changed: self._on_changed, Compare: self._on_compare, Deliver: self._on_deliver},
            self._data_opened,
            self._data_closed,
        )
        self._links = Links(environment.transport, self._clock, self._supervisor, environment.hello, data)
        self._routes = Routes(self._links)
        self._orders = OrdersInForce(environment.node.name)
        self.writes = Writes(self._routes, self._clock, self._rules.write_timeout_seconds)
        self._registrations = Registrations(
            self._process_id,
            environment.slot_function.slot_of,
            self.writes,
            self._clock,
            self._rules.max_pending_writes,
            environment.events,
        )
        self.interests = Interests(
            self._routes, self._clock, self._rules, environment.node.zone, self._orders.may_push, environment.events
        )
        self._reads = Reads(self._routes, self._clock)
        self._configs = ConfigMirror(self._config_changed)
        self.clients: dict[Connection, ConnectedClient] = {}
        self._sessions = Sessions([])
        self._closed_to_clients = ""
        self._listener: Listener | None = None
        self._membership: Membership | None = None
        self._dispatcher = Dispatcher(
            {
                Publish: self._on_publish,
                Subscribe: self._on_subscribe,
                Unsubscribe: self._on_unsubscribe,
                Withdraw: self._on_withdraw,
                PushesReceived: self._on_pushed,
                Get: self._on_get,
                ListServices: self._on_list,
                Ping: self._on_ping,
                WatchConfigs: self._on_watch,
                UnwatchConfig: self._on_unwatch,
            },
            self._opened,
            self._closed,
            self.counters,
        )

    @property
    def given_up(self) -> asyncio.Future[SlotreeveError]:
        """Done once this server cannot go on, with the error for its operator."""
        return self._supervisor.given_up

    @property
    def view(self) -> View:
        """The newest view of the cluster that this server knows."""
        return self._membership.view if self._membership is not None else NO_VIEW

    @property
    def address(self) -> str:
        """Where this server listens."""
        return self._listener.address if self._listener is not None else self._environment.bind

    def counters(self) -> dict[str, int]:
        """What this server did since its start, and what it holds. Gaps and retries are 0 in a quiet cluster."""
        return {
            "clients": len(self.clients),
            "services_watched": len(self.interests.services),
            "writes_waiting": self.writes.waiting,
            "write_retries": self.writes.retries,
            "change_gaps": self.interests.gaps,
            **self._environment.common_counters(self._supervisor),
        }

    async def start(self) -> None:
        """Listen, then join the cluster.

        Raises:
            AddressInUse: cannot listen.
        """
        self._listener = await self._environment.transport.listen(
            self._environment.bind, self._environment.hello(), self._dispatcher
        )
        self._membership = Membership(
            self._environment, self._supervisor, self._view_changed, list, self._beaten, {Configs: self._on_configs}
        )
        self._supervisor.start("client leases", self._sweep)
        self._supervisor.start("version scan", self._scan)

    async def stop(self, how: Stopping = Stopping.FOR_GOOD) -> None:
        """Tell the clients to move (``how`` NO: do not), leave the cluster, close every connection.

        Clients go on here until they have another server; they have ``session.drain_seconds`` for that.
        """
        if self._membership is not None:
            if how is not Stopping.NO and len(self.view.sessions) > 1:
                await self._move_clients_away()
            await self._membership.leave("stopped")
        self.writes.close()
        await self._supervisor.stop()
        if self._listener is not None:
            await self._listener.close()
        if self._environment.events is not None:
            self._environment.events.close()

    async def _move_clients_away(self) -> None:
        self._closed_to_clients = "this session server stops"
        others = [node.address for node in self.view.sessions if node.process_id != self._process_id]
        deadline = self._clock.now() + self._rules.drain_seconds
        for client in list(self.clients.values()):
            self._tell_to_move(client, others)
        while self.clients and self._clock.now() < deadline:
            await self._clock.sleep(0.02)

    @staticmethod
    def _tell_to_move(client: ConnectedClient, others: list[str]) -> None:
        try:
            client.connection.send(Redirect(others))
        except TransportError as error:
            log.info("%s not told to move, it will see the closed connection: %s", client.connection.peer.node, error)

    # --- clients -------------------------------------------------------------------------------------------------

    def _opened(self, connection: Connection) -> None:
        if self._closed_to_clients:
            connection.close(self._closed_to_clients)
            return
        client = self.clients[connection] = ConnectedClient(connection, self._clock.now())
        client.is_off = self._orders.is_off(client)
        connection.send(self._sessions)

    def _closed(self, connection: Connection, reason: str) -> None:
        client = self.clients.pop(connection, None)
        if client is None:
            return
        self._configs.unwatch(client, client.configs)
        for data_info_id in list(client.wants):
            self.interests.unsubscribe(client, data_info_id)
        if client.records:
            self._clock.call_later(self._rules.linger_seconds, lambda: self._registrations.left(client))

    def _on_withdraw(self, connection: Connection, message: Withdraw, request_id: int | None) -> None:
        if (client := self.clients.get(connection)) is not None:
            self._registrations.left(client)

    def _on_publish(self, connection: Connection, message: Publish, request_id: int | None) -> None:
        if (client := self.clients.get(connection)) is not None:
            client.last_seen = self._clock.now()
            self._registrations.publish(client, message)

    def _on_subscribe(self, connection: Connection, message: Subscribe, request_id: int | None) -> None:
        client = self.clients.get(connection)
        if client is None:
            return
        client.last_seen = self._clock.now()
        for want in message.wants:
            self.interests.subscribe(client, want, self._registrations.slot(want.data_info_id))

    def _on_unsubscribe(self, connection: Connection, message: Unsubscribe, request_id: int | None) -> None:
        if (client := self.clients.get(connection)) is not None:
            self.interests.unsubscribe(client, message.data_info_id, (message.scope,))

    def _on_pushed(self, connection: Connection, message: PushesReceived, request_id: int | None) -> None:
        if (client := self.clients.get(connection)) is not None:
            client.last_seen = self._clock.now()
            for receipt in message.receipts:
                self.interests.acknowledged(client, receipt)

    def _on_ping(self, connection: Connection, message: Ping, request_id: int | None) -> None:
        if (client := self.clients.get(connection)) is not None:
            client.last_seen = self._clock.now()
        if request_id is not None:
            connection.reply(request_id, Done())

    def _on_get(self, connection: Connection, message: Get, request_id: int | None) -> None:
        if request_id is not None:
            slot = self._registrations.slot(message.data_info_id)
            self._reads.get(slot, message.data_info_id, lambda reply: connection.reply(request_id, reply))

    def _on_list(self, connection: Connection, message: ListServices, request_id: int | None) -> None:
        if request_id is not None:
            leaders = list(self._links.connected.values())
            self._reads.list_services(message.prefix, leaders, lambda reply: connection.reply(request_id, reply))

    # --- provided configuration ----------------------------------------------------------------------------------

    def _on_watch(self, connection: Connection, message: WatchConfigs, request_id: int | None) -> None:
        if (client := self.clients.get(connection)) is not None:
            self._configs.watch(client, message.wants)

    def _on_unwatch(self, connection: Connection, message: UnwatchConfig, request_id: int | None) -> None:
        if (client := self.clients.get(connection)) is not None:
            self._configs.unwatch(client, (message.key,))

    def _on_configs(self, connection: Connection, message: Configs, request_id: int | None) -> None:
        self._configs.apply(message.entries)

    def _config_changed(self, entry: ConfigEntry) -> None:
        if not self._orders.take(entry):
            return
        log.warning("new orders of the operator: %s", self._orders.intent)
        self._closed_to_clients = "this session server is banned" if self._orders.is_banned else ""
        if self._orders.is_banned:
            others = [node.address for node in self.view.sessions if node.process_id != self._process_id]
            for client in list(self.clients.values()):
                self._tell_to_move(client, others)
        for client in list(self.clients.values()):
            is_off = self._orders.is_off(client)
            if is_off and not client.is_off:
                self._registrations.left(client)
            elif client.is_off and not is_off:
                client.connection.close("it may publish again; it replays over its next connection")
            client.is_off = is_off
        self.interests.resume_pushing()

    def _beaten(self, connection: Connection, beat: LeaseGranted) -> None:
        """Each heartbeat's answer tells whether a change of the configuration was missed."""
        if self._configs.agrees(beat.configs):
            return

        def answered(reply: Message | None, error: Exception | None) -> None:
            if isinstance(reply, Configs):
                self._configs.load(reply.entries)

        connection.request(GetConfigs(""), answered, CONFIG_TIMEOUT_SECONDS)

    async def _scan(self) -> None:
        """Tell the slot leaders, slot by slot, what is known here of each watched service: they tell what is newer
        (original: ``DefaultDataVersionScan``). Finds nothing unless something was lost."""
        while True:
            await self._clock.sleep(self._rules.scan_seconds)
            for slot in self.interests.slots:
                self.interests.declare_slots((slot,))
                await self._clock.sleep(SCAN_PAUSE_SECONDS)

    async def _sweep(self) -> None:
        """End what frozen clients have here; forget old tombstones."""
        lease = self._rules.client_lease_seconds
        compacted = self._clock.now()
        while True:
            await self._clock.sleep(sweep_seconds(self._rules))
            now = self._clock.now()
            for client in list(self.clients.values()):
                if now - client.last_seen > lease:
                    # No linger: it has had all of its lease to be heard.
                    self._registrations.left(client)
                    client.connection.close(f"nothing heard for {lease} s")
            if now - compacted > COMPACT_SECONDS:
                compacted = now
                self._registrations.compact()

    # --- the cluster ---------------------------------------------------------------------------------------------

    def _view_changed(self, old: View, view: View) -> None:
        self._links.aim({node.name: node.address for node in view.data})
        self.interests.declare_slots(self._routes.apply(view.table))
        self.writes.flush_soon()
        sessions = Sessions([node.address for node in view.sessions])
        if sessions != self._sessions:
            self._sessions = sessions
            for client in list(self.clients.values()):
                try:
                    client.connection.send(sessions)
                except TransportError as error:
                    log.debug("session list not sent to %s: %s", client.connection.peer.node, error)

    def _data_opened(self, connection: Connection) -> None:
        self.interests.declare_slots(self._routes.led_by(connection.peer.node))
        self.writes.flush_soon()

    def _data_closed(self, connection: Connection, reason: str) -> None:
        self.writes.closed(connection)

    def _on_changed(self, connection: Connection, message: Changed, request_id: int | None) -> None:
        for change in message.changes:
            self.interests.changed(change)

    def _on_compare(self, connection: Connection, message: Compare, request_id: int | None) -> None:
        if request_id is None:
            return
        connection.reply(request_id, Compared(self._registrations.differences(message.slots)))

    def _on_deliver(self, connection: Connection, message: Deliver, request_id: int | None) -> None:
        if request_id is None:
            return

        def stored() -> None:
            if not connection.closed:
                connection.reply(request_id, Done())

        self.writes.deliver(message.slots, stored)


def sweep_seconds(rules: SessionSettings) -> float:
    """How often frozen clients are looked for."""
    return min(0.25, rules.client_lease_seconds / 8)
