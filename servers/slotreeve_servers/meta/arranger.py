"""What the slot table should become (original: ``ScheduledSlotArranger``). Pure, but for logging.

If a slot lacks a leader or follower, or is held by a server that left: the assigner. Else, once every slot is
reported in sync: one step of the balancer. A plugin that raises or returns an invalid table is logged and counted,
and the table stays (I5).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from slotreeve.errors import InvalidTable
from slotreeve.invariants import check_table
from slotreeve.model.nodes import Node, Server
from slotreeve.model.slots import Limits, Slot, SlotTable
from slotreeve.ports import Assigner, Balancer, Plan

log = logging.getLogger("slotreeve.arranger")


class Arranger:
    """Asks the plugins and checks what they say."""

    def __init__(self, slots: int, replicas: int, assigner: Assigner, balancer: Balancer) -> None:
        self._slots, self._limits = slots, Limits(replicas)
        self._assigner, self._balancer = assigner, balancer
        self.rejected = 0

    def next_plan(self, table: SlotTable, servers: Sequence[Server], stable: bool) -> Plan | None:
        """The next change of ``table`` for the servers that live now, or None.

        ``stable``: every slot of ``table`` is reported in sync, so that a leader may move without a gap. Without
        any server the table stays as it is: there is nobody to give the slots to.
        """
        if not servers:
            return None
        table = table if table.slots else SlotTable.unassigned(self._slots)
        if not is_complete(table, servers, self._limits.replicas):
            return self._checked("assigner", self._assigner.assign, table, servers)
        if stable:
            return self._checked("balancer", self._balancer.balance, table, servers)
        return None

    def _checked(
        self,
        role: str,
        plugin: Callable[[SlotTable, Sequence[Server], Limits], Plan | None],
        table: SlotTable,
        servers: Sequence[Server],
    ) -> Plan | None:
        try:
            plan = plugin(table, servers, self._limits)
            if plan is not None:
                check_table(plan.table, servers, self._limits.replicas)
                if len(plan.table.slots) != len(table.slots):
                    raise InvalidTable(f"it has {len(plan.table.slots)} slots, not {len(table.slots)}")
        except Exception:
            self.rejected += 1
            log.exception("the %s's result is rejected; the table of epoch %d stays", role, table.epoch)
            return None
        return plan if plan is not None and plan.moves else None


def without_replaced(table: SlotTable, before: Sequence[Node], now: Sequence[Node]) -> SlotTable:
    """``table`` without the places of servers that live under a name whose committed process was another one (or
    none): the new process holds nothing, so what it is given it gets under a new leader epoch (I4, I11). Returns
    ``table`` itself where there are none."""
    known = {node.name: node.process_id for node in before}
    replaced = {node.name for node in now if known.get(node.name) != node.process_id}
    if not any(slot.leader in replaced or not replaced.isdisjoint(slot.followers) for slot in table.slots):
        return table
    slots = [
        Slot(
            slot.id,
            None if slot.leader in replaced else slot.leader,
            slot.leader_epoch,
            tuple(name for name in slot.followers if name not in replaced),
        )
        for slot in table.slots
    ]
    return SlotTable(table.epoch, tuple(slots))


def is_complete(table: SlotTable, servers: Sequence[Server], replicas: int) -> bool:
    """Every slot has a leader and as many followers as there can be, all of them live."""
    live = {server.name for server in servers}
    followers = min(replicas, len(live)) - 1
    return all(
        slot.leader in live and len(slot.followers) >= followers and live.issuperset(slot.followers)
        for slot in table.slots
    )
