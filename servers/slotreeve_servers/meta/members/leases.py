"""The leases of data and session servers (original: ``SimpleLeaseManager``).

Pure: time is an argument. It is attended time (:mod:`slotreeve_servers.node.attention`), because a leader that was
frozen has read no heartbeat.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import SlotTable

from slotreeve_servers.meta.settings import MetaSettings
from slotreeve_servers.node.membership import LEASE_HEARTBEATS

CONNECTION_LOST = "connection lost"
RESTARTING = "is not back from its restart"
MISSING_SECONDS = 60.0
"""A session server that was not heard any more is named as missing for so long."""
SILENT_HEARTBEATS = 2
"""A leader that hears no server at all, or no data server, for so many heartbeat intervals is cut off itself: leases
last no longer than that meanwhile."""
NO_TABLE = SlotTable()
ACTING_HEARTBEATS = LEASE_HEARTBEATS + 1
"""A server may act on what it was granted last for less than so many heartbeat intervals: its clock and this one's may
run at different speeds."""


class Renewal(Enum):
    """What a heartbeat changed."""

    NOTHING = 0
    JOINED = 1
    """Unknown until now."""
    CHANGED = 2
    """Known, but restarted, moved, or with another zone or weight; or its lease had ended."""


class HeardTime:
    """Time that stands still while nobody is heard: of each silence so many seconds count at most.

    Attributes:
        heard_at: when somebody was heard last, in attended seconds.
    """

    def __init__(self, most: float) -> None:
        self._most, self._passed = most, 0.0
        self.heard_at = -math.inf

    def hear(self, now: float) -> None:
        """Somebody is heard."""
        self._passed, self.heard_at = self.read(now), now

    def runs_for(self, now: float) -> float:
        """The seconds that will pass before it stands still, unless somebody is heard."""
        return max(0.0, self._most - (now - self.heard_at))

    def read(self, now: float) -> float:
        """The seconds that have passed."""
        return self._passed + min(now - self.heard_at, self._most)


class Leases:
    """One lease for each server. Departure from the original: a lost connection shortens the lease at once.

    Leases last in time in which somebody is heard (:class:`HeardTime`): a leader that all others follow in the election
    may be cut off from every data and session server, and if it removed them all, their slots would be without leaders,
    and copies without a place. Those of data servers last in time in which a data server is heard. After a silence each
    server has a whole lease to be heard again, but no second one before that: another one may fall silent very often.

    Attributes:
        acting: members whose lease has ended, and who may acknowledge alone yet (docs/copies.md, rule 5).
        away: those that have stopped for a restart.

    Invariant: every known node has a deadline; a renewal only ever sets it to ``meta.lease_seconds`` from now.
    """

    def __init__(self, rules: MetaSettings) -> None:
        self._lease, self._lost = rules.lease_seconds, rules.lost_connection_seconds
        self._unseen = rules.unseen_seconds
        self._silence = SILENT_HEARTBEATS * rules.heartbeat_seconds
        self._heartbeat = rules.heartbeat_seconds
        self._grant = ACTING_HEARTBEATS * rules.heartbeat_seconds
        self._all, self._data = HeardTime(self._silence), HeardTime(self._silence)
        self._nodes: dict[str, Node] = {}
        self._deadlines: dict[str, float] = {}
        self._reasons: dict[str, str] = {}
        # The seconds that servers were given to be heard again, which they were not since then.
        self._awaited: dict[str, float] = {}
        self._missing: dict[str, float] = {}
        self._renewed_at: dict[str, float] = {}
        self._adopted_at = -math.inf
        self.acting: frozenset[str] = frozenset()

    @property
    def nodes(self) -> list[Node]:
        """The live servers, by name."""
        return [self._nodes[name] for name in sorted(self._nodes)]

    @property
    def away(self) -> frozenset[str]:
        """See the class."""
        return frozenset(name for name, reason in self._reasons.items() if reason == RESTARTING)

    def missing(self, now: float) -> list[str]:
        """The process ids of session servers whose lease has ended without their word, in the last
        :data:`MISSING_SECONDS`, sorted."""
        self._missing = {name: since for name, since in self._missing.items() if now - since < MISSING_SECONDS}
        return sorted(self._missing)

    @property
    def awaited(self) -> Role | None:
        """Of which role some member should be heard: data servers, unless all are away; None where there is none."""
        if any(node.role is Role.DATA and self._reasons.get(name) != RESTARTING for name, node in self._nodes.items()):
            return Role.DATA
        return Role.SESSION if self._nodes else None

    def silent_seconds(self, now: float) -> float:
        """For how long nobody has been heard of the role that is awaited, and at most since this meta server leads; 0
        where none is."""
        role = self.awaited
        return now - max(self._adopted_at, self._time(role).heard_at) if role is not None else 0.0

    def heard_seconds(self, name: str, now: float) -> float:
        """For how long a live server has sent no heartbeat, and at most since this meta server leads."""
        return now - self._renewed_at[name]

    def doubt(self, name: str) -> str:
        """Why the lease of a live server ends soon; empty if it does not."""
        return self._reasons.get(name, "")

    def adopt(
        self,
        nodes: list[Node],
        silences: Mapping[str, float],
        now: float,
        missing: Sequence[str] = (),
        acting: Sequence[str] = (),
        away: Sequence[str] = (),
    ) -> None:
        """Start again with ``nodes``, as a new leader does: a lease for each server that is connected, from when this
        process has heard it last, and ``meta.unseen_seconds`` to connect for the others. Time in which nobody was heard
        does not count here either.

        Args:
            silences: for how many seconds nothing has come from each connected process, by its id.
            missing, acting, away: as they were at the leader before.
        """
        self._missing = dict.fromkeys(missing, now)
        self._adopted_at = now
        self._nodes = {node.name: node for node in nodes}
        self._all.hear(now)
        if any(node.role is Role.DATA and node.process_id in silences for node in nodes):
            self._data.hear(now)
        connected = [node for node in nodes if node.process_id in silences]
        least = {self._all: math.inf, self._data: math.inf}
        for node in connected:
            for time in {self._all, self._time(node.role)}:
                least[time] = min(least[time], silences[node.process_id])
        left = {name: 0.0 if name in acting else self._unseen for name in self._nodes}
        for node in connected:
            silence = silences[node.process_id] - least[self._time(node.role)]
            left[node.name] = max(0.0, self._lease - silence)
        self._deadlines = {node.name: self._time(node.role).read(now) + left[node.name] for node in nodes}
        self._renewed_at = dict.fromkeys(self._nodes, now)
        self._reasons = {
            node.name: RESTARTING if node.name in away else "not seen"
            for node in nodes
            if node.process_id not in silences
        }
        self._awaited.clear()
        self.acting = frozenset()

    def expect(self, nodes: Iterable[Node], now: float) -> None:
        """Members by a view that was not known here: each that is none yet has a lease to be heard."""
        for node in nodes:
            if node.name not in self._nodes:
                self._nodes[node.name] = node
                self._deadlines[node.name] = self._time(node.role).read(now) + self._lease
                self._renewed_at[node.name] = now
                self._reasons[node.name] = "not seen"

    def _time(self, role: Role) -> HeardTime:
        return self._data if role is Role.DATA else self._all

    def rival(self, node: Node) -> Node | None:
        """The other process that has the name of this one, and lives: its lease is not over, and its connection has not
        ended. None if there is none: a process that was started again may take the place of the one before it."""
        known = self._nodes.get(node.name)
        if known is None or known.process_id == node.process_id or node.name in self._reasons:
            return None
        return known

    def renew(self, node: Node, now: float) -> Renewal:
        """A heartbeat arrived."""
        self._hear(node.role, now)
        known = self._nodes.get(node.name)
        self._nodes[node.name] = node
        self._missing.pop(node.process_id, None)
        self._deadlines[node.name] = self._time(node.role).read(now) + self._lease
        self._renewed_at[node.name] = now
        self._reasons.pop(node.name, None)
        self._awaited.pop(node.name, None)
        is_same = known == node and node.name not in self.acting
        self.acting -= {node.name}
        if known is None:
            return Renewal.JOINED
        return Renewal.NOTHING if is_same else Renewal.CHANGED

    def connection_lost(self, name: str, process_id: str, now: float) -> None:
        """The connection to a server has ended: it has ``meta.lost_connection_seconds`` to come back. A late notice
        about an earlier process of the same name is ignored."""
        node = self._nodes.get(name)
        if node is not None and node.process_id == process_id and name not in self._reasons:
            self._deadlines[name] = min(self._deadlines[name], self._time(node.role).read(now) + self._lost)
            self._reasons[name] = CONNECTION_LOST

    def connection_made(self, name: str, role: Role, process_id: str, now: float) -> None:
        """A server has connected. If the loss of its connection had shortened its lease, it has at least
        ``meta.unseen_seconds`` to send a heartbeat."""
        self._hear(role, now)
        node = self._nodes.get(name)
        if node is not None and node.process_id == process_id and self._reasons.get(name) == CONNECTION_LOST:
            time = self._time(role).read(now)
            self._deadlines[name] = max(self._deadlines[name], time + self._unseen)
            del self._reasons[name]

    def extend_all(self, now: float) -> None:
        """After a time in which no server was connected: each has at least ``meta.unseen_seconds`` to connect. Who has
        not been heard since the last such time has had them."""
        self._await(self._nodes, self._unseen, now)

    def _await(self, names: Iterable[str], seconds: float, now: float) -> None:
        for name in names:
            if seconds > self._awaited.get(name, 0.0):
                self._awaited[name] = seconds
                time = self._time(self._nodes[name].role).read(now)
                self._deadlines[name] = max(self._deadlines[name], time + seconds)

    def leave(self, node: Node, back_in: float, now: float) -> bool:
        """The server leaves on purpose: for good, or for ``back_in`` seconds. A data server's places are kept for that
        time; a session server has none. True if that process held a lease."""
        known = self._nodes.get(node.name)
        if known is None or known.process_id != node.process_id:
            return False
        if back_in <= 0 or node.role is Role.SESSION:
            self._drop(node.name)
        else:
            self._deadlines[node.name] = self._time(node.role).read(now) + back_in
            self._reasons[node.name] = RESTARTING
        return True

    def expire(self, now: float, table: SlotTable = NO_TABLE) -> list[tuple[Node, str]]:
        """Remove and return the servers whose lease has ended, each with the reason; but who leads a slot of ``table``
        that no live server follows stays a member as long as it may act on what it was granted last."""
        ended = {name for name in self._nodes if self._left(name, now) <= 0}
        silent = (name for name in ended if self._reasons.get(name) != RESTARTING)
        may_act = {name for name in silent if now - self._renewed_at[name] < self._grant}
        live = self._nodes.keys() - ended - self.away
        rows = table.slots if may_act else ()
        self.acting = frozenset(str(row.leader) for row in rows if row.is_led_alone(may_act, live))
        gone = sorted(ended - self.acting)
        result = [(self._nodes[name], self._reasons.get(name, "lease expired")) for name in gone]
        for name in gone:
            if self._nodes[name].role is Role.SESSION:
                self._missing[self._nodes[name].process_id] = now
            self._drop(name)
        return result

    def _left(self, name: str, now: float) -> float:
        return self._deadlines[name] - self._time(self._nodes[name].role).read(now)

    def next_in(self, now: float) -> float | None:
        """In how many seconds the next lease may end; None while there is none. Where time stands still before, that is
        not sooner than after a further heartbeat."""
        left = [self._renewed_at[name] + self._grant - now for name in self.acting]
        for name, node in self._nodes.items():
            seconds = self._left(name, now)
            if name not in self.acting:
                stands_still = seconds > self._time(node.role).runs_for(now)
                left.append(max(seconds, self._heartbeat) if stands_still else seconds)
        return min(left, default=None)

    def refused(self, role: Role, now: float) -> None:
        """A process was refused the name of another one. So data servers reach this leader, and their leases end as
        always. It is no member: where no member at all is heard, no lease ends."""
        if role is Role.DATA:
            self._hear_in(self._data, now)

    def _hear(self, role: Role, now: float) -> None:
        self._hear_in(self._all, now)
        if role is Role.DATA:
            self._hear_in(self._data, now)

    def _hear_in(self, time: HeardTime, now: float) -> None:
        stood_still = now - time.heard_at >= self._silence
        time.hear(now)
        if stood_still:
            self._await([name for name, node in self._nodes.items() if self._time(node.role) is time], self._lease, now)

    def _drop(self, name: str) -> None:
        del self._nodes[name], self._deadlines[name], self._renewed_at[name]
        self._reasons.pop(name, None)
        self._awaited.pop(name, None)
        self.acting -= {name}
