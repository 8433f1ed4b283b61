"""The last heartbeat of each data and session server: what it holds, and whether it stops. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import SlotTable
from slotreeve_protocol.meta_messages import Heartbeat, Stopping, View

from slotreeve_servers.meta.arranging.arranger import CopyReports, Leaving
from slotreeve_servers.meta.arranging.copy_steps import CopyReport

UNBELIEVABLE = 1 << 53
"""No cluster commits so many views. A server that claims to have one is wrong, and must not use the numbers up."""
UNBELIEVABLE_EPOCH = 1 << 31
"""Nor so many tables. An epoch is the upper half of the versions of services, which have 64 bits."""


class Newest(NamedTuple):
    """How far the meta state counts that servers know: the highest revision of a view, epoch of a table, term of a
    leader and sum of the versions of the configuration, and the name of one who has the highest. They may come of
    different histories, and so from different servers."""

    name: str
    revision: int
    epoch: int
    term: int = 0
    config_total: int = 0

    @property
    def text(self) -> str:
        """The numbers, for the log."""
        return (
            f"view {self.revision}, table {self.epoch}, term {self.term}, "
            f"{self.config_total} changes of the configuration"
        )


def is_believed(revision: int, epoch: int) -> bool:
    """Whether a server may have a view of this revision, with a table of this epoch."""
    return revision < UNBELIEVABLE and epoch < UNBELIEVABLE_EPOCH


class LastHeartbeats:
    """Heartbeats by the name of the server.

    Attributes:
        changes: rises with each change of what the arranger may look at.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._last: dict[str, Heartbeat] = {}

    def take(self, heartbeat: Heartbeat) -> bool:
        """Keep a heartbeat; True if it differs from the one before it in what the arranger waits for."""
        before = self._last.get(heartbeat.node.name)
        self._last[heartbeat.node.name] = heartbeat
        is_news = before is None or _reported(before) != _reported(heartbeat)
        self.changes += is_news
        return is_news

    def forget(self, name: str) -> None:
        """The server has left."""
        self.changes += 1
        self._last.pop(name, None)

    def clear(self) -> None:
        """Forget all of them, as a new leader does."""
        self.changes += 1
        self._last.clear()

    def above(self, own: Newest) -> Newest | None:
        """The highest numbers that any server has, where one is higher than the meta state's ``own``. Configuration
        counts under the same view, because it is counted anew in each era. Numbers that no cluster reaches are not
        believed."""
        newest = own
        for name, heartbeat in self._last.items():
            has = Newest(name, heartbeat.revision, heartbeat.table_epoch)
            if heartbeat.revision >= own.revision:  # else it is late, and takes the view and its term
                has = has._replace(term=heartbeat.term)
            if heartbeat.revision == own.revision:
                has = has._replace(config_total=heartbeat.config_total)
            if is_believed(has.revision, has.epoch) and max(has.term, has.config_total) < UNBELIEVABLE:
                highest = tuple(map(max, has[1:], newest[1:]))
                if highest != newest[1:]:
                    newest = Newest(name, *highest)
        return None if newest is own else newest

    def having_newer(self, revision: int) -> list[Node]:
        """The servers that have a view newer than this revision; first those that have the newest one."""
        newer = (h for h in self._last.values() if revision < h.revision < UNBELIEVABLE)
        return [heartbeat.node for heartbeat in sorted(newer, key=lambda h: -h.revision)]

    def reports(self, table: SlotTable, members: Iterable[str] = ()) -> CopyReports:
        """What the servers have reported under ``table``. The report of a leader counts under its own leader epoch.
        ``members``: those of them that have sent no heartbeat at all are silent."""
        by_slot, unsettled = dict[int, CopyReport](), dict[str, frozenset[int]]()
        for name, heartbeat in self._last.items():
            if heartbeat.table_epoch != table.epoch:
                continue
            unsettled[name] = frozenset(heartbeat.unsettled)
            for told in heartbeat.copies:
                row = table.slots[told.slot] if 0 <= told.slot < len(table.slots) else None
                if row is not None and (row.leader, row.leader_epoch) == (name, told.leader_epoch):
                    by_slot[told.slot] = CopyReport(*map(frozenset, (told.ready, told.lost, told.absent)))
        return CopyReports(by_slot, unsettled, frozenset(members).difference(self._last))

    def leaving(
        self, banned: frozenset[str], data: Iterable[str], acting: Iterable[str] = (), away: Iterable[str] = ()
    ) -> Leaving:
        """The servers on their way out: those that stop, and those that the operator banned, unless all other ``data``
        servers with a lease stop, too: then the banned ones take over. ``acting``, ``away``: those without one."""
        for_good = frozenset(name for name, h in self._last.items() if h.stopping is Stopping.FOR_GOOD)
        for_a_restart = frozenset(name for name, h in self._last.items() if h.stopping is Stopping.FOR_A_RESTART)
        acting, away = frozenset(acting), frozenset(away)
        if banned.union(for_good, for_a_restart, acting, away).issuperset(data):
            banned = frozenset()
        return Leaving(for_good | banned, for_a_restart, acting, away)

    def last(self, name: str) -> Heartbeat | None:
        """The last heartbeat of a server; None if it has sent none since this server leads."""
        return self._last.get(name)

    def may_leave(self, heartbeat: Heartbeat, view: View, banned: frozenset[str], is_protected: bool) -> bool:
        """Whether the sender stops and has handed over everything, or nothing that it holds can be handed over: no
        server is left to take it, or the table is protected and stays as it is. One that restarts hands over to those
        that have copies, or shall have them; where there is nobody, it would wait for nothing."""
        name = heartbeat.node.name
        if heartbeat.stopping is Stopping.NO:
            return False
        if heartbeat.node.role is not Role.DATA or is_protected:
            return True
        leaving = self.leaving(banned, [node.name for node in view.data], view.acting, view.away).for_good
        if not any(node.name not in leaving for node in view.data):
            return True
        held = [slot for slot in view.table.slots if name in slot.holders]
        if heartbeat.stopping is Stopping.FOR_A_RESTART:
            aims = {aim.id: aim for aim in view.target}
            return not any(
                slot.leader == name and len({*slot.holders, *aims.get(slot.id, slot).holders}) > 1 for slot in held
            )
        return not held


def _reported(heartbeat: Heartbeat) -> tuple[object, ...]:
    return heartbeat.table_epoch, heartbeat.unsettled, heartbeat.stopping, heartbeat.copies
