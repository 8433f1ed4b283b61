"""The core of a meta server: while it leads, it keeps the leases of the members and decides the next view.

It knows peers, time and messages, and acts through its outbox; :mod:`slotreeve_servers.meta.server` is its shell.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from slotreeve.clock import Timer
from slotreeve.errors import ModelError
from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import SlotFacts
from slotreeve.ports import Election, Leadership, Message
from slotreeve_protocol.general_messages import Done
from slotreeve_protocol.meta_messages import (
    ConfigEntry,
    Configs,
    GetConfigs,
    GetHistory,
    GetLeader,
    GetMembers,
    GetView,
    Heartbeat,
    LeaderIs,
    LeaseGranted,
    Leave,
    MemberLeft,
    PutConfig,
    Resign,
    View,
)

from slotreeve_servers.meta.arranging.arranger import Arranger, PlannedTable, rest_of_way, resumed, without_replaced
from slotreeve_servers.meta.arranging.first_assignment import FirstAssignment
from slotreeve_servers.meta.arranging.loads import NO_LOADS, KnownLoads
from slotreeve_servers.meta.arranging.next_table import (
    NextTable,
    Situation,
    UncleanTables,
    living_leaders,
    next_table,
    table_above,
)
from slotreeve_servers.meta.arranging.table import CommittedView
from slotreeve_servers.meta.configuration import ProvidedConfig
from slotreeve_servers.meta.effects import MetaOutbox
from slotreeve_servers.meta.members.addresses import MetaAddresses
from slotreeve_servers.meta.members.heartbeats import LastHeartbeats, Newest
from slotreeve_servers.meta.members.leases import Leases, Renewal
from slotreeve_servers.meta.members.newest_view import NewestView
from slotreeve_servers.meta.members.overview import Overview, Planning, news_for
from slotreeve_servers.meta.members.recorder import LeadershipRecorder
from slotreeve_servers.meta.members.refused_names import RefusedNames
from slotreeve_servers.meta.members.unreached import Unreached
from slotreeve_servers.meta.settings import MetaSettings
from slotreeve_servers.node.dispatch import Handlers
from slotreeve_servers.node.outbox import Peer, Request, TurnEnd, send_to_all
from slotreeve_servers.settings import Settings

log = logging.getLogger("slotreeve.meta")

MEMBERS = (Role.DATA, Role.SESSION)
SHORTEST_PAUSE_SECONDS = 0.001
"""Least time between two looks, because attended time may fall short of a timer by a rounding."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 60.0
"""After a plan that failed the next one comes so much later; each time after twice the time."""


class MetaCore:
    """One meta server's state. Only the leader acts on it, and only while its lease lasts.

    Args:
        election: who leads, and the meta state; the core only reads it.
        node: this server.
        facts: the slot facts of the configuration.

    Attributes:
        addresses: where the meta servers are.
        is_fit: False once the server has given up; it does not act any more.
        times_set_back: how often this server went on above members that knew a newer meta state.
    """

    def __init__(
        self,
        outbox: MetaOutbox,
        election: Election,
        arranger: Arranger,
        settings: Settings,
        node: Node,
        facts: SlotFacts,
    ) -> None:
        self._outbox, self._election, self._arranger = outbox, election, arranger
        self._rules, self._node, self._facts = settings.meta, node, facts
        self.addresses = MetaAddresses(settings.cluster.meta)
        self._leases = Leases(settings.meta)
        self._unreached = Unreached(outbox, self._leases, settings.meta.lease_seconds)
        self.view = CommittedView(election.state)
        self.configs = ProvidedConfig(election.state)
        self.recorder = LeadershipRecorder(outbox, node.name, election)
        self._peers: dict[Peer, None] = {}
        self._heartbeats = LastHeartbeats()
        self._loads = KnownLoads()
        self._overview = Overview(self._leases, self._heartbeats, self._loads, settings.meta.heartbeat_seconds)
        self._adopted_term, self._adopted_at = 0, -math.inf
        self._committing: NextTable | None = None
        self._raising, self._raised_at = "", -math.inf
        self._target: PlannedTable | None = None
        self._is_planning = self._look_again = False
        self._settled: tuple[object, ...] = ()
        self._pause = FIRST_PAUSE_SECONDS / 2
        self.times_set_back = 0
        self._unclean = UncleanTables()
        self._refused = RefusedNames(settings.meta.heartbeat_seconds)
        self._look = TurnEnd(outbox, self._look_at_cluster)
        self._first_assignment = FirstAssignment(outbox, self._look.soon)
        self._newest_view = NewestView(outbox, self._leases, facts.slots, self._look.soon)
        self._timer: Timer | None = None
        self.is_fit = True
        self.handlers = Handlers(
            requests={
                Heartbeat: self._on_heartbeat,
                Leave: self._on_leave,
                GetView: lambda peer, message: self.view.read(),
                GetLeader: lambda peer, message: self.leader_is(),
                GetHistory: lambda peer, message: self.recorder.history(),
                GetConfigs: self._on_get_configs,
                GetMembers: self._on_get_members,
            },
            later={PutConfig: self._on_put_config, Resign: self._on_resign},
        )

    def start(self) -> None:
        """Look at the cluster from now on, once the election has started."""
        self._look.soon()

    def rules_changed(self, rules: MetaSettings) -> None:
        """The operator has changed the rules."""
        self._rules, self._arranger.protect_below = rules, rules.protect_below
        self._settled = ()
        self._look.soon()

    # --- leadership --------------------------------------------------------------------------------------------------

    def leadership_changed(self, leadership: Leadership) -> None:
        """The election reports another leader, term or right to act."""
        self.recorder.record(leadership)
        leader, term, cause = leadership.leader, leadership.term, leadership.cause
        extra = {"leader": leader, "term": term, "cause": cause}
        log.info("leader is %s in term %d (%s)", leader, term, cause, extra=extra)
        if leadership.leading:
            self._adopt(term)
        self._outbox.notify("slotreeve_leader_changed", leadership=leadership)
        if leader is not None:
            self._send_to_members(self.leader_is())
        self._look.soon()

    def _adopt(self, term: int) -> None:
        """Go on from the committed view, without a warm-up: every member that is heard gets a lease."""
        if term == self._adopted_term:
            return
        self._adopted_term, self._adopted_at = term, self._outbox.attended()
        view = self.view.read()
        self._target = resumed(view.table, view.target)
        self._newest_view.clear()
        self._unreached.adopted()
        self._raised_at = -math.inf
        silences = {peer.process_id: self._outbox.silent_for(peer) for peer in self._peers}
        members = [*view.data, *view.sessions]
        self._leases.adopt(members, silences, self._outbox.attended(), view.missing, view.acting, view.away)
        self._heartbeats.clear()
        self._overview.clear()
        self._loads.clear(self._adopted_at)

    def _may_act(self) -> bool:
        if not self.is_fit:
            return False
        leadership = self._election.leadership()
        return leadership.leading and self._outbox.now() < leadership.valid_until

    def leader_is(self) -> LeaderIs:
        """The leader as this server knows it, for those that ask another one."""
        leadership = self._election.leadership()
        leader = leadership.leader or ""
        address, has_moved = self.addresses.all().get(leader), self.addresses.has_moved(leader)
        return LeaderIs(leadership.term, leadership.leader, address, has_moved)

    def _on_resign(self, peer: Peer, message: Resign, request: Request) -> None:
        if not self._election.leadership().leading:
            self._outbox.reply(request, self.leader_is())
            return
        log.warning("%s asks this leader to resign", peer.node)
        self._outbox.resign(request, message.to)

    # --- members come, renew their leases, and go --------------------------------------------------------------------

    def opened(self, peer: Peer) -> None:
        """A process is connected."""
        if peer.role in MEMBERS:
            if not self._any_member_connected():
                self._leases.extend_all(self._outbox.attended())
            self._leases.connection_made(peer.node, peer.role, peer.process_id, self._outbox.attended())
        self._peers[peer] = None

    def closed(self, peer: Peer, reason: str) -> None:
        """A connection has ended: the lease of a member is shortened, unless the same process has another one.

        A process that connects again may do so before the end of its older connection is noticed here.
        """
        self._peers.pop(peer, None)
        if peer.role in MEMBERS and all(other.process_id != peer.process_id for other in self._peers):
            self._leases.connection_lost(peer.node, peer.process_id, self._outbox.attended())
            self._look.soon()

    def _any_member_connected(self) -> bool:
        """Whether any data or session server is connected. A leader without any is cut off itself, or no member is
        there to act on what it decides: it keeps the view as it is."""
        return any(peer.role in MEMBERS for peer in self._peers)

    def _on_heartbeat(self, peer: Peer, heartbeat: Heartbeat) -> Message:
        """Renew the sender's lease, and send it the view where it has an older one."""
        if not self._may_act():
            return self.leader_is()
        node = heartbeat.node
        _check_sender(peer, node)
        rival = self._leases.rival(node)
        if rival is not None:
            self._leases.refused(node.role, self._outbox.attended())
            first = next(each for each in self._peers if each is peer or each.process_id == rival.process_id)
            return self._refused.refuse(node, rival, first is peer, self._outbox.attended())
        self._refused.heard(node, self._outbox.attended())
        renewal = self._leases.renew(node, self._outbox.attended())
        self._unreached.heard(node.role)
        if self._heartbeats.take(heartbeat) or renewal is not Renewal.NOTHING:
            self._look.soon()
        view = self.view.read()
        protected = self._arranger.is_protected(view.data)  # no sender leaves because others are silent for a moment
        self._loads.take(heartbeat, view.table)
        return LeaseGranted(
            self._election.leadership().term,
            self._rules.lease_seconds,
            view if view.revision > heartbeat.revision else None,
            self.configs.digest,
            self._heartbeats.may_leave(heartbeat, view, self.configs.orders.banned, protected),
            self.configs.live_settings.version,
            self.configs.orders.ends_frozen,
            self._rules.heartbeat_seconds,
        )

    def _on_leave(self, peer: Peer, message: Leave) -> Message:
        if not self._may_act():
            return self.leader_is()
        _check_sender(peer, message.node)
        back = message.back_in_seconds
        if self._leases.leave(message.node, back, self._outbox.attended()):
            log.info("%s leaves: %s", message.node.name, message.reason)
            if message.node.name not in {node.name for node in self._leases.nodes}:
                self._has_left(message.node, message.reason, said_so=True, comes_back=back > 0)
            self._look.soon()
        return Done()

    def _has_left(self, node: Node, reason: str, said_so: bool, comes_back: bool = False) -> None:
        self._heartbeats.forget(node.name)
        self._loads.forget(node.name)
        self._overview.left(MemberLeft(node, self._outbox.wall_ms(), reason, said_so, comes_back))
        self._outbox.notify("slotreeve_node_left", node=node, reason=reason)

    # --- the next view of the cluster --------------------------------------------------------------------------------

    def _look_at_cluster(self) -> None:
        """Commit the next change of membership or table, where there is one; look again when a lease may end."""
        try:
            if self._committing is None and self._may_act():
                self._unreached.look(len(self.addresses.all()))
                if self._any_member_connected():
                    self._expire_leases()
                    if loads := self._loads.to_report(self._outbox.attended()):
                        self._outbox.notify("slotreeve_loads_changed", loads=loads)
                    self._plan_next_view()
        finally:
            # A look that failed is logged by the shell; the next one comes all the same.
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._outbox.after(self._until_next_look(), self._look_at_cluster)

    def _until_next_look(self) -> float:
        """Seconds until a lease may end; the interval where this server may not act on that, or is committing.

        Leases are held against others, so they last in attended time. A look that comes too early for that finds
        nothing, and another one follows.
        """
        interval = self._rules.arrange_seconds
        if self._committing is not None or not self._may_act() or not self._any_member_connected():
            return interval
        left = self._leases.next_in(self._outbox.attended())
        return interval if left is None else min(interval, max(SHORTEST_PAUSE_SECONDS, left))

    def _expire_leases(self) -> None:
        view = self.view.read()
        table = without_replaced(view.table, view.data, self._leases.nodes)
        for node, reason in self._leases.expire(self._outbox.attended(), table):
            log.warning("%s %s has left: %s", node.role, node.name, reason)
            self._has_left(node, reason, said_so=False)

    def _plan_next_view(self) -> None:
        if self._is_planning:
            self._look_again = True
            return
        old = self.view.read()
        data = [node for node in self._leases.nodes if node.role is Role.DATA]
        sessions = [node for node in self._leases.nodes if node.role is Role.SESSION]
        self._unclean.say(old)
        loads = self._loads.look(self._outbox.attended()) if self._arranger.uses_loads else NO_LOADS
        now = Situation(
            *(old, data, sessions),
            self._heartbeats.reports(old.table, [node.name for node in data]),
            self._heartbeats.changes,
            self._heartbeats.leaving(
                self.configs.orders.banned, [node.name for node in data], self._leases.acting, self._leases.away
            ),
            bool(old.table.slots) or self._first_assignment.may_begin(bool(data), self._rules.first_assign_seconds),
            loads,
            self._target,
        )
        term = self._election.leadership().term
        own = Newest("the meta state", old.revision, old.table.epoch, term, self.configs.total)
        newest = self._heartbeats.above(own)
        # Whoever was sent the view above its own numbers says so within a lease; who claims more then is wrong.
        if newest is not None and self._outbox.now() >= self._raised_at + self._rules.lease_seconds:
            self._raise_above(newest, own, now)
            return
        if now.key == self._settled:
            return
        self._is_planning, self._look_again = True, False
        self._outbox.compute(partial(next_table, self._arranger, now), partial(self._planned, now))

    def _planned(self, now: Situation, found: object, error: Exception | None) -> None:
        """The next table is known; meanwhile this server may have lost the lead, or the view may be another one."""
        self._is_planning = False
        if error is not None:
            self._settled = now.key
            self._arranger.rejected += 1
            self._unreached.not_committed()
            self._pause = min(LONGEST_PAUSE_SECONDS, 2 * self._pause)
            self._outbox.after(self._pause, self._plan_again)
            log.error(
                "ALARM: no plan for the next table: %s; the table of epoch %d stays, and is planned again in %g s",
                *(error, now.view.table.epoch, self._pause),
            )
        elif isinstance(found, NextTable) and self._target is now.target:
            self._pause = FIRST_PAUSE_SECONDS / 2
            if found.is_for_no_view:
                self._unreached.not_needed()
                self._target = found.target
                self._settled = replace(now, target=found.target).key
            elif self._may_act() and self.view.read().revision == now.view.revision:
                now = replace(now, data=[node for node in now.data if node.name not in found.waiting])
                self._commit(found, now.view.revision + 1, now, now.view.era, now.view.above)
        if self._look_again:
            self._look.soon()

    def _plan_again(self) -> None:
        self._settled = ()
        self._look.soon()

    def _commit(self, found: NextTable, revision: int, now: Situation, era: str, above: str) -> None:
        """Commit a view. Where there is no ``era`` to go on in, another one begins, ``above`` a former one or none."""
        self._committing = found
        term, missing = self._election.leadership().term, self._leases.missing(self._outbox.attended())
        rest, unclean = rest_of_way(found.table, found.target), [row.id for row in found.unclean]
        told = now.data, now.sessions, self._facts, missing, rest, unclean, *now.without_lease
        view = View(term, revision, found.table, *told, era or f"{self._node.process_id}:{revision}", above)
        self._outbox.commit(view, now.view.revision)

    def _raise_above(self, newest: Newest, own: Newest, now: Situation) -> None:
        """The meta state is older than what members have: go on above it in another era, because provided configuration
        is counted from the older state on."""
        old = now.view
        having = self._heartbeats.having_newer(old.revision)
        known = self._newest_view.above(newest, old, having, self._peers)
        if known is not None and known.era != old.era:
            # A member that was left of another cluster: those that live have the copies, whoever counts further.
            known = max(known, old, key=lambda view: living_leaders(view, now.data))
        found = table_above(self._arranger, replace(now, view=known), newest) if known is not None else None
        if found is None or known is None:
            return
        revision = newest.revision + 1
        self._raising = (
            f"the meta state ({own.text}) is older than what {newest.name} has ({newest.text}): it was set back or is "
            f"a new one; going on from view {revision}, table {found.table.epoch}, by the table that "
            f"{newest.name if known is not old else 'the meta state'} has"
        )
        self._commit(found, revision, now, era="", above=known.era)

    def committed(self, old: View, view: View) -> None:
        """``view`` is the committed one after ``old``: publish it, and look for the next change."""
        found, self._committing = self._committing, None
        moves = found.moves if found is not None else ()
        self._target = found.target if found is not None else None
        self._unreached.committed()
        if self._raising:
            self.times_set_back += 1
            log.error("ALARM: %s", self._raising)
            self._raising, self._raised_at = "", self._outbox.now()
        self._unclean.say(view)
        self._send_to_members(view)
        for node in [*view.data, *view.sessions]:
            if node not in old.data and node not in old.sessions:
                log.info("%s %s joined at %s", node.role, node.name, node.address)
                self._outbox.notify("slotreeve_node_joined", node=node)
        if moves:
            reasons = sorted({move.reason for move in moves})
            extra = {"epoch": view.table.epoch, "moves": len(moves), "revision": view.revision}
            log.info("slot table %d: %d moves (%s)", view.table.epoch, len(moves), "; ".join(reasons[:3]), extra=extra)
            reason = "; ".join(reasons)
            self._outbox.notify("slotreeve_table_published", table=view.table, moves=tuple(moves), reason=reason)
        self._look_at_cluster()

    def not_committed(self, view: View, error: Exception) -> None:
        """``view`` was not committed: publish nothing, and look again later."""
        self._committing, self._raising = None, ""
        self._unreached.not_committed()
        log.warning("view %d not committed: %s", view.revision, error)

    def _send_to_members(self, message: Message, roles: Sequence[Role] = MEMBERS) -> None:
        send_to_all(self._outbox, [peer for peer in self._peers if peer.role in roles], message)

    # --- provided configuration --------------------------------------------------------------------------------------

    def _on_put_config(self, peer: Peer, message: PutConfig, request: Request) -> None:
        if self._may_act():
            self._outbox.put_config(message, self._election.leadership().term, request)
        else:
            self._outbox.reply(request, self.leader_is())

    def _on_get_configs(self, peer: Peer, message: GetConfigs) -> Message:
        return Configs(self.configs.entries(message.prefix)) if self._may_act() else self.leader_is()

    def config_committed(self, entry: ConfigEntry) -> None:
        """A provided configuration was committed: the leader sends it to every session server."""
        if self._may_act():
            self._send_to_members(Configs([entry]), (Role.SESSION,))

    # --- for people --------------------------------------------------------------------------------------------------

    def _on_get_members(self, peer: Peer, message: GetMembers) -> Message:
        if not self._may_act():
            return self.leader_is()
        view, is_planning = self.view.read(), self._is_planning or self._committing is not None
        now, banned = self._outbox.attended(), self.configs.orders.banned
        planning = Planning(is_planning, self._arranger.is_protected(view.planned_data), self._arranger.why_not_planned)
        found = self._overview.report(now, self._outbox.wall_ms(), view, banned, planning)
        return news_for(message, found)

    def counters(self) -> dict[str, int]:
        """What this server did since its start, and what it keeps."""
        leadership, view = self._election.leadership(), self.view.read()
        return {
            "leading": int(leadership.leading),
            "term": leadership.term,
            "revision": view.revision,
            "table_epoch": view.table.epoch,
            "data_servers": len(view.data),
            "session_servers": len(view.sessions),
            "protected": int(self._arranger.is_protected(view.planned_data)),
            "rejected_plans": self._arranger.rejected,
            "balancer_stopped": int(self._arranger.balancer_fault is not None),
            "state_set_back": self.times_set_back,
            "slots_led_unclean": self._unclean.slots,
            "names_refused": self._refused.found,
        }


def _check_sender(peer: Peer, node: Node) -> None:
    """Raises ModelError: ``peer`` sends a message in the name of another process."""
    if (node.name, node.process_id, node.role) != (peer.node, peer.process_id, peer.role):
        raise ModelError(
            f"{peer.role} {peer.node} (process {peer.process_id}) sends a message in the name of "
            f"{node.role} {node.name} (process {node.process_id})"
        )
