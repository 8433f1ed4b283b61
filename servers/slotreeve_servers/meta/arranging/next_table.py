"""The next slot table, as a function of all that it depends on. Pure, but for the logs and counts of the arranger.

With very many slots it takes longer than a leader's lease, so it runs beside the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from msgspec import structs
from slotreeve.invariants import check_successor, stamp
from slotreeve.model.nodes import Node, Server
from slotreeve.model.slots import Move, Slot, SlotTable
from slotreeve_protocol.meta_messages import View

from slotreeve_servers.meta.arranging.arranger import (
    Arrangement,
    Arranger,
    CopyReports,
    Leaving,
    PlannedTable,
    led_anew,
    without_replaced,
)
from slotreeve_servers.meta.arranging.loads import NO_LOADS, Loads
from slotreeve_servers.meta.members.heartbeats import Newest

log = logging.getLogger("slotreeve.meta")

NO_REPORTS = CopyReports()
NAMED_SLOTS = 5
"""An alarm names so many slots."""


@dataclass(frozen=True)
class Situation:
    """What the next table depends on.

    Attributes:
        view: the committed view.
        data, sessions: the members, by name, those without a lease among them.
        reports: of data servers. ``changes``: the number of changes of them.
        leaving: the servers on their way out.
        may_assign: False while the first data server of a new cluster waits for others.
        loads: of the slots, where a plugin looks at them.
        target: what was planned last.
    """

    view: View
    data: list[Node]
    sessions: list[Node]
    reports: CopyReports
    changes: int
    leaving: Leaving
    may_assign: bool
    loads: Loads = NO_LOADS
    target: PlannedTable | None = None

    @property
    def without_lease(self) -> tuple[list[str], list[str]]:
        """The data servers that only act, and those that are away, by name."""
        names = {node.name for node in self.data}
        return sorted(self.leaving.acting & names), sorted(self.leaving.away & names)

    @property
    def planned_servers(self) -> list[Server]:
        """The data servers that slots are planned for."""
        return [node.as_server() for node in self.data if node.name not in self.leaving.acting]

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for situations that have the same next table."""
        members = tuple(self.data), tuple(self.sessions)
        return (
            *(self.view.revision, self.view.term, members, self.changes, self.leaving),
            *(self.may_assign, self.loads.version, self.target),
        )


@dataclass(frozen=True)
class NextTable:
    """The table of the next view, the moves that lead to it, and the target of them.

    ``unclean``: see :class:`slotreeve_servers.meta.arranging.arranger.Arrangement`. ``is_for_no_view``: no view must
    follow the committed one. ``waiting``: data servers that cannot become members by this view.
    """

    table: SlotTable
    moves: Sequence[Move] = ()
    target: PlannedTable | None = None
    unclean: Sequence[Slot] = ()
    is_for_no_view: bool = False
    waiting: frozenset[str] = frozenset()


def next_table(arranger: Arranger, now: Situation) -> NextTable:
    """The table of the next view. A view that gives slots to servers that are not in sync has a successor in any case:
    it shows a later leader that this was said.

    Raises:
        InvalidTable: the arranger has made a table that must not follow (I4).
    """
    old = now.view
    before = without_replaced(old.table, old.data, now.data)
    found = Arrangement(None, now.target)
    if before.slots or now.may_assign:
        found = arranger.arrange(before, now.planned_servers, now.reports, now.leaving, now.loads, now.target)
    if found.plan is not None:
        table = stamp(before, found.plan.table, before.epoch + 1)
    elif before is old.table:
        table = before
    else:
        table = SlotTable(before.epoch + 1, before.slots)
    if any(slot.leader is None for slot in table.slots) and before is not old.table:
        # A new process may not become a member before its predecessor's slots have another leader epoch. Others do not
        # wait for that: the table may be protected for long.
        waiting = frozenset(
            str(was.leader) for was, row in zip(old.table.slots, table.slots, strict=True) if not row.leader
        )
        waiting &= {node.name for node in now.data}
        if not waiting:
            return NextTable(old.table, target=found.target, is_for_no_view=True)
        rest = next_table(arranger, replace(now, data=[node for node in now.data if node.name not in waiting]))
        return replace(rest, waiting=rest.waiting | waiting)
    is_same = (now.data, now.sessions, now.without_lease) == (old.data, old.sessions, (old.acting, old.away))
    if table is old.table and is_same and not old.unclean:
        return NextTable(old.table, target=found.target, is_for_no_view=True)
    check_successor(before, table)
    moves = () if found.plan is None else found.plan.moves
    return NextTable(table, (*_demotions(old.table, before), *moves), found.target, found.unclean)


def _demotions(old: SlotTable, before: SlotTable) -> Iterator[Move]:
    """The followers of ``old`` that learn in ``before``, and the learners that are not in it, because another process
    has their name."""
    if before is old:
        return
    for was, row in zip(old.slots, before.slots, strict=True):
        for name in was.followers:
            if name in row.learners:
                yield Move(row.id, "demote", name, None, f"{name} was started again")
        for name in was.learners:
            if name not in row.learners:
                yield Move(row.id, "drop", name, None, f"{name} was started again")


def living_leaders(view: View, data: Sequence[Node]) -> int:
    """Of how many slots the process that leads in ``view`` is among the data servers that live."""
    live = {node.process_id for node in data}
    leading = {node.name for node in view.data if node.process_id in live}
    return sum(row.leader in leading for row in view.table.slots)


def table_above(arranger: Arranger, now: Situation, newest: Newest) -> NextTable | None:
    """The table to go on with where members have newer numbers than the meta state: it was set back, or is a new one.
    None while there is none.

    ``now.view`` is that of a member, or the one of the meta state. Who led in it leads on under a new leader epoch, and
    above all numbers that members have, because they take only what is newer. Who is in sync is not known, so the
    followers learn. Where no holder is known, servers without a copy lead.
    """
    known = now.view
    epoch = max(newest.epoch, known.table.epoch)
    table = SlotTable(epoch, without_replaced(known.table, known.data, now.data).slots)
    if table.slots:
        table = led_anew(table)
    found = Arrangement(None, None)
    if table.slots or now.may_assign:
        found = arranger.arrange(table, now.planned_servers, NO_REPORTS, now.leaving, now.loads)
    if found.plan is not None:
        rows = (structs.replace(row, leader_epoch=epoch + 1) for row in found.plan.table.slots)
        table = SlotTable(epoch + 1, tuple(rows))
    if not table.slots or any(row.leader is None for row in table.slots):
        return None
    unclean = found.unclean if known.table.slots or not newest.epoch else table.slots
    return NextTable(table, found.plan.moves if found.plan is not None else (), found.target, unclean)


class UncleanTables:
    """Says it where slots are led by servers that were not in sync.

    Attributes:
        slots: how many slots there were since the start.
    """

    def __init__(self) -> None:
        self.slots = self._said = 0

    def say(self, view: View) -> None:
        """Log and count what a committed view gave away, once, whoever has committed it."""
        rows = [view.table.slots[number] for number in view.unclean]
        if rows and view.revision > self._said:
            self.slots += len(rows)
            named = ", ".join(f"slot {row.id} by {row.leader}" for row in rows[:NAMED_SLOTS])
            log.error(
                "ALARM: of %d slots no server in sync lived; by table %d others lead them (%s%s): leases in them may "
                "be lost; registrations come back from the session servers",
                *(len(rows), view.table.epoch, named, ", ..." if len(rows) > NAMED_SLOTS else ""),
            )
        self._said = max(self._said, view.revision)
