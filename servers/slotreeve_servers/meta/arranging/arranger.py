"""The next change of the slot table (original: ``ScheduledSlotArranger``). Pure, but for logging.

What a plugin plans is a target. Where a slot of the target lacks a leader or follower, or is held by a server that
leaves, the assigner is asked. Once every slot is held as the target has it, or will be by the next table, the balancer
is asked for one step. The way to the target is the same for all: each slot gets the next safe row of it
(:func:`slotreeve_servers.meta.arranging.copy_steps.towards`). Deaths, planned stops, bans and moves are nothing but
targets.

Where a plugin raises, returns an invalid table (I5) or moves that do not lead to its table, that is logged and counted,
and the target stays. A balancer whose steps do not come to an end is not asked again before something else changes
(:mod:`slotreeve_servers.meta.arranging.balancer_steps`).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set, Sized
from dataclasses import dataclass, field
from traceback import format_exception_only
from types import MappingProxyType

import msgspec
from slotreeve.model.nodes import Node, Server
from slotreeve.model.plan import Plan
from slotreeve.model.slots import Limits, Move, Slot, SlotTable
from slotreeve.ports import Assigner, Balancer, LoadAware, aware_of
from slotreeve_machines.plan_check import plan_fault

from slotreeve_servers.meta.arranging.balancer_steps import BalancerSteps
from slotreeve_servers.meta.arranging.copy_steps import NO_REPORT, CopyReport, CopyStep, towards
from slotreeve_servers.meta.arranging.loads import NO_LOADS, Loads

log = logging.getLogger("slotreeve.arranger")

LONGEST_FAULT = 200
"""Characters of what a plugin did wrong that people are told; the log has all of it."""


@dataclass(frozen=True)
class Leaving:
    """Names of the data servers that leave or are banned, and of those that only restart; and of two kinds of members
    that have no lease: those that are silent and may act yet, and those that have stopped for a restart."""

    for_good: frozenset[str] = frozenset()
    for_a_restart: frozenset[str] = frozenset()
    acting: frozenset[str] = frozenset()
    away: frozenset[str] = frozenset()


NOBODY_LEAVES = Leaving()


@dataclass(frozen=True)
class CopyReports:
    """What the data servers have reported under the present table.

    Attributes:
        by_slot: of copies, by the leader of the slot.
        unsettled: by each server that has reported, the slots of which it lacks something.
        silent: the data servers that have not been heard since this meta server leads.
    """

    by_slot: Mapping[int, CopyReport] = field(default_factory=dict)
    unsettled: Mapping[str, Set[int]] = field(default_factory=dict)
    silent: frozenset[str] = frozenset()

    def are_settled(self, table: SlotTable) -> bool:
        """Whether every holder of a slot that reaches its leader has reported that it holds it completely."""
        return all(
            name in self.unsettled and slot.id not in self.unsettled[name]
            for slot in table.slots
            for name in slot.holders
            if name not in self.of(slot).absent
        )

    def of(self, slot: Slot) -> CopyReport:
        """The report of a slot's leader; an empty one where there is none."""
        return self.by_slot.get(slot.id, NO_REPORT)


@dataclass(frozen=True, eq=False)
class PlannedTable:
    """What the plugins have planned last: a table without learners, and why a slot is as it is there. Each plan is
    another one, whatever its table."""

    table: SlotTable
    reasons: Mapping[int, str] = field(default_factory=dict)


def rest_of_way(table: SlotTable, target: PlannedTable | None) -> list[Slot]:
    """The rows of a target that ``table`` has not reached."""
    aims = target.table.slots if target is not None else ()
    return [aim for row, aim in zip(table.slots, aims, strict=False) if not _are_alike(row, aim)]


def resumed(table: SlotTable, rest: Sequence[Slot]) -> PlannedTable | None:
    """The target of which ``rest`` was left (:func:`rest_of_way`); None where nothing was."""
    return PlannedTable(_with_rows(table, {row.id: row for row in rest})) if rest else None


@dataclass(frozen=True)
class Arrangement:
    """The next table with the moves that lead to it, and the target on the way to which it is. ``unclean``: the slots
    that are led there by a server that was not in sync."""

    plan: Plan | None
    target: PlannedTable | None
    unclean: Sequence[Slot] = ()


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
        # Of the last result of each plugin. Replaced, not changed: the event loop reads it while a thread plans.
        self._faults: Mapping[str, str] = {}

    def arrange(
        self,
        table: SlotTable,
        servers: Sequence[Server],
        reports: CopyReports,
        leaving: Leaving = NOBODY_LEAVES,
        loads: Loads = NO_LOADS,
        target: PlannedTable | None = None,
    ) -> Arrangement:
        """The next change of ``table`` for the servers that live now, or come back from a restart. ``target``: what the
        last call returned. The table stays as it is where there is no server, and in protection mode."""
        if not servers or self.is_protected(servers):
            return Arrangement(None, target)
        table = table if table.slots else SlotTable.unassigned(self._slots)
        # A tuple, and loads to read: what a plugin would change in them, the check of its plan would not notice.
        staying = tuple(server for server in servers if server.name not in leaving.for_good)
        if not staying:  # no server is left to take over
            staying, leaving = tuple(servers), Leaving(acting=leaving.acting, away=leaving.away)
        if target is None or len(target.table.slots) != len(table.slots):
            target = PlannedTable(table)
        intended = self._intended(target.table)
        if intended is not target.table:
            target = PlannedTable(intended, target.reasons)
        aim = SlotTable(table.epoch, target.table.slots)
        may_balance = not leaving.for_a_restart and reports.are_settled(table)
        if not is_complete(aim, staying, self._limits.replicas):
            target = _aimed(target, self._checked("assigner", self._assign_with(loads), aim, staying))
            may_balance = False
        else:
            self._without_fault("assigner")  # it is not needed
        found = self._way(table, target, servers, reports, leaving)
        if may_balance and _is_reached(table if found.plan is None else found.plan.table, aim, reports):
            plan = self._balance(aim, staying, loads)
            if plan is not None:
                # The last step's end and the next one's beginning are one table.
                return self._way(table, _aimed(target, plan), servers, reports, leaving)
            if found.plan is None and target.reasons:
                return Arrangement(None, PlannedTable(target.table))
        return found

    @property
    def why_not_planned(self) -> str:
        """Why the table may stay as it is although it should change, for people; empty: nothing is wrong."""
        rejected = [f"the {role}'s plan is rejected: {fault}" for role, fault in self._faults.items()]
        endless = [] if self.balancer_fault is None else [f"the balancer comes to no end: {self.balancer_fault}"]
        return "; ".join([*rejected, *endless])

    def _reject(self, role: str, why: str) -> None:
        self.rejected += 1
        self._faults = {**self._faults, role: why if len(why) <= LONGEST_FAULT else f"{why[:LONGEST_FAULT]}..."}

    def _without_fault(self, role: str) -> None:
        if role in self._faults:
            self._faults = {known: fault for known, fault in self._faults.items() if known != role}

    def is_protected(self, servers: Sized) -> bool:
        """Protection mode: so many data servers left at once that a fault of the network is more likely."""
        return len(servers) < self.protect_below

    def _intended(self, table: SlotTable) -> SlotTable:
        """What a table on its way aims at, as far as it shows that: learners follow where followers are too few."""
        most = self._limits.replicas - 1
        return _with_rows(
            table,
            {
                slot.id: Slot(slot.id, slot.leader, slot.leader_epoch, (*slot.followers, *slot.learners)[:most])
                for slot in table.slots
                if slot.learners or len(slot.followers) > most
            },
        )

    def _way(
        self, table: SlotTable, target: PlannedTable, servers: Sequence[Server], reports: CopyReports, leaving: Leaving
    ) -> Arrangement:
        """The next safe table on the way to the target; none where nothing can or need be done now. A server that only
        acts keeps the slots that it leads and no live server follows, and no others. One that is away holds nothing."""
        names, going = {server.name for server in servers} - leaving.away, leaving.for_good | leaving.for_a_restart
        leads = Counter(slot.leader for slot in table.slots)
        leading = frozenset(name for name in leads if name is not None)
        rows, moves, unclean = dict[int, Slot](), list[Move](), list[Slot]()

        def rank(name: str) -> tuple[int, int, str]:
            return int(name in reports.silent or name in going), leads[name], name

        for row, planned in zip(table.slots, target.table.slots, strict=True):
            aim = _relieved(row, planned, leaving.for_a_restart | leaving.away, leading)
            report = reports.by_slot.get(row.id)
            live = names | {str(row.leader)} if row.is_led_alone(leaving.acting, names) else names
            if row.leader not in live and aim.leader in leaving.away:
                aim = _led_meanwhile(aim, min(live, key=rank, default=aim.leader))
            if report is None and _are_alike(row, aim) and live.issuperset(row.holders):
                continue
            stops = next((f"{name} stops" for name in row.holders if name in going), None)
            why = stops or target.reasons.get(row.id, "as planned")
            change = towards(row, aim, live, report or NO_REPORT, rank, why, going)
            if change.moves:
                rows[row.id] = change.row
                moves += change.moves
                leads[change.row.leader] += change.row.leader != row.leader
                if CopyStep.UNCLEAN in change.steps:
                    unclean.append(change.row)
        plan = Plan(_with_rows(table, rows), tuple(moves)) if moves else None
        return Arrangement(plan, target, unclean)

    # --- the plugins -------------------------------------------------------------------------------------------------

    def _balance(self, table: SlotTable, servers: Sequence[Server], loads: Loads) -> Plan | None:
        """The balancer's next step."""
        if self._is_without_end(table, servers, loads):
            return None
        plan = self._checked("balancer", self._balance_with(loads), table, servers)
        if plan is not None:
            self._steps.step(table, plan.table, servers)
        return plan

    def _assign_with(self, loads: Loads) -> Decide:
        return lambda *given: aware_of(self._assigner, MappingProxyType(loads.by_slot)).assign(*given)

    def _balance_with(self, loads: Loads) -> Decide:
        return lambda *given: aware_of(self._balancer, MappingProxyType(loads.by_slot)).balance(*given)

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
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # also SystemExit: a plugin ends nothing but its own plan
            self._reject(role, format_exception_only(error)[-1].strip())  # also of one that cannot be printed
            log.exception("the %s's result is rejected; the table of epoch %d stays", role, table.epoch)
            return None
        if fault is not None:
            self._reject(role, str(fault))
            log.error("the %s's result is rejected; the table of epoch %d stays: %s", role, table.epoch, fault)
            return None
        self._without_fault(role)
        return plan if plan is not None and plan.moves else None


def without_replaced(table: SlotTable, before: Sequence[Node], now: Sequence[Node]) -> SlotTable:
    """``table`` without those whose process was replaced: a server lives under the name, but its committed process was
    another one, or none. The new process holds nothing: it leads only under a new leader epoch (I4, I11), and where the
    former one followed it learns. Where that one learned, it begins anew, because its leader may have called the former
    process ready. Returns ``table`` itself where none was replaced."""
    known = {node.name: node.process_id for node in before}
    replaced = {node.name for node in now if known.get(node.name) != node.process_id}
    if not replaced:
        return table
    return _with_rows(
        table,
        {slot.id: _without(slot, replaced) for slot in table.slots if not replaced.isdisjoint(slot.holders)},
    )


def _without(slot: Slot, replaced: Set[str]) -> Slot:
    return Slot(
        slot.id,
        None if slot.leader in replaced else slot.leader,
        slot.leader_epoch,
        tuple(name for name in slot.followers if name not in replaced),
        (
            *(name for name in slot.learners if name not in replaced),
            *(name for name in slot.followers if name in replaced),
        ),
    )


def led_anew(table: SlotTable) -> SlotTable:
    """``table`` under the next epoch, with the same leaders under a new leader epoch: what they have may be older or
    newer than what the table says. Who is in sync is not known, so the followers learn."""
    epoch = table.epoch + 1
    return SlotTable(
        epoch, tuple(Slot(row.id, row.leader, epoch, (), (*row.followers, *row.learners)) for row in table.slots)
    )


def is_complete(table: SlotTable, servers: Sequence[Server], replicas: int) -> bool:
    """Every slot has a leader and as many followers as there can be, all of them live."""
    live = {server.name for server in servers}
    followers = min(replicas, len(live)) - 1
    return all(
        slot.leader in live and len(slot.followers) >= followers and live.issuperset(slot.followers)
        for slot in table.slots
    )


def _relieved(row: Slot, aim: Slot, restarting: Set[str], leading: Set[str]) -> Slot:
    """``aim``, but one that restarts follows where another one in sync can lead meanwhile. Of several that restart one
    hands over to those behind it by name, which wait until it is back. Who leads nothing any more may have stopped."""
    if aim.leader is None or aim.leader not in restarting:
        return aim
    heirs = [name for name in row.in_sync if name in aim.followers]
    staying = [name for name in heirs if name not in restarting]
    waiting = [name for name in heirs if name in restarting & leading and name > aim.leader]
    present = [name for name in heirs if name == row.leader and aim.leader not in leading]
    heir = next(iter((*staying, *waiting, *present)), None)
    return aim if heir is None else _led_meanwhile(aim, heir)


def _led_meanwhile(aim: Slot, heir: str) -> Slot:
    """``aim``, but ``heir`` leads, and its leader follows."""
    followers = (name for name in (*aim.followers, str(aim.leader)) if name != heir)
    return msgspec.structs.replace(aim, leader=heir, followers=tuple(followers))


def _aimed(target: PlannedTable, plan: Plan | None) -> PlannedTable:
    """The target of a plan that was made from ``target``."""
    if plan is None:
        return target
    return PlannedTable(plan.table, {**target.reasons, **{move.slot: move.reason for move in reversed(plan.moves)}})


def _is_reached(table: SlotTable, target: SlotTable, reports: CopyReports) -> bool:
    """Whether all that the target wants lead and follow; others may follow, too, and go with the next table. Where one
    does not reach the leader, that may take for ever, and nothing else waits for it."""
    return all(
        row is aim
        or (row.leader == aim.leader and not row.learners and set(row.followers).issuperset(aim.followers))
        or bool(reports.of(row).absent)
        for row, aim in zip(table.slots, target.slots, strict=True)
    )


def _are_alike(row: Slot, aim: Slot) -> bool:
    """The same leader and the same followers, in any order, and nobody learns."""
    return (
        row.leader == aim.leader
        and not row.learners
        and (row.followers == aim.followers or set(row.followers) == set(aim.followers))
    )


def _with_rows(table: SlotTable, rows: Mapping[int, Slot]) -> SlotTable:
    """``table`` with other rows; ``table`` itself where there are none."""
    return SlotTable(table.epoch, tuple([rows.get(row.id, row) for row in table.slots])) if rows else table
