"""Scenarios for assigners and balancers: read from JSON lines, and played without a cluster.

One object a line: ``slots``, ``replicas`` (leader included), ``servers`` (names, or objects with ``name``, ``zone``,
``weight``) and ``initial`` (null or absent: nothing is assigned; else rows ``[slot, leader, [followers]]``). Other keys
are left alone, so that files of test vectors can be used as they are. A line may also be the table of a live cluster,
as ``slotreeve slots -o json`` prints it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, TypedDict

import msgspec
from slotreeve import Limits, Move, Plan, Server, Slot, SlotTable
from slotreeve.errors import ModelError, PluginError
from slotreeve.invariants import check_table
from slotreeve.ports import Assigner, Balancer
from slotreeve_servers.meta.arranging.arranger import is_complete

LONGEST_CONVERGENCE = 10_000
"""Steps after which a balancer is taken to be one that never ends."""

Row = tuple[int, str | None, list[str]]


@dataclass(frozen=True)
class PlanScenario:
    """What an assigner or balancer is asked.

    Attributes:
        table: the initial table.
        servers, limits: as the ports take them.
        where: file and line, for messages.
    """

    table: SlotTable
    servers: tuple[Server, ...]
    limits: Limits
    where: str


class PlanOutcome(TypedDict):
    """What came of it.

    Attributes:
        result: the rows of the table in the end; None if nothing was to be done.
        moves: every change in order: slot, kind, source, target, reason.
        steps: how many times a plugin changed the table.
        spread: fewest and most slots led, then followed, by one server in the end.
    """

    result: list[Row] | None
    moves: list[dict[str, object]]
    steps: int
    spread: list[int]


# --- reading ---------------------------------------------------------------------------------------------------------


class _Server(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    zone: str = ""
    weight: Annotated[float, msgspec.Meta(gt=0)] = 1.0


class _Line(msgspec.Struct):
    slots: Annotated[int, msgspec.Meta(ge=1, le=65_536)]
    replicas: Annotated[int, msgspec.Meta(ge=1, le=7)]
    servers: Annotated[list[Annotated[str, msgspec.Meta(min_length=1)] | _Server], msgspec.Meta(min_length=1)]
    initial: list[Row] | None = None


class _LiveSlot(msgspec.Struct):
    slot: Annotated[int, msgspec.Meta(ge=0)]
    leader: str | None = None
    followers: list[str] = []
    learners: list[str] = []


class _LiveTable(msgspec.Struct):
    """What ``slotreeve slots -o json`` prints. Servers and replicas are lacking in what older versions have printed."""

    slots: Annotated[list[_LiveSlot], msgspec.Meta(min_length=1, max_length=65_536)]
    servers: list[_Server] = []
    replicas: Annotated[int, msgspec.Meta(ge=1, le=7)] | None = None


def read_scenarios(name: str, lines: Iterable[str]) -> Iterator[PlanScenario]:
    """The scenarios of a file called ``name``, one a line; empty lines are skipped.

    Raises:
        ModelError: a line is no scenario; the message names file and line, what is wrong, and what would be right.
    """
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _scenario(line, f"{name}, line {number}")


def _scenario(text: str, where: str) -> PlanScenario:
    try:
        line = _line(text, where)
    except msgspec.ValidationError as error:
        raise ModelError(
            f"{where}: {error}; a scenario is an object with slots, replicas, servers and, if not null, initial, or "
            "what slotreeve slots -o json has printed"
        ) from None
    except msgspec.DecodeError as error:
        raise ModelError(f"{where}: not JSON: {error}; each line must be one JSON object") from None
    servers = tuple(Server(s) if isinstance(s, str) else Server(s.name, s.zone, s.weight) for s in line.servers)
    names = [server.name for server in servers]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ModelError(f"{where}: server {min(twice)} stands twice among the servers; names must be unique")
    return PlanScenario(_table(line, where), servers, Limits(line.replicas), where)


class _Form(msgspec.Struct):
    slots: object = None


def _line(text: str, where: str) -> _Line:
    """A scenario, also that of a live table. Raises msgspec.DecodeError."""
    if not isinstance(msgspec.json.decode(text, type=_Form).slots, list):
        return msgspec.json.decode(text, type=_Line)
    live = msgspec.json.decode(text, type=_LiveTable)
    if sorted(slot.slot for slot in live.slots) != list(range(len(live.slots))):
        raise ModelError(f"{where}: the slots are not all from 0 to {len(live.slots) - 1}, each once; save it again")
    copies = [len(slot.followers) + 1 for slot in live.slots if slot.leader is not None]
    # While slots move, some have a copy more than they keep.
    replicas = live.replicas or (statistics.mode(copies) if copies else 1)
    initial: list[Row] = [
        (slot.slot, slot.leader, [*slot.followers, *slot.learners][: replicas - 1])
        for slot in sorted(live.slots, key=lambda slot: slot.slot)
    ]
    named = sorted({name for _, leader, followers in initial for name in (leader, *followers) if name is not None})
    servers = live.servers or [_Server(name) for name in named]
    if not servers:
        raise ModelError(f"{where}: no server is in the table; it was saved before a data server had joined")
    return _Line(len(initial), replicas, [*servers], initial)


def _table(line: _Line, where: str) -> SlotTable:
    slots = list(SlotTable.unassigned(line.slots).slots)
    seen = set()
    for slot, leader, followers in line.initial or []:
        if not 0 <= slot < line.slots:
            raise ModelError(f"{where}: initial has slot {slot}; there are {line.slots}, from 0 on")
        if slot in seen:
            raise ModelError(f"{where}: initial has slot {slot} twice; each slot may have one row")
        if len({leader, *followers}) <= len(followers):
            raise ModelError(f"{where}: slot {slot} names a server twice; leader and followers must be distinct")
        if len(followers) >= line.replicas:
            raise ModelError(
                f"{where}: slot {slot} has {len(followers)} followers; with {line.replicas} replicas it may have "
                f"{line.replicas - 1}"
            )
        seen.add(slot)
        slots[slot] = Slot(slot, leader, 0, tuple(followers))
    return SlotTable(0, tuple(slots))


# --- playing ---------------------------------------------------------------------------------------------------------


def assign(scenario: PlanScenario, assigner: Assigner) -> PlanOutcome:
    """What the assigner makes of the table.

    Raises:
        InvalidTable: its result is not valid (I5).
    """
    plan = assigner.assign(scenario.table, scenario.servers, scenario.limits)
    if plan is not None:
        check_table(plan.table, scenario.servers, scenario.limits.replicas)
    return _outcome(scenario, [] if plan is None else [plan])


def balance(scenario: PlanScenario, balancer: Balancer) -> PlanOutcome:
    """One step of the balancer.

    Raises:
        ModelError: the initial table is not what balancers take: a slot has no leader, or a server is not live.
    """
    _must_be_held_by_the_living(scenario)
    plan = balancer.balance(scenario.table, scenario.servers, scenario.limits)
    return _outcome(scenario, [] if plan is None else [plan])


def converge(
    scenario: PlanScenario, assigner: Assigner, balancer: Balancer, longest: int = LONGEST_CONVERGENCE
) -> PlanOutcome:
    """Balance until nothing is left to do, after an assignment if anything is unassigned at first.

    Raises:
        PluginError: the balancer still found something to do after ``longest`` steps.
        InvalidTable: the assigner's result is not valid (I5).
    """
    table, plans = scenario.table, list[Plan]()
    if not is_complete(table, scenario.servers, scenario.limits.replicas):
        plan = assigner.assign(table, scenario.servers, scenario.limits)
        if plan is not None:
            check_table(plan.table, scenario.servers, scenario.limits.replicas)
            plans.append(plan)
            table = plan.table
    for _ in range(longest + 1):
        plan = balancer.balance(table, scenario.servers, scenario.limits)
        if plan is None:
            return _outcome(scenario, plans)
        plans.append(plan)
        table = plan.table
    raise PluginError(
        f"{scenario.where}: the balancer does not end: after {longest} steps it still finds something to move, last "
        f"{plans[-1].moves[-1].reason if plans[-1].moves else 'nothing, in a plan without moves'!r}; it must return "
        f"None in the end"
    )


def _must_be_held_by_the_living(scenario: PlanScenario) -> None:
    live = {server.name for server in scenario.servers}
    for slot in scenario.table.slots:
        if slot.leader is None or not live.issuperset({slot.leader, *slot.followers}):
            raise ModelError(
                f"{scenario.where}: slot {slot.id} has no leader or is held by a server that is not live; balance "
                f"takes complete tables, assign or converge complete them first"
            )


def _outcome(scenario: PlanScenario, plans: list[Plan]) -> PlanOutcome:
    table = plans[-1].table if plans else scenario.table
    return {
        "result": [(slot.id, slot.leader, list(slot.followers)) for slot in table.slots] if plans else None,
        "moves": [_move(move) for plan in plans for move in plan.moves],
        "steps": len(plans),
        "spread": spread(table, scenario.servers),
    }


def _move(move: Move) -> dict[str, object]:
    return {field: getattr(move, field) for field in Move.__struct_fields__}


def spread(table: SlotTable, servers: Iterable[Server]) -> list[int]:
    """Fewest and most slots led by one of the servers, fewest and most followed."""
    led = dict.fromkeys((server.name for server in servers), 0)
    followed = dict(led)
    for slot in table.slots:
        if slot.leader in led:
            led[slot.leader] += 1
        for name in slot.followers:
            if name in followed:
                followed[name] += 1
    return [min(led.values()), max(led.values()), min(followed.values()), max(followed.values())]
