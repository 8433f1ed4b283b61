"""One trace replayed on real plugin code: what an arranger would do, in rounds, without a cluster.

A round is one decision: the assigner's while a slot lacks a holder, else a step of the balancer. It takes
``round_seconds`` of the trace's time, in which data are copied and reported in sync. When servers join or leave, the
rounds that fit until the next change are played.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import msgspec
from slotreeve import Limits, Plan, Server, SlotLoad, SlotTable
from slotreeve.errors import InvalidTable
from slotreeve.invariants import check_table
from slotreeve.ports import Assigner, Balancer, aware_of
from slotreeve_machines.plan_check import plan_fault

from slotreeve_spark.compare.evenness import followed, led, spread, uneven_share
from slotreeve_spark.compare.guard import description_of, in_short
from slotreeve_spark.compare.traces import QUIET_SECONDS, MembershipChange, MembershipTrace

Decide = Callable[[SlotTable, Sequence[Server], Limits], Plan | None]


class Replayed(msgspec.Struct):
    """What came of one trace. Counts and seconds of trace time, the same on every run; ``decision_*`` are measured.

    Attributes:
        changes: moments at which servers joined or left.
        leader_moves, follower_moves, moves: places that changed hands, the beginning not counted.
        copies: servers that came to hold a slot which they did not hold before: data over the network.
        least_leader_moves, least_copies: what a perfectly even table would have cost at least, change by change.
        rounds: decisions that changed the table. longest_rounds: most after one change.
        balance_seconds: until nothing was left to do, mean over the changes that were followed by enough time.
        interrupted: changes after which the next came before the balancer had ended.
        ended: after the last change nothing was left to do in the end: every slot has a leader with its data.
        uneven_share: in the end, see :func:`~slotreeve_spark.compare.evenness.uneven_share`.
        leader_spread, follower_spread: most minus fewest slots by server, in the end.
        load_spread: the leaders' load, most over mean, in the end. It is that of the recorded writes, or registrations
            if there were no writes; where none were recorded, slots have random loads, a few of them most of it.
        worst_leader_spread: after any change, once its rounds were played.
        slot_seconds_without_leader: slots times seconds.
        unready_slot_seconds: slots times seconds led by a server that had to copy the data first.
        violations: plans that were not good (:func:`~slotreeve_machines.plan_check.plan_fault`), plugin calls that
            raised, and plans that led back to a table that there was before, or to no end. first_violation: the first,
            as text.
        decision_ms, slowest_decision_ms: processor time of one call of a plugin, mean and longest.
        timeline: (trace seconds, moves so far) after each change, for plots.
    """

    changes: int = 0
    leader_moves: int = 0
    follower_moves: int = 0
    moves: int = 0
    copies: int = 0
    least_leader_moves: int = 0
    least_copies: int = 0
    rounds: int = 0
    longest_rounds: int = 0
    balance_seconds: float = 0.0
    interrupted: int = 0
    ended: bool = True
    uneven_share: float = 0.0
    leader_spread: int = 0
    follower_spread: int = 0
    load_spread: float = 0.0
    worst_leader_spread: int = 0
    slot_seconds_without_leader: float = 0.0
    unready_slot_seconds: float = 0.0
    violations: int = 0
    first_violation: str | None = None
    decision_ms: float = 0.0
    slowest_decision_ms: float = 0.0
    timeline: list[tuple[float, int]] = []


@dataclass
class Replay:
    """Plays traces with one assigner and one balancer."""

    assigner: Assigner
    balancer: Balancer
    slots: int
    replicas: int
    round_seconds: float = 1.0
    _seen: Replayed = field(default_factory=Replayed)
    _decisions_ms: list[float] = field(default_factory=list)
    _counting: bool = False
    _loads: Mapping[int, SlotLoad] = field(default_factory=dict)

    def play(self, trace: MembershipTrace, seed: int) -> Replayed:
        """The whole trace; ``seed`` decides the loads of the slots, if none were recorded. Plugins that look at loads
        are given them."""
        self._seen, self._decisions_ms, self._counting = Replayed(), [], False
        self._loads = MappingProxyType(loads_of(trace, self.slots, seed))  # plugins get them to read
        live = {server.name: server for server in trace.servers}
        table, _, finished = self._settle(SlotTable.unassigned(self.slots), _sorted(live), math.inf)
        self._counting, settled = True, list[float]()
        ends = [change.at_seconds for change in trace.changes[1:]]
        ends += [change.at_seconds + QUIET_SECONDS for change in trace.changes[-1:]]
        for change, end in zip(trace.changes, ends, strict=True):
            table, rounds, finished = self._change(table, live, change, end)
            if finished:
                settled.append(rounds * self.round_seconds)
        self._seen.ended = finished
        return self._sum_up(table, _sorted(live), settled)

    def _change(
        self, table: SlotTable, live: dict[str, Server], change: MembershipChange, end: float
    ) -> tuple[SlotTable, int, bool]:
        for name in change.leaves:
            del live[name]
        live.update((server.name, server) for server in change.joins)
        servers, seen = _sorted(live), self._seen
        bare = without_departed(table, live)
        seen.changes += 1
        seen.least_leader_moves += least_changes(led(bare), servers, self.slots)
        copies = self.slots * min(self.replicas, len(servers))
        seen.least_copies += least_changes(led(bare) + followed(bare), servers, copies)
        table, rounds, finished = self._settle(bare, servers, end - change.at_seconds)
        seen.longest_rounds = max(seen.longest_rounds, rounds)
        seen.interrupted += not finished
        seen.worst_leader_spread = max(seen.worst_leader_spread, spread(led(table), servers))
        seen.timeline.append((change.at_seconds, seen.moves))
        return table, rounds, finished

    def _settle(self, table: SlotTable, servers: Sequence[Server], seconds: float) -> tuple[SlotTable, int, bool]:
        """Rounds until nothing is left to do or the time is over; the table, their number, and whether all is done."""
        rounds, left, known = 0, _rounds_in(seconds, self.round_seconds), {_holders_hash(table)}
        while rounds < left:
            leaderless = sum(slot.leader is None for slot in table.slots)
            complete = _is_complete(table, servers, self.replicas)
            role, decide = ("balancer", self._balance) if complete else ("assigner", self._assign)
            plan, valid = self._ask(role, decide, table, servers)
            if plan is None:  # a pure function would return None again
                self._seen.slot_seconds_without_leader += leaderless * (seconds if seconds < math.inf else 0.0)
                return table, rounds, valid and complete
            rounds += 1
            self._account(table, plan, leaderless)
            table = plan.table
            if (holders := _holders_hash(table)) in known:
                self._violated(f"{role}: moves in circles: after {rounds} rounds the table is one that it was before")
                return table, rounds, False
            known.add(holders)
        if rounds == LONGEST:
            self._violated(f"{role}: does not end: after {rounds:,} rounds it still moves slots")
        return table, rounds, False

    def _balance(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        return aware_of(self.balancer, self._loads).balance(table, servers, limits)

    def _assign(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        return aware_of(self.assigner, self._loads).assign(table, servers, limits)

    def _ask(self, role: str, decide: Decide, table: SlotTable, servers: Sequence[Server]) -> tuple[Plan | None, bool]:
        """The plan if there is a good one, and whether all is well. Raises MemoryError: the plugin ran out of it."""
        began = time.thread_time()
        try:
            plan = decide(table, servers, Limits(self.replicas))
            self._decisions_ms.append((time.thread_time() - began) * 1000)
            fault = plan_fault(table, plan, servers, self.replicas)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - a third party's code may raise anything; it is counted
            self._violated(f"{role}: raised {description_of(error)}")
            return None, False
        if fault is not None:
            self._violated(f"{role}: {fault}")
            return None, False
        return (plan if plan is not None and plan.moves else None), True

    def _violated(self, what: str) -> None:
        self._seen.violations += 1
        self._seen.first_violation = self._seen.first_violation or in_short(what)

    def _account(self, table: SlotTable, plan: Plan, leaderless: int) -> None:
        if not self._counting:
            return
        seen = self._seen
        seen.rounds += 1
        leaders = sum(move.kind == "leader" for move in plan.moves)
        followers = sum(move.kind == "follower" for move in plan.moves)
        seen.leader_moves += leaders
        seen.follower_moves += followers
        seen.moves += leaders + followers
        seen.slot_seconds_without_leader += leaderless * self.round_seconds
        for before, after in zip(table.slots, plan.table.slots, strict=True):
            if before is not after:
                held = {before.leader, *before.followers}
                seen.copies += len({after.leader, *after.followers} - held)
                seen.unready_slot_seconds += self.round_seconds * (after.leader not in held)

    def _sum_up(self, table: SlotTable, servers: Sequence[Server], settled: list[float]) -> Replayed:
        seen, decisions = self._seen, self._decisions_ms
        seen.balance_seconds = sum(settled) / len(settled) if settled else 0.0
        seen.leader_spread = spread(led(table), servers)
        seen.follower_spread = spread(followed(table), servers)
        seen.uneven_share = uneven_share(table, servers, self.replicas)
        seen.load_spread = _load_spread(table, servers, self._loads)
        seen.decision_ms = sum(decisions) / len(decisions) if decisions else 0.0
        seen.slowest_decision_ms = max(decisions, default=0.0)
        return seen


def least_changes(counts: Counter[str], servers: Sequence[Server], total: int) -> int:
    """Places that must at least change hands for ``total`` places, of which ``counts`` are taken, to be spread over
    the servers by weight, within one place of the fair share."""
    weight = sum(server.weight for server in servers)
    surplus = missing = 0
    for server in servers:
        share = total * server.weight / weight
        surplus += max(0, counts[server.name] - math.ceil(share))
        missing += max(0, math.floor(share) - counts[server.name])
    free = total - sum(counts[server.name] for server in servers)
    return max(surplus + max(0, free), missing)


def _holders_hash(table: SlotTable) -> int:
    """A number that two tables of the same leaders and followers share, and others practically never."""
    return hash(tuple([(slot.leader, frozenset(slot.followers)) for slot in table.slots]))


def without_departed(table: SlotTable, live: Iterable[str]) -> SlotTable:
    """The table without the servers that are not live."""
    live = set(live)
    return SlotTable(
        table.epoch,
        tuple(
            msgspec.structs.replace(
                slot,
                leader=slot.leader if slot.leader in live else None,
                followers=tuple(name for name in slot.followers if name in live),
            )
            if not live.issuperset({slot.leader, *slot.followers})
            else slot
            for slot in table.slots
        ),
    )


def _is_complete(table: SlotTable, servers: Sequence[Server], replicas: int) -> bool:
    try:
        check_table(table, servers, replicas)
    except InvalidTable:
        return False
    return True


def _rounds_in(seconds: float, round_seconds: float) -> float:
    """Decisions that can take effect within that time; a change is acted upon at once, so there is always one."""
    return LONGEST if seconds == math.inf else min(LONGEST, 1 + seconds // round_seconds)


LONGEST = 10_000
"""Rounds after which a balancer is taken to be one that never ends."""


def _sorted(live: dict[str, Server]) -> tuple[Server, ...]:
    return tuple(live[name] for name in sorted(live))


def loads_of(trace: MembershipTrace, slots: int, seed: int) -> Mapping[int, SlotLoad]:
    """The loads of the slots: the recorded ones, if there are any and the recorded cluster had no more slots than the
    replayed one; else random ones."""
    if trace.loads and max(trace.loads) < slots:
        return trace.loads
    rng = random.Random(seed)
    drawn = [rng.paretovariate(1.5) for _ in range(slots)]
    return {slot: SlotLoad(round(100 * load), round(10_000 * load), load) for slot, load in enumerate(drawn)}


def _load_spread(table: SlotTable, servers: Sequence[Server], by_slot: Mapping[int, SlotLoad]) -> float:
    loads = dict.fromkeys((server.name for server in servers), 0.0)
    any_writes = any(load.writes_per_second for load in by_slot.values())
    for slot in table.slots:
        if slot.leader in loads and (load := by_slot.get(slot.id)) is not None:
            loads[slot.leader] += load.writes_per_second if any_writes else load.records
    mean = sum(loads.values()) / len(loads)
    return max(loads.values()) / mean if mean else 0.0
