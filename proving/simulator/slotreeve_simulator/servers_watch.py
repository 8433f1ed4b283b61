"""Checks of the servers between turns of the event loop: leaders, views, tables, and which server serves which slot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import is_not

from slotreeve.errors import InvalidTable
from slotreeve.invariants import check_table
from slotreeve.model.slots import Slot, SlotTable
from slotreeve.ports import Leadership
from slotreeve_protocol.meta_messages import View
from slotreeve_servers.any_server import Server
from slotreeve_servers.data.server import DataServer
from slotreeve_servers.meta.arranging.table import CommittedView
from slotreeve_servers.meta.server import MetaServer
from slotreeve_servers.node.membership import Membership
from slotreeve_servers.session.server import SessionServer

from slotreeve_simulator.cluster import ScenarioCluster
from slotreeve_simulator.state_watch import StateWatch
from slotreeve_simulator.trace import Trace, Weight
from slotreeve_simulator.verdict import RunVerdict

SERVING_EVERY_SECONDS = 0.02
"""Interval of checks of the servers of slots, because there are many slots and a server serves one for long."""
LONGEST_LAG_SECONDS = 1.0
"""A heartbeat interval: a reachable server may use an older view for so long (I13)."""
BACK_SECONDS = 4.0
"""So long after the last fault, each server has found the leader again, or has lost its membership and joins again. So
long after its start, it has joined."""


class ServersWatch:
    """Checks I1 to I6, I13 and I18 on the state of all servers of one cluster.

    Attributes:
        state: checks of the meta state.
        views: every view that was committed, by revision.
        newest: the highest revision of them.
        leaving: the data servers that are stopping, or were just now.
        calm_since: when the last packet that was sent during a fault has arrived; None during a fault.
    """

    def __init__(
        self, cluster: ScenarioCluster, replicas: int, now: Callable[[], float], trace: Trace, verdict: RunVerdict
    ) -> None:
        self._cluster, self._replicas, self._now = cluster, replicas, now
        self._trace, self._verdict = trace, verdict
        self.state = StateWatch(verdict)
        self._leader_of_term: dict[int, str] = {}
        self._leaderships: dict[str, Leadership] = {}
        self._terms: dict[str, int] = {}
        self.views: dict[int, View] = {}
        self._seen: dict[str, View] = {}
        self._started: dict[str, float] = {}
        self._taken_until: dict[str, float] = {}
        self._looked_at: Mapping[str, Server] = {}
        self._memberships: list[Membership] = []
        self._last_views: list[View] = []
        self._meta_states: list[CommittedView] = []
        self._last_committed: list[View] = []
        self._servers: dict[tuple[int, int], str] = {}
        self._look_at_serving = 0.0
        self.newest = 0
        self._lost_at: int | None = None  # the newest view when the meta state was lost
        self._newest_since = 0.0
        self.leaving: set[str] = set()
        self.calm_since: float | None = 0.0

    def look_at_views(self) -> None:
        """A turn of the event loop has ended: look whether a server has a new view, or is a new process."""
        if self._cluster.servers is not self._looked_at:
            self._looked_at = self._cluster.servers
            self._memberships = [server.core.membership for server in self._members().values()]
            self._meta_states = [s.core.view for s in self._looked_at.values() if isinstance(s, MetaServer)]
            self._last_views = []
        # A view counts also if no member has got it before the next one is committed.
        committed = [state.read() for state in self._meta_states]
        if len(committed) != len(self._last_committed) or any(map(is_not, committed, self._last_committed)):
            self._last_committed = committed
            for view in committed:
                self._committed(view)
        views = [membership.view for membership in self._memberships]
        if len(views) != len(self._last_views) or any(map(is_not, views, self._last_views)):
            self._last_views = views
            for name, server in self._members().items():
                if server.view is not self._seen.get(name):
                    self._view(name, server)

    def _members(self) -> dict[str, DataServer | SessionServer]:
        """The running data and session servers."""
        return {name: server for name, server in self._looked_at.items() if not isinstance(server, MetaServer)}

    def look(self) -> None:
        """Look at leases and at the servers of slots."""
        now = self._now()
        self._leaders()
        if now >= self._look_at_serving:
            self._look_at_serving = now + SERVING_EVERY_SECONDS
            self._serving()
            self._lag(now)

    def forget(self, name: str) -> None:
        """The process ``name`` has ended. Its next start has only its disk."""
        self._seen.pop(name, None)
        self._last_views = []
        self._leaderships.pop(name, None)

    def machine_lost(self, name: str) -> None:
        """The machine of ``name`` goes down, which nobody is told of: the next process of the name cannot join before
        the lease of this one is over."""
        self._taken_until[name] = self._now() + self._cluster.settings.meta.lease_seconds

    # --- meta --------------------------------------------------------------------------------------------------------

    def _leaders(self) -> None:
        acting = []
        for name, server in self._cluster.servers.items():
            if isinstance(server, MetaServer):
                clock = self._cluster.clock(name)
                self.state.look(name, server, clock.now())
                self._committed(server.core.view.read())
                leadership = server.leadership()
                known = self._leaderships.get(name)
                if known is None or known.term != leadership.term or known.leader != leadership.leader:
                    self._leadership(name, leadership)
                if server.core.times_set_back and self._lost_at is None:
                    self._verdict.violate("I3", f"{name} leads with a view older than what members have")
                if leadership.leading and clock.now() < leadership.valid_until:
                    acting.append(name)
        if len(acting) > 1:
            self._verdict.violate("I2", f"{' and '.join(acting)} hold a leader's lease at the same time")

    def _leadership(self, name: str, leadership: Leadership) -> None:
        self._leaderships[name] = leadership
        leader = "no server" if leadership.leader is None else leadership.leader
        self._trace.note(
            Weight.STEP, f"{name} sees {leader} lead in term {leadership.term}{' (itself)' * leadership.leading}"
        )
        if leadership.leader is not None and leadership.term > 0:
            highest = self._terms.get(name, 0)
            if leadership.term < highest:
                self._verdict.violate("I1", f"{name} went back from term {highest} to {leadership.term}")
            self._terms[name] = leadership.term
            first = self._leader_of_term.setdefault(leadership.term, leadership.leader)
            if first != leadership.leader:
                self._verdict.violate("I1", f"term {leadership.term} is led by {first} and by {leadership.leader}")

    def wiped(self, name: str) -> None:
        """The disk of ``name`` is lost or set back, and the terms stored on it."""
        self._terms.pop(name, None)
        self.state.wiped(name)

    def state_lost(self) -> None:
        """The disks of all meta servers are lost: terms begin anew. Views do not: the members know the newest one."""
        self._terms.clear()
        self._leader_of_term.clear()
        self._leaderships.clear()
        self.state.counted_anew()
        self._lost_at = self.newest

    # --- views -------------------------------------------------------------------------------------------------------

    def _view(self, name: str, server: DataServer | SessionServer) -> None:
        old, view = self._seen.get(name), server.view
        self._seen[name] = view
        if view.revision == 0:
            self._started[name] = max(self._now(), self._taken_until.get(name, 0.0))
            return
        self._trace.note(Weight.STEP, f"{name} has view {view.revision} of term {view.term}, table {view.table.epoch}")
        if old is not None and view.revision <= old.revision:
            self._verdict.violate("I4", f"{name} went from view {old.revision} to {view.revision}")
        self._committed(view)

    def _committed(self, view: View) -> None:
        known = self.views.get(view.revision)
        if known is view or view.revision == 0:
            return
        if known is None:
            self.views[view.revision] = view
            self._new_view(view)
        elif known != view:
            self._verdict.violate(
                "I3",
                f"there are two views {view.revision}: one of term {known.term} and table {known.table.epoch}, "
                f"one of term {view.term} and table {view.table.epoch}",
            )

    def _new_view(self, view: View) -> None:
        revisions = [revision for revision in self.views if revision < view.revision]
        if revisions:
            self._check_order(self.views[max(revisions)], view)
        later = [revision for revision in self.views if revision > view.revision]
        if later:
            self._check_order(view, self.views[min(later)])
        if view.revision > self.newest:
            self.newest, self._newest_since = view.revision, self._now()
            if problem := self._acknowledges_alone(view):
                self._verdict.violate("I20", f"view {view.revision}: {problem}")
        if problem := self._table_problem(view):
            self._verdict.violate("I5", f"view {view.revision}: {problem}")

    def _lag(self, now: float) -> None:
        if self.calm_since is None or now < max(
            self.calm_since + BACK_SECONDS, self._newest_since + LONGEST_LAG_SECONDS
        ):
            return
        for name, view in self._seen.items():
            has_just_started = view.revision == 0 and now < self._started[name] + BACK_SECONDS
            if view.revision < self.newest and not has_just_started:
                self._verdict.violate(
                    "I13",
                    f"{name} acts on view {view.revision}; {self.newest} was committed "
                    f"{now - self._newest_since:.2f} s ago",
                )

    def _table_problem(self, view: View) -> str | None:
        if not view.live_data or not view.table.slots:
            return None
        if self.leaving:
            # A stopping server runs but does not count, and while it hands over, servers that ended keep their places.
            return next((f"slot {s.id} is held twice by one server" for s in view.table.slots if _held_twice(s)), None)
        try:
            servers = [node.as_server() for node in view.live_data]
            check_table(view.table, servers, self._replicas, is_committed=True, acting=view.acting)
        except InvalidTable as error:
            return str(error)
        return None

    def _acknowledges_alone(self, view: View) -> str | None:
        """Which slot's leader would acknowledge what a follower by this view does not have; None: none would. Whoever
        was reported as ready is waited for before the view is there, and nobody is left out before a newer one."""
        for row in view.table.slots:
            server = self._looked_at.get(row.leader or "")
            held = server.core.slots.get(row.id) if isinstance(server, DataServer) else None
            if not isinstance(server, DataServer) or held is None or not held.leads:
                continue
            missing = set(row.followers).difference(server.core.in_sync.needed(held))
            if missing and held.slot.leader_epoch == row.leader_epoch and held.serving:
                return f"{row.leader} acknowledges in slot {row.id} without {', '.join(sorted(missing))}, in sync by it"
        return None

    def _check_order(self, before: View, after: View) -> None:
        is_counted_anew = self._lost_at is not None and before.revision <= self._lost_at < after.revision
        if after.term < before.term and not is_counted_anew:
            self._verdict.violate(
                "I3",
                f"view {after.revision} was committed in term {after.term}, view {before.revision} in "
                f"{before.term} already",
            )
        if problem := table_order(before.table, after.table):
            self._verdict.violate("I4", f"views {before.revision} and {after.revision}: {problem}")
        if after.revision == before.revision + 1 and (problem := given_up(before, after)):
            self._verdict.violate("I14", f"views {before.revision} and {after.revision}: {problem}")

    # --- data --------------------------------------------------------------------------------------------------------

    def _serving(self) -> None:
        for name, server in self._cluster.servers.items():
            if not isinstance(server, DataServer):
                continue
            for number, held in server.core.slots.held.items():
                if held.serving and held.leads:
                    first = self._servers.setdefault((number, held.slot.leader_epoch), self._process(name))
                    if first != self._process(name):
                        self._verdict.violate(
                            "I6",
                            f"slot {number} is served by {first} and by {self._process(name)} under leader "
                            f"epoch {held.slot.leader_epoch}",
                        )

    def _process(self, name: str) -> str:
        return f"{name}, life {self._cluster.lives[name]}"


def table_order(before: SlotTable, after: SlotTable) -> str | None:
    """Why table ``after`` must not come after table ``before``, directly or later (I4); None if it may."""
    if after.epoch < before.epoch:
        return f"the epoch fell from {before.epoch} to {after.epoch}"
    if after.epoch == before.epoch:
        return None if after == before else f"there are two tables of epoch {after.epoch}"
    if not before.slots:
        return None
    if len(before.slots) != len(after.slots):
        return f"there were {len(before.slots)} slots and are {len(after.slots)}"
    return next(filter(None, map(_slot_order, before.slots, after.slots)), None)


def given_up(before: View, after: View) -> str | None:
    """Which slot lost its leader and went to a server without a copy, although a follower has a lease; None: none did.

    Session servers still have the records of their clients, so nothing is seen missing until one of them dies, too."""
    processes = {node.name: node.process_id for node in before.data}
    live = {node.name for node in after.live_data if processes.get(node.name) == node.process_id}
    for old, new in zip(before.table.slots, after.table.slots, strict=False):
        heirs = live.intersection(old.followers)
        if old.leader not in live and heirs and new.leader not in heirs:
            return (
                f"slot {old.id} lost {old.leader} and went to {new.leader}; {' and '.join(sorted(heirs))} followed it"
            )
    return None


def _held_twice(slot: Slot) -> bool:
    return len(set(slot.holders)) < len(slot.holders)


def _slot_order(before: Slot, after: Slot) -> str | None:
    if after.leader_epoch < before.leader_epoch:
        return f"slot {after.id}: the leader epoch fell from {before.leader_epoch} to {after.leader_epoch}"
    if after.leader != before.leader and after.leader_epoch == before.leader_epoch:
        return f"slot {after.id} went from {before.leader} to {after.leader} under leader epoch {after.leader_epoch}"
    return None
