"""The meta server: takes part in the election; while it leads, it keeps leases and commits views."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from slotreeve.errors import ConfigError, ElectionError, SlotreeveError
from slotreeve.invariants import check_successor, stamp
from slotreeve.model.nodes import Role
from slotreeve.model.slots import Move, SlotTable
from slotreeve.ports import Assigner, Balancer, Connection, Election, Leadership, Listener
from slotreeve_protocol.general_messages import Done, Failed
from slotreeve_protocol.meta_messages import (
    ConfigEntry,
    Configs,
    GetConfigs,
    GetLeader,
    GetShadow,
    GetView,
    Heartbeat,
    LeaderIs,
    LeaseGranted,
    Leave,
    PutConfig,
    Stopping,
    View,
)

from slotreeve_servers.meta.arranger import Arranger, Leaving, without_replaced
from slotreeve_servers.meta.configuration import ProvidedConfig
from slotreeve_servers.meta.leases import Leases, Renewal
from slotreeve_servers.meta.recorder import LeadershipRecorder
from slotreeve_servers.meta.shadow import Shadow
from slotreeve_servers.meta.table import CommittedView
from slotreeve_servers.node.dispatch import Dispatcher
from slotreeve_servers.node.environment import Environment
from slotreeve_servers.node.supervisor import Supervisor, Wake

log = logging.getLogger("slotreeve.meta")


class MetaServer:
    """One meta process. ``start`` listens and joins the election; ``stop`` resigns and leaves."""

    def __init__(
        self,
        environment: Environment,
        election: Election,
        assigner: Assigner,
        balancer: Balancer,
        shadow: Shadow | None = None,
    ) -> None:
        settings = environment.settings
        self._environment, self._election, self._shadow = environment, election, shadow
        self._clock = environment.clock
        self._arranger = Arranger(
            settings.cluster.slots, settings.cluster.replicas, assigner, balancer, settings.meta.protect_below
        )
        self._leases = Leases(settings.meta)
        self._committed = CommittedView(election.state)
        self._configs = ProvidedConfig(election.state, self._config_changed)
        self._recorder = LeadershipRecorder(environment.node.name, election, environment.clock, self._leader_is)
        self._supervisor = Supervisor(environment.clock)
        self._wake = Wake(environment.clock)
        self._connections: set[Connection] = set()
        self._beats: dict[str, Heartbeat] = {}
        self._adopted_term = 0
        self._first_assign: float | None = None
        self._listener: Listener | None = None
        self._dispatcher = Dispatcher(
            {
                Heartbeat: self._on_heartbeat,
                Leave: self._on_leave,
                GetView: self._on_get_view,
                GetLeader: self._on_get_leader,
                **self._recorder.methods,
                PutConfig: self._on_put_config,
                GetConfigs: self._on_get_configs,
                GetShadow: self._on_get_shadow,
            },
            self._opened,
            self._closed,
            self.counters,
        )

    @property
    def address(self) -> str:
        """Where this server listens."""
        return self._listener.address if self._listener is not None else self._environment.bind

    @property
    def given_up(self) -> asyncio.Future[SlotreeveError]:
        """Done once this server cannot go on, with the error for its operator."""
        return self._supervisor.given_up

    def counters(self) -> dict[str, int]:
        """What this server did since its start, and what it keeps."""
        leadership, view = self._election.leadership(), self._committed.read()
        return {
            "leading": int(leadership.leading),
            "term": leadership.term,
            "revision": view.revision,
            "table_epoch": view.table.epoch,
            "data_servers": len(view.data),
            "session_servers": len(view.sessions),
            "protected": int(self._arranger.is_protected([node.as_server() for node in view.data])),
            "rejected_plans": self._arranger.rejected,
            **self._environment.common_counters(self._supervisor),
        }

    async def start(self) -> None:
        """Listen, then join the election.

        Raises:
            AddressInUse, StorageError, ElectionError: cannot take part.
        """
        self._listener = await self._environment.transport.listen(
            self._environment.bind, self._environment.hello(), self._dispatcher
        )
        await self._election.start(self._leadership_changed)
        self._election.state.watch(lambda key, value: self._check_facts())
        self._check_facts()
        self._configs.start()
        if self._shadow is not None:
            await self._shadow.start()
        self._supervisor.start("arrange", self._arrange)

    async def stop(self, how: Stopping = Stopping.FOR_GOOD) -> None:
        """Resign, stop taking part, close every connection."""
        await self._supervisor.stop()
        await self._election.stop()
        if self._shadow is not None:
            await self._shadow.stop()
        self._recorder.close()
        if self._listener is not None:
            await self._listener.close()
        if self._environment.events is not None:
            self._environment.events.close()

    def leadership(self) -> Leadership:
        """Who leads, as this node knows it."""
        return self._election.leadership()

    def _check_facts(self) -> None:
        """A cluster keeps its slot facts for ever: other numbers would send records to other slots."""
        kept, mine = self._committed.read().facts, self._environment.facts
        if kept is not None and kept != mine:
            self._supervisor.give_up(
                ConfigError(
                    f"this cluster was made with {kept.slots} slots, {kept.replicas} replicas and slot function "
                    f"{kept.function!r}; the configuration of {self._environment.node.name} says {mine.slots}, "
                    f"{mine.replicas} and {mine.function!r} ([cluster] slots, replicas; [slot_function] use)"
                )
            )

    # --- leadership ----------------------------------------------------------------------------------------------

    def _may_act(self) -> bool:
        if self._supervisor.given_up.done():
            return False
        leadership = self._election.leadership()
        return leadership.leading and self._clock.now() < leadership.valid_until

    def _leadership_changed(self, leadership: Leadership) -> None:
        self._recorder.record(leadership)
        log.info(
            "leader is %s in term %d (%s)", leadership.leader, leadership.term, leadership.cause,
            extra={"leader": leadership.leader, "term": leadership.term, "cause": leadership.cause},
        )  # fmt: skip
        if self._shadow is not None:
            self._shadow.real_changed(leadership)
        if leadership.leading:
            self._adopt(leadership.term)
        self._environment.catalogue.notify("slotreeve_leader_changed", leadership=leadership)
        if leadership.leader is not None:
            self._tell_all(self._leader_is())
        self._wake.set()

    def _adopt(self, term: int) -> None:
        """Go on from the committed view: no warm-up, no learning from heartbeats; every member gets a fresh lease."""
        if term == self._adopted_term:
            return
        self._adopted_term = term
        view = self._committed.read()
        connected = {connection.peer.process_id for connection in self._connections}
        self._leases.adopt([*view.data, *view.sessions], connected, self._clock.now())
        self._beats.clear()

    def _leader_is(self) -> LeaderIs:
        leadership = self._election.leadership()
        address = self._environment.settings.cluster.meta.get(leadership.leader or "")
        return LeaderIs(leadership.term, leadership.leader, address)

    # --- messages ------------------------------------------------------------------------------------------------

    def _opened(self, connection: Connection) -> None:
        if connection.peer.role in (Role.DATA, Role.SESSION) and not self._hears_anybody():
            self._leases.hear_out(self._clock.now())
        self._connections.add(connection)

    def _hears_anybody(self) -> bool:
        """Whether any data or session server is connected. A leader that hears nobody is cut off itself, or nobody is
        there to act on what it decides: it keeps the view as it is."""
        return any(connection.peer.role in (Role.DATA, Role.SESSION) for connection in self._connections)

    def _closed(self, connection: Connection, reason: str) -> None:
        self._connections.discard(connection)
        if connection.peer.role in (Role.DATA, Role.SESSION):
            self._leases.connection_lost(connection.peer.node, connection.peer.process_id, self._clock.now())
            self._wake.set()

    def _on_heartbeat(self, connection: Connection, beat: Heartbeat, request_id: int | None) -> None:
        if request_id is None:
            return
        if not self._may_act():
            connection.reply(request_id, self._leader_is())
            return
        renewal = self._leases.renew(beat.node, self._clock.now())
        before = self._beats.get(beat.node.name)
        self._beats[beat.node.name] = beat
        if renewal is not Renewal.NOTHING or before is None or _news(before, beat):
            self._wake.set()
        view = self._committed.read()
        connection.reply(
            request_id,
            LeaseGranted(
                self._election.leadership().term,
                self._environment.settings.meta.lease_seconds,
                view if view.revision > beat.revision else None,
                self._configs.digest,
                beat.stopping is not Stopping.NO and self._may_leave(beat, view),
            ),
        )

    def _may_leave(self, beat: Heartbeat, view: View) -> bool:
        """A stopping server has handed over everything, or there is nobody to hand it to."""
        name = beat.node.name
        if beat.node.role is not Role.DATA:
            return True
        if not any(node.name not in self._leaving().for_good for node in view.data):
            return True
        leads = any(slot.leader == name for slot in view.table.slots)
        follows = any(name in slot.followers for slot in view.table.slots)
        return not leads and (beat.stopping is Stopping.FOR_A_RESTART or not follows)

    def _leaving(self) -> Leaving:
        """Who is on its way out, by its own word or the operator's."""
        stopping = {name: beat.stopping for name, beat in self._beats.items()}
        for_good = {name for name, stops in stopping.items() if stops is Stopping.FOR_GOOD}
        for_a_restart = {name for name, stops in stopping.items() if stops is Stopping.FOR_A_RESTART}
        return Leaving(frozenset(for_good | self._configs.intent.banned), frozenset(for_a_restart))

    def _on_leave(self, connection: Connection, message: Leave, request_id: int | None) -> None:
        if request_id is None:
            return
        if not self._may_act():
            connection.reply(request_id, self._leader_is())
            return
        back = message.back_in_seconds
        if self._leases.leave(message.node, self._clock.now() + back if back > 0 else None):
            log.info("%s leaves: %s", message.node.name, message.reason)
            if back <= 0:
                self._beats.pop(message.node.name, None)
            self._wake.set()
        connection.reply(request_id, Done())

    def _on_get_view(self, connection: Connection, message: GetView, request_id: int | None) -> None:
        if request_id is not None:
            connection.reply(request_id, self._committed.read())

    def _on_get_leader(self, connection: Connection, message: GetLeader, request_id: int | None) -> None:
        if request_id is not None:
            connection.reply(request_id, self._leader_is())

    def _on_get_shadow(self, connection: Connection, message: GetShadow, request_id: int | None) -> None:
        if self._shadow is None:
            raise ConfigError("no shadow election runs here; meta.shadow_election names one")
        if request_id is not None:
            connection.reply(request_id, self._shadow.report())

    # --- provided configuration ----------------------------------------------------------------------------------

    def _on_put_config(self, connection: Connection, message: PutConfig, request_id: int | None) -> None:
        if request_id is None:
            return
        if not self._may_act():
            connection.reply(request_id, self._leader_is())
            return
        self._supervisor.start(f"put {message.key}", lambda: self._put_config(connection, message, request_id))

    async def _put_config(self, connection: Connection, message: PutConfig, request_id: int) -> None:
        try:
            entry = await self._configs.put(message, self._election.leadership().term)
        except SlotreeveError as error:
            connection.reply(request_id, Failed(error.code, str(error)))
        else:
            connection.reply(request_id, Configs([entry]))

    def _on_get_configs(self, connection: Connection, message: GetConfigs, request_id: int | None) -> None:
        if request_id is not None:
            known = Configs(self._configs.entries(message.prefix)) if self._may_act() else self._leader_is()
            connection.reply(request_id, known)

    def _config_changed(self, entry: ConfigEntry) -> None:
        if self._may_act():
            self._tell_all(Configs([entry]), (Role.SESSION,))

    def _tell_all(
        self, message: View | LeaderIs | Configs, roles: tuple[Role, ...] = (Role.DATA, Role.SESSION)
    ) -> None:
        for connection in list(self._connections):
            if connection.peer.role in roles:
                try:
                    connection.send(message)
                except SlotreeveError as error:
                    log.warning("%s not sent to %s: %s", type(message).__name__, connection.peer.node, error)

    # --- arranging -----------------------------------------------------------------------------------------------

    async def _arrange(self) -> None:
        while True:
            await self._wake.wait(self._until_next_look())
            while self._may_act() and await self._arrange_once():
                pass

    def _until_next_look(self) -> float:
        interval = self._environment.settings.meta.arrange_seconds
        # Leases are the leader's; a former leader's have deadlines that nobody will ever act on.
        deadline = self._leases.next_deadline() if self._may_act() and self._hears_anybody() else None
        return interval if deadline is None else min(interval, max(0.0, deadline - self._clock.now()))

    async def _arrange_once(self) -> bool:
        """Commit and publish one change of membership or table; False when there was none to make."""
        if not self._hears_anybody():
            return False
        for node, reason in self._leases.expire(self._clock.now()):
            log.warning("%s %s has left: %s", node.role, node.name, reason)
            self._beats.pop(node.name, None)
            self._environment.catalogue.notify("slotreeve_node_left", node=node, reason=reason)
        old = self._committed.read()
        data = [node for node in self._leases.nodes if node.role is Role.DATA]
        sessions = [node for node in self._leases.nodes if node.role is Role.SESSION]
        before = without_replaced(old.table, old.data, data)
        plan = None
        if before.slots or self._waited_for_company(bool(data)):
            servers = [node.as_server() for node in data]
            plan = self._arranger.next_plan(before, servers, self._settled(old.table), self._leaving())
        unchanged = data == old.data and sessions == old.sessions
        if plan is None and (unchanged or before is not old.table):
            # A new process may not become a member before its predecessor's slots have another leader epoch.
            return False
        table = before if plan is None else stamp(before, plan.table, before.epoch + 1)
        check_successor(before, table)
        view = View(self._election.leadership().term, old.revision + 1, table, data, sessions, self._environment.facts)
        try:
            await self._committed.commit(view)
        except ElectionError as error:
            log.warning("view %d not committed: %s", view.revision, error)
            return False
        self._tell_all(view)
        self._report(old, view, () if plan is None else plan.moves)
        return True

    def _waited_for_company(self, any_data: bool) -> bool:
        """The first data server of a new cluster need not take every slot only to give most of them away."""
        if not any_data:
            return False
        now = self._clock.now()
        if self._first_assign is None:
            wait = self._environment.settings.meta.first_assign_seconds
            self._first_assign = now + wait
            self._clock.call_later(wait, self._wake.set)
        return now >= self._first_assign

    def _settled(self, table: SlotTable) -> Callable[[str, int], bool]:
        """Tells whether a server last reported that it holds a slot completely, under ``table``."""
        unsettled = {name: set(b.unsettled) for name, b in self._beats.items() if b.table_epoch == table.epoch}
        return lambda server, slot: server in unsettled and slot not in unsettled[server]

    def _report(self, old: View, view: View, moves: tuple[Move, ...]) -> None:
        for node in [*view.data, *view.sessions]:
            if node not in old.data and node not in old.sessions:
                log.info("%s %s joined at %s", node.role, node.name, node.address)
                self._environment.catalogue.notify("slotreeve_node_joined", node=node)
        if moves:
            reasons = sorted({move.reason for move in moves})
            log.info(
                "slot table %d: %d moves (%s)", view.table.epoch, len(moves), "; ".join(reasons[:3]),
                extra={"epoch": view.table.epoch, "moves": len(moves), "revision": view.revision},
            )  # fmt: skip
            self._environment.catalogue.notify(
                "slotreeve_table_published", table=view.table, moves=moves, reason="; ".join(reasons)
            )


def _news(before: Heartbeat, beat: Heartbeat) -> bool:
    """Whether a heartbeat says anything that the arranger waits for."""
    return (before.table_epoch, before.unsettled, before.stopping) != (beat.table_epoch, beat.unsettled, beat.stopping)
