"""Slot tables and servers for property tests, and a check of a plan's moves."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st
from slotreeve import Limits, Plan, Server, Slot, SlotTable
from slotreeve_machines.plan_check import moves_fault, plan_fault

Situation = tuple[SlotTable, list[Server], Limits]
"""The arguments of a call of an assigner or balancer."""


@st.composite
def complete_tables(draw: st.DrawFn, most_slots: int = 24, most_servers: int = 8) -> Situation:
    """Complete tables, spread over some of the live servers as unevenly as can be."""
    servers = _servers(draw, draw(st.integers(1, most_servers)))
    replicas = draw(st.integers(1, 4))
    copies = min(replicas, len(servers))
    holders = [server.name for server in servers[: draw(st.integers(copies, len(servers)))]]
    slots = [
        _slot(number, draw(st.permutations(holders))[:copies]) for number in range(draw(st.integers(1, most_slots)))
    ]
    return SlotTable(1, tuple(slots)), draw(st.permutations(servers)), Limits(replicas)


@st.composite
def broken_tables(draw: st.DrawFn, most_slots: int = 24, most_servers: int = 8) -> Situation:
    """Tables with servers that have left, missing leaders and missing followers; also unassigned tables."""
    servers_before = _servers(draw, draw(st.integers(1, most_servers)))
    live = servers_before[: draw(st.integers(1, len(servers_before)))]
    replicas = draw(st.integers(1, 4))
    names = [server.name for server in servers_before]
    slots = []
    for number in range(draw(st.integers(1, most_slots))):
        held = draw(st.permutations(names))[: draw(st.integers(0, min(replicas, len(names))))]
        slots.append(_slot(number, held) if draw(st.booleans()) else Slot(number, None, 0, tuple(held[1:])))
    return SlotTable(1, tuple(slots)), draw(st.permutations(live)), Limits(replicas)


def _servers(draw: st.DrawFn, count: int) -> list[Server]:
    """Servers, half of the time without zones, half of the time of equal weight. Their names do not sort as numbers."""
    zones = draw(st.sampled_from([[""], ["east", "west"], ["a", "b", "c", "d"]]))
    weights = draw(st.sampled_from([[1.0], [0.5, 1.0, 3.0]]))
    return [
        Server(f"data-{number}", draw(st.sampled_from(zones)), draw(st.sampled_from(weights)))
        for number in range(7, 7 + count)
    ]


def _slot(number: int, held: Sequence[str]) -> Slot:
    return Slot(number, held[0], 1, tuple(held[1:])) if held else Slot(number, None, 0, ())


def check_moves(before: SlotTable, plan: Plan) -> None:
    """Check that the moves lead from ``before`` to the plan's table and that each has a reason."""
    fault = moves_fault(before, plan)
    assert fault is None, str(fault)
    for move in plan.moves:
        assert move.reason.strip(), f"{move} has no reason"


def check_plan(before: SlotTable, plan: Plan | None, servers: Sequence[Server], replicas: int) -> None:
    """Check a plan as the meta leader does."""
    fault = plan_fault(before, plan, servers, replicas)
    assert fault is None, str(fault)
