"""The next slot table, as a function of all that it depends on. Pure, but for the logs and counts of the arranger.

With very many slots it takes longer than a leader's lease, so it runs beside the event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slotreeve.invariants import check_successor, stamp
from slotreeve.model.nodes import Node
from slotreeve.model.slots import Move, SlotTable
from slotreeve_protocol.meta_messages import View

from slotreeve_servers.meta.arranger import Arranger, Leaving, only_silent_may_lead, without_replaced
from slotreeve_servers.meta.known_copies import KnownCopies
from slotreeve_servers.meta.loads import NO_LOADS, Loads


@dataclass(frozen=True)
class Situation:
    """What the next table depends on.

    Attributes:
        view: the committed view.
        data, sessions: the servers that hold a lease, by name.
        copies: what data servers have reported. ``reports``: the number of changes of that.
        silent: the members that have not reported yet, while this leader is new; later none.
        leaving: the servers on their way out.
        may_assign: False while the first data server of a new cluster waits for others.
        loads: of the slots, where a plugin looks at them.
    """

    view: View
    data: list[Node]
    sessions: list[Node]
    copies: KnownCopies
    reports: int
    silent: frozenset[str]
    leaving: Leaving
    may_assign: bool
    loads: Loads = NO_LOADS

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for situations that have the same next table."""
        members = tuple(self.data), tuple(self.sessions)
        return (
            *(self.view.revision, self.view.term, members, self.reports, self.silent, self.leaving, self.may_assign),
            self.loads.version,
        )


@dataclass(frozen=True)
class NextTable:
    """The table of the next view, which may be the present one, and the moves that lead to it."""

    table: SlotTable
    moves: Sequence[Move]


def next_table(arranger: Arranger, now: Situation) -> NextTable | None:
    """The table of the next view; None if no view must follow the committed one.

    Raises:
        InvalidTable: the arranger has made a table that must not follow (I4).
    """
    old = now.view
    before = without_replaced(old.table, old.data, now.data)
    plan = None
    if before.slots or now.may_assign:
        servers = [node.as_server() for node in now.data]
        if only_silent_may_lead(before, servers, now.silent, now.copies):
            return None
        plan = arranger.next_plan(before, servers, now.copies, now.leaving, now.loads)
    unchanged = now.data == old.data and now.sessions == old.sessions
    if plan is None and (unchanged or before is not old.table):
        # A new process may not become a member before its predecessor's slots have another leader epoch.
        return None
    table = before if plan is None else stamp(before, plan.table, before.epoch + 1)
    check_successor(before, table)
    return NextTable(table, () if plan is None else plan.moves)
