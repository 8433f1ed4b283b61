"""The next change of the slot table (original: ``ScheduledSlotArranger``). Pure, but for logging.

First, servers on their way out hand the slots that they lead to followers in sync. Then, where a slot lacks a leader or
follower or is held by a server that left, the assigner is asked. Otherwise, once every slot is reported in sync, the
balancer is asked for one step. Where a plugin raises, returns an invalid table (I5) or moves that do not lead to its
table, that is logged and counted, and the table stays. A balancer whose steps do not come to an end is not asked again
before something else changes (:mod:`slotreeve_servers.meta.balancer_steps`). A balancer's step takes no complete copy
away before there is another one (:mod:`slotreeve_servers.meta.spare_copies`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

import msgspec
from slotreeve.model.draft import Draft
from slotreeve.model.nodes import Node, Server
from slotreeve.model.plan import Plan
from slotreeve.model.slots import Limits, Move, Slot, SlotTable
from slotreeve.ports import Assigner, Balancer, LoadAware, aware_of
from slotreeve_machines.plan_check import plan_fault

from slotreeve_servers.meta.balancer_steps import BalancerSteps
from slotreeve_servers.meta.known_copies import KnownCopies
from slotreeve_servers.meta.loads import NO_LOADS, Loads
from slotreeve_servers.meta.spare_copies import follow_first, with_spares, without_spares

log = logging.getLogger("slotreeve.arranger")


@dataclass(frozen=True)
class Leaving:
    """Names of the data servers that leave or are banned, and of those that only restart."""

    for_good: frozenset[str] = frozenset()
    for_a_restart: frozenset[str] = frozenset()


NOBODY_LEAVES = Leaving()
Decide = Callable[[SlotTable, Sequence[Server], Limits], Plan | None]


class Arranger:
    """Asks the plugins, and checks what they return.

    Attributes:
        protect_below: while fewer servers live, the table stays as it is.
        uses_loads: a plugin looks at the loads of the slots.
        rejected: results of plugins that were rejected since the start.
        balancer_fault: why the balancer is not asked at present; None if it is.
    """

    def __init__(
        self, slots: int, replicas: int, assigner: Assigner, balancer: Balancer, protect_below: int = 0
    ) -> None:
        self._slots, self._limits, self.protect_below = slots, Limits(replicas), protect_below
        self._assigner, self._balancer = assigner, balancer
        self._steps = BalancerSteps(slots * replicas)
        self.uses_loads = isinstance(assigner, LoadAware) or isinstance(balancer, LoadAware)
        self.rejected = 0
        self.balancer_fault: str | None = None

    def next_plan(
        self,
        table: SlotTable,
        servers: Sequence[Server],
        copies: KnownCopies,
        leaving: Leaving = NOBODY_LEAVES,
        loads: Loads = NO_LOADS,
    ) -> Plan | None:
        """The next change of ``table``, under which servers have reported ``copies``, for the servers that live now; or
        None. The table stays as it is where no server lives, and in protection mode."""
        if not servers or self.is_protected(servers):
            return None
        table = table if table.slots else SlotTable.unassigned(self._slots)
        staying = [server for server in servers if server.name not in leaving.for_good]
        if not staying:  # no server is left to take over
            staying, leaving = list(servers), NOBODY_LEAVES
        handed_over = self._hand_over(table, servers, copies, leaving)
        if handed_over is not None:
            return handed_over
        live = {server.name for server in servers}
        waits = any(self._waits(slot, live, copies, leaving) for slot in table.slots)
        if waits and all(slot.leader in live for slot in table.slots):
            return None
        if not is_complete(table, staying, self._limits.replicas):
            # Whoever waits for a follower keeps its slots, so that those without a leader need not wait, too.
            taking = servers if waits or _needs_who_leaves(table, servers, staying) else staying
            heirs, drops = _without_unready_heirs(table, {server.name for server in taking}, copies)

            def lacks(name: str, slot: int) -> int:
                return copies.lack(name, slot) if name in live else 3

            enough = without_spares(heirs, self._limits.replicas, lacks)
            if is_complete(enough.table, taking, self._limits.replicas):
                return Plan(enough.table, (*drops, *enough.moves))
            plan = self._checked("assigner", self._assign_with(loads), enough.table, taking)
            if plan is None:
                return None
            plan = follow_first(enough.table, _led_by_heirs(heirs, plan, taking), live, table)
            return Plan(plan.table, (*drops, *enough.moves, *plan.moves))
        holders = ((name, slot.id) for slot in table.slots for name in (slot.leader or "", *slot.followers))
        if all(copies.settled(name, slot) for name, slot in holders) and not leaving.for_a_restart:
            return self._balance(table, staying, loads)
        return None

    def _balance(self, table: SlotTable, servers: Sequence[Server], loads: Loads) -> Plan | None:
        """The balancer's next step. Every copy is complete, so spare ones go; what the step takes from a server stays
        there as a spare one, and who shall lead without a copy follows first."""
        enough = without_spares(table, self._limits.replicas)
        if self._is_without_end(table, servers, loads):
            self._steps.stop(enough.table, servers)
            return enough if enough.moves else None
        plan = self._checked("balancer", self._balance_with(loads), enough.table, servers)
        if plan is None:
            return enough if enough.moves else None
        live = {server.name for server in servers}
        step = with_spares(enough.table, follow_first(enough.table, plan, live, table), live)
        self._steps.step(table, step.table, servers)
        return Plan(step.table, (*enough.moves, *step.moves))

    def _assign_with(self, loads: Loads) -> Decide:
        return lambda *given: aware_of(self._assigner, loads.by_slot).assign(*given)

    def _balance_with(self, loads: Loads) -> Decide:
        return lambda *given: aware_of(self._balancer, loads.by_slot).balance(*given)

    def _is_without_end(self, table: SlotTable, servers: Sequence[Server], loads: Loads) -> bool:
        fault, before = self._steps.fault(table, servers, loads.version), self.balancer_fault
        self.balancer_fault = fault
        if fault is not None and before is None:
            self.rejected += 1
            log.error(
                "ALARM: the balancer does not come to an end: %s; it is not asked again before servers join or leave"
                "%s, and the table of epoch %d stays; choose another one ([balancer] use = ...)",
                *(fault, " or loads change" if self.uses_loads else "", table.epoch),
            )
        return fault is not None

    def is_protected(self, servers: Sequence[Server]) -> bool:
        """Protection mode: so many data servers left at once that a fault of the network is more likely."""
        return len(servers) < self.protect_below

    def _hand_over(
        self, table: SlotTable, servers: Sequence[Server], copies: KnownCopies, leaving: Leaving
    ) -> Plan | None:
        """A follower in sync takes the place of a leader that leaves; that one follows until it has left. No copy is
        lost or made."""
        going = leaving.for_good | leaving.for_a_restart
        if not going or not is_complete(table, servers, self._limits.replicas):
            return None
        draft = Draft(table, servers)
        for slot in table.slots:
            if slot.leader in going:
                heir = next((n for n in slot.followers if n not in going and copies.settled(n, slot.id)), None)
                if heir is not None:
                    draft.lead(slot.id, heir, f"{slot.leader} stops")
        return draft.plan() if draft.moves else None

    @staticmethod
    def _waits(slot: Slot, live: Set[str], copies: KnownCopies, leaving: Leaving) -> bool:
        """Whether a leader that leaves has a follower that lives, stays, and is not in sync yet."""
        going = leaving.for_good | leaving.for_a_restart
        heirs = [name for name in slot.followers if name in live and name not in going]
        return slot.leader in going and any(not copies.settled(name, slot.id) for name in heirs)

    def _checked(
        self,
        role: str,
        plugin: Decide,
        table: SlotTable,
        servers: Sequence[Server],
    ) -> Plan | None:
        try:
            plan = plugin(table, servers, self._limits)
            fault = plan_fault(table, plan, servers, self._limits.replicas)
        except Exception:
            self.rejected += 1
            log.exception("the %s's result is rejected; the table of epoch %d stays", role, table.epoch)
            return None
        if fault is not None:
            self.rejected += 1
            log.error("the %s's result is rejected; the table of epoch %d stays: %s", role, table.epoch, fault)
            return None
        return plan if plan is not None and plan.moves else None


def without_replaced(table: SlotTable, before: Sequence[Node], now: Sequence[Node]) -> SlotTable:
    """``table`` without the leaders whose process was replaced: a server lives under the name, but its committed
    process was another one, or none. The new process holds nothing, so it leads only under a new leader epoch (I4,
    I11). As a follower it keeps its places and copies the slots again. Returns ``table`` itself where no leader was
    replaced."""
    known = {node.name: node.process_id for node in before}
    replaced = {node.name for node in now if known.get(node.name) != node.process_id}
    if not any(slot.leader in replaced for slot in table.slots):
        return table
    slots = [
        Slot(slot.id, None if slot.leader in replaced else slot.leader, slot.leader_epoch, slot.followers)
        for slot in table.slots
    ]
    return SlotTable(table.epoch, tuple(slots))


def only_silent_may_lead(table: SlotTable, servers: Sequence[Server], silent: Set[str], copies: KnownCopies) -> bool:
    """Whether the next change of the table must wait. A slot has lost its leader, no follower is known to have had a
    complete copy, and one of the ``silent`` may have one: a member that has not reported to a new meta leader yet."""
    if not silent:
        return False
    live = {server.name for server in servers}
    return any(
        slot.leader not in live and not silent.isdisjoint(slot.followers) and not copies.ready_heirs(slot, live)
        for slot in table.slots
    )


def led_anew(table: SlotTable) -> SlotTable:
    """``table`` under the next epoch, with the same leaders under a new leader epoch: what they have may be older or
    newer than what the table says."""
    epoch = table.epoch + 1
    return SlotTable(epoch, tuple(msgspec.structs.replace(slot, leader_epoch=epoch) for slot in table.slots))


def _without_unready_heirs(table: SlotTable, live: Set[str], copies: KnownCopies) -> tuple[SlotTable, list[Move]]:
    """``table`` for an assigner, and the moves that lead to it. Where a leader has gone, and some of its followers are
    in sync and others are not, the latter are left out: one that has just been started again holds nothing yet, and
    must not lead in the place of one that has everything. The assigner takes it as a follower again.

    A follower in sync reports that it is none as soon as its connection to the dead leader ends. So where none is in
    sync, those are taken that were until then."""
    slots, drops = list(table.slots), list[Move]()
    for number, slot in enumerate(slots):
        if slot.leader in live:
            continue
        ready = copies.ready_heirs(slot, live)
        if ready:
            slots[number] = Slot(slot.id, slot.leader, slot.leader_epoch, ready)
            drops += [
                Move(slot.id, "drop", name, None, f"{name} is not in sync" if name in live else f"{name} left")
                for name in slot.followers
                if name not in ready
            ]
    return SlotTable(table.epoch, tuple(slots)), drops


def _needs_who_leaves(table: SlotTable, servers: Sequence[Server], staying: Sequence[Server]) -> bool:
    """Whether only servers that leave have a copy of some slot that lost its leader. They lead it until another one has
    a copy, too; then they hand it over."""
    live, stay = {server.name for server in servers}, {server.name for server in staying}
    return any(
        slot.leader not in live and stay.isdisjoint(slot.followers) and not live.isdisjoint(slot.followers)
        for slot in table.slots
    )


def _led_by_heirs(table: SlotTable, plan: Plan, servers: Sequence[Server]) -> Plan:
    """``plan`` with a former follower as the leader of each slot that lost its leader, wherever one lives.

    An assigner may think of even shares first (the original's does, above its high-water mark). But a server that had
    no copy must collect the slot from the session servers, and where a session server has died too, the records of its
    clients are nowhere but at the followers (I14). The server that the assigner chose follows, and the balancer moves
    the lead later, when the copy is complete."""
    live = {server.name for server in servers}
    draft = Draft(plan.table, servers)
    for before, after in zip(table.slots, plan.table.slots, strict=True):
        heirs = live.intersection(before.followers)
        if before.leader not in live and heirs and after.leader not in heirs:
            heir = min(heirs, key=lambda name: (draft.leads(name), name))
            draft.lead(before.id, heir, f"{heir} followed it, {after.leader} had no copy")
    return Plan(draft.table(), (*plan.moves, *draft.moves)) if draft.moves else plan


def is_complete(table: SlotTable, servers: Sequence[Server], replicas: int) -> bool:
    """Every slot has a leader and as many followers as there can be, all of them live."""
    live = {server.name for server in servers}
    followers = min(replicas, len(live)) - 1
    return all(
        slot.leader in live and len(slot.followers) >= followers and live.issuperset(slot.followers)
        for slot in table.slots
    )
